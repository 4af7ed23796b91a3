"""The trace of a replica over its lives.

The files of one life hold its reactions without a gap. Where some are missing, because the state came from
another replica, a new life begins.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThread

from ...engine import Reaction
from ...hachannel import ViewEvent
from ...replay.schema import Origin
from ..context import ReplicaContext
from ..node.outputs import RoleChange
from ..settings import traced_replicas

if TYPE_CHECKING:
    from ..trace.writer import TraceWriter

__all__ = ["TraceLives", "open_writer"]


def open_writer(context: ReplicaContext, origin: Origin) -> "TraceWriter | None":
    """Return the writer of the trace of a replica or daemon, None if what it needs is not installed."""
    try:
        from ..trace.retention import Retention
        from ..trace.writer import TraceWriter
    except ImportError as error:
        context.log(f"no trace is written: {error}; install quorate[replay] for one")
        return None
    directory, settings = context.directory / "trace", context.settings
    return TraceWriter(
        directory,
        origin,
        roll_s=settings.trace_roll_s,
        retention=Retention(directory, context.server.id, settings.trace_keep_bytes, settings.trace_keep_s),
    )


class TraceLives:
    """Opens and closes the trace of a replica. Without a trace in the settings, all methods do nothing."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._wanted = context.settings.trace and not context.replica.witness
        self._writer: TraceWriter | None = None
        self._life = 0
        """The number of the life in the names of the files. Within one life no reaction is missing."""
        self._traced = 0
        """Position of the last reaction written."""

    @property
    def problem(self) -> str | None:
        """The reason for which reactions are not on the disk, in one sentence; None if all are."""
        return None if self._writer is None else self._writer.problem

    def open(self, life: int, replayed: Sequence[Reaction] = (), accepted: str = "") -> None:
        """Begin a life with the number `life` or a higher one, and write the reactions `replayed`.

        `accepted`: the first of their entries that ended otherwise than before, and how.
        """
        if not self._wanted:
            return
        context = self._context
        self._life = max(self._life + 1, life)
        self._writer = open_writer(context, self._origin(accepted))
        self._traced = 0
        if replayed:
            self.write(list(replayed))

    def _origin(self, accepted: str) -> Origin:
        config, server = self._context.config, self._context.server
        return Origin(
            server.name,
            server.id,
            self._context.replica.id,
            self._life,
            config.names,
            traced_replicas(config),
            accepted,
        )

    def write(self, reactions: list[Reaction]) -> None:
        """Write reactions. A new life begins after a gap: the state came from another replica then."""
        if self._traced and reactions[0].position != self._traced + 1:
            self.close()
            self.open(self._life)
        self._traced = reactions[-1].position
        if self._writer is not None:
            self._writer.write(reactions)

    def view(self, event: ViewEvent) -> None:
        """Record that a view is active."""
        self._event(
            "view",
            view=str(event.view),
            index=event.index,
            master=event.master,
            members=list(event.members),
            reason=event.reason,
        )

    def role(self, role: RoleChange) -> None:
        """Record that this replica begins or ceases to serve as master."""
        self._event("master" if role.master else "not master", reason=role.reason)

    def _event(self, kind: str, **facts: Any) -> None:
        if self._writer is not None:
            at_ns = self._context.wall_ns()
            self._writer.event({"event": kind, "at_ns": at_ns, "position": self._traced, **facts})

    def flushed(self) -> "Deferred[Any]":
        """Fires when the reactions so far are in the files of the trace, or cannot be."""
        return succeed(None) if self._writer is None else deferToThread(self._writer.flush)

    def close(self) -> "Deferred[Any]":
        """Write the remaining reactions and end; `open` may follow. Fires when done."""
        writer, self._writer = self._writer, None
        return succeed(None) if writer is None else deferToThread(writer.close)
