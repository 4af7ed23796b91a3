"""The services of a replica, divided by where they run: on the master, or on every replica of the view."""

from collections.abc import Sequence
from typing import Final

from ..config import ServiceSpec
from .service_class import load_service
from .service_host import LOCAL_CONNECTIONS

__all__ = ["GROUPS", "divided"]

GROUPS: Final = ServiceSpec("quorate.groups.service:GroupService")
"""The service of every replica for the groups of clients."""


def divided(declared: Sequence[ServiceSpec]) -> tuple[list[ServiceSpec], list[ServiceSpec]]:
    """Return the services of every replica and those of the master, in their order, built-in ones included.

    A class that cannot be imported counts as one of the master, which reports it when it starts.
    """
    everywhere = [spec for spec in declared if _scope(spec) == "replica"]
    master = [spec for spec in declared if spec not in everywhere]
    return [*everywhere, GROUPS], [*master, LOCAL_CONNECTIONS]


def _scope(spec: ServiceSpec) -> str:
    try:
        return load_service(spec.class_name).scope
    except (Exception, SystemExit):
        return "master"
