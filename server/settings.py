"""The settings of a replica's parts, read from the properties of the configuration."""

from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from ..engine import EngineSettings
from ..hachannel import Settings
from ..hachannel.transport.connection import LinkSettings
from .config import Config, Replica, Server
from .config.properties import ANSWERS, BOOLEANS
from .errors import StartError
from .node.batching import BatchLimits
from .node.outputs import NodeSettings
from .storage.snapshotter import SnapshotSettings

__all__ = ["ReplicaSettings"]

DEFAULT_TRACE_BYTES: Final = 10 * 1024**3
T = TypeVar("T")


@attrs.frozen
class ReplicaSettings:
    """The settings of a replica. Properties of the same name as a field of a part set that field."""

    secret: str | None
    trace: bool
    """Property ``trace``: write a trace; true by default."""
    trace_roll_s: float
    """Property ``trace_roll_s``: a file of the trace is closed when its oldest row is this old."""
    trace_outputs: bool
    """Property ``trace_outputs``: the trace has what reactions asked for, not only its hash."""
    trace_keep_bytes: int
    """Property ``trace_keep_bytes``: the oldest files of the trace are removed above it; 0: none are."""
    trace_keep_s: int
    """Property ``trace_keep_s``: files of the trace are removed when they are older; 0: none are."""
    channel: Settings
    engine: EngineSettings
    node: NodeSettings
    link: LinkSettings
    durability: SnapshotSettings
    agent_modules: tuple[str, ...] = ()
    """Property ``agent_modules``: modules that are imported before the agents are loaded."""

    @classmethod
    def read(cls, config: Config, server: Server, replica: Replica) -> "ReplicaSettings":
        """Read the settings. Raises StartError, which names the property, for a value that cannot be used."""

        def value(name: str, default: T, convert: Callable[[str], T], expected: str) -> T:
            text = config.setting(name, server=server.id, replica=replica.id)
            if text is None:
                return default
            try:
                return convert(text)
            except (ValueError, KeyError):
                raise StartError(f"The property '{name}' is '{text}'; it must be {expected}.") from None

        def seconds(name: str, default: float) -> float:
            return value(name, default, _positive, "a number of seconds above 0")

        def whole(name: str, default: int) -> int:
            return value(name, default, _natural, "a whole number of 0 or more")

        def boolean(name: str, default: bool) -> bool:
            return value(name, default, lambda text: BOOLEANS[text.lower()], "true or false")

        channel, engine, node, limits = Settings(), EngineSettings(), NodeSettings(), BatchLimits()
        durability = SnapshotSettings()
        suspect_s = seconds("suspect_s", channel.suspect_s)
        try:
            channel = Settings(
                mode=server.ack,
                min_copies=server.min_copies,
                heartbeat_s=seconds("heartbeat_s", channel.heartbeat_s),
                suspect_s=suspect_s,
                lease_s=seconds("lease_s", suspect_s * 3 / 4),
                stall_s=seconds("stall_s", channel.stall_s),
            )
        except ValueError as error:
            raise StartError(f"These properties contradict each other: {error}.") from None
        return cls(
            secret=config.setting("secret", server=server.id, replica=replica.id),
            trace=boolean("trace", True),
            trace_roll_s=seconds("trace_roll_s", 10.0),
            trace_outputs=boolean("trace_outputs", False),
            trace_keep_bytes=whole("trace_keep_bytes", DEFAULT_TRACE_BYTES),
            trace_keep_s=whole("trace_keep_s", 0),
            channel=channel,
            engine=EngineSettings(
                max_turn=whole("max_turn", engine.max_turn),
                max_turn_bytes=whole("max_turn_bytes", engine.max_turn_bytes),
                max_waiting=whole("max_waiting", engine.max_waiting),
                high_water=whole("high_water", engine.high_water),
                stop_on_exception=boolean("stop_on_exception", engine.stop_on_exception),
            ),
            node=NodeSettings(
                limits=BatchLimits(batch_notes=whole("batch_notes", limits.batch_notes)),
                digest_every=whole("digest_every", node.digest_every),
                answers=value("answers", node.answers, _answers, " or ".join(ANSWERS)),
                homes=server.mode == "group",
            ),
            # The channel suspects a silent peer before the connection to it is dropped.
            link=LinkSettings(
                silence_s=max(LinkSettings().silence_s, 2 * suspect_s),
                refusal_ends=boolean("refusal_ends", False),
            ),
            durability=SnapshotSettings(
                snapshot_entries=whole("snapshot_entries", durability.snapshot_entries),
                snapshot_bytes=whole("snapshot_bytes", durability.snapshot_bytes),
            ),
            agent_modules=value("agent_modules", (), lambda text: tuple(text.split()), "names of modules"),
        )


def traced_replicas(config: Config) -> dict[str, list[int]]:
    """Return the replicas that write a trace, by server: those with agents, unless it is off."""

    def wanted(server: Server, replica: Replica) -> bool:
        text = config.setting("trace", server=server.id, replica=replica.id)
        return not (replica.witness or server.mode == "mesh") and (
            text is None or BOOLEANS.get(text.lower(), True)
        )

    traced = {
        server.name: [replica.id for replica in server.replicas if wanted(server, replica)]
        for server in config.servers
    }
    return {name: replicas for name, replicas in traced.items() if replicas}


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 86400:
        raise ValueError
    return number


def _answers(text: str) -> str:
    return ANSWERS[ANSWERS.index(text)]


def _natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number
