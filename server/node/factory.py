"""The factory of nodes, for tests and simulations."""

from collections.abc import Collection, Mapping, Sequence

from ...engine import Engine, EngineSettings
from ...hachannel import Channel, Log, Settings
from .node import Node
from .outputs import NodeSettings

__all__ = ["make_node"]


def make_node(
    me: int,
    members: Sequence[int],
    *,
    server: int,
    names: Mapping[str, int],
    incarnation: int,
    cluster: str,
    expected: int,
    channel_settings: Settings | None = None,
    engine_settings: EngineSettings | None = None,
    settings: NodeSettings | None = None,
    log: Log | None = None,
    engine: Engine | None = None,
    witnesses: Collection[int] = (),
) -> Node:
    """Return a node that has not started. Raises ValueError when the arguments contradict each other.

    See `Channel` and `Engine` for the arguments. engine: used in place of a new one; it has applied all
    entries that a durable `log` knows to be committed.
    """
    channel = Channel(
        me,
        members,
        incarnation=incarnation,
        cluster=cluster,
        expected=expected,
        settings=channel_settings,
        log=log,
        witnesses=witnesses,
    )
    return Node(channel, engine or Engine(server, names, engine_settings), settings)
