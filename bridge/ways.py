"""The ways of a bridge, as the arguments of the service name them. Pure."""

import re
from typing import Final

import attrs

from ..client.errors import BadUrl
from ..client.url import Endpoint, parse_url, url_tls
from ..tls import TlsFiles

__all__ = ["BridgeSettings", "Way", "read_arguments"]

_EXAMPLE: Final = "quorate://oslo:2560,bergen:2560 mesh:prices->topic:prices topic:alerts->mesh:alerts"
_MESH: Final = "mesh"
_OPTION: Final = re.compile(r"(\w+)=(.*)")


@attrs.frozen
class Way:
    """One way of a bridge: from a topic of the mesh to a destination, or back."""

    topic: str
    """The name of the topic of the mesh."""
    destination: str
    """The address of the queue or topic: ``topic:prices``, or ``topic:prices@s1`` on another server."""
    inward: bool
    """Messages come from the mesh."""

    def __str__(self) -> str:
        ends = (f"mesh:{self.topic}", self.destination)
        return "->".join(ends if self.inward else ends[::-1])

    @property
    def agent(self) -> str:
        """The name of the agent that keeps the state of the way."""
        kind = "inlet" if self.inward else "outlet"
        return f"mesh-{kind}:{self.topic}:{self.destination.replace('@', '/')}"


@attrs.frozen
class BridgeSettings:
    """What the arguments of the service say."""

    endpoints: tuple[Endpoint, ...]
    """The addresses of daemons of the mesh."""
    ways: tuple[Way, ...]
    name: str = ""
    """The name of the persistent subscriptions in the mesh; empty: one with the name of the server."""
    whole: bool = False
    """Messages travel through the mesh with their headers and properties."""
    tls: TlsFiles | None = None
    """How the connections to the mesh are encrypted; None: not at all."""


def read_arguments(text: str) -> BridgeSettings:
    """Read the arguments of the service. Raises ValueError with one sentence."""
    url, *words = text.split() or [""]
    try:
        endpoints, tls = parse_url(url), url_tls(url)
    except BadUrl as error:
        raise ValueError(f"a bridge needs the addresses of the mesh first: {error}") from None
    ways: list[Way] = []
    options = {"name": "", "whole": "no"}
    for word in words:
        option = _OPTION.fullmatch(word)
        if option is None:
            ways.append(_way(word))
        elif option[1] in options:
            options[option[1]] = option[2]
        else:
            raise ValueError(f"a bridge has no option {option[1]!r}; it has {', '.join(options)}")
    if not ways:
        raise ValueError(f'a bridge has at least one way; write args="{_EXAMPLE}"')
    if options["whole"] not in ("yes", "no"):
        raise ValueError(f"whole is yes or no, not {options['whole']!r}")
    _check_together(ways)
    return BridgeSettings(endpoints, tuple(ways), options["name"], options["whole"] == "yes", tls)


def _way(word: str) -> Way:
    ends = [end.partition(":")[::2] for end in word.split("->")]
    kinds = [kind for kind, name in ends if name]
    if len(ends) == 2 and kinds[:1] == [_MESH] and kinds[1:] in (["topic"], ["queue"]):
        return Way(ends[0][1], ":".join(ends[1]), inward=True)
    if len(ends) == 2 and kinds[1:] == [_MESH] and kinds[:1] in (["topic"], ["queue"]):
        return Way(ends[1][1], ":".join(ends[0]), inward=False)
    raise ValueError(
        f"{word!r} is no way of a bridge: write one of mesh:TOPIC->topic:NAME, mesh:TOPIC->queue:NAME, "
        "topic:NAME->mesh:TOPIC and queue:NAME->mesh:TOPIC"
    )


def _check_together(ways: list[Way]) -> None:
    for index, way in enumerate(ways):
        for other in ways[:index]:
            if way == other:
                raise ValueError(f"the way {way} is there twice; keep one")
            if way.topic == other.topic and way.inward == other.inward:
                both = f"{other} and {way}"
                if way.inward:
                    raise ValueError(f"{both} take from the same topic; keep one, and forward from there")
                raise ValueError(f"{both} bring to the same topic; forward one destination to the other")
            both_ways = way.topic == other.topic and way.destination == other.destination
            if both_ways and way.destination.startswith("queue:"):
                raise ValueError(
                    f"{other} and {way} would take from the queue what its consumers are to get; use a topic"
                )
