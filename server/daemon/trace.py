"""The trace of a daemon. Its events are written in the columns of reactions, with a mark of their own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from ...engine.reaction import Reaction
from ...replay.schema import Origin
from ...services.daemon_base import DaemonEvent
from ..context import ReplicaContext

if TYPE_CHECKING:
    from ..trace.writer import TraceWriter

__all__ = ["DaemonTrace"]


class DaemonTrace:
    """Writes the events of one life of a daemon. Without a trace in the settings, it does nothing."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._writer = _writer(context) if context.settings.trace else None
        self._events = 0

    @property
    def wanted(self) -> bool:
        """Whether events are written."""
        return self._writer is not None

    @property
    def problem(self) -> str | None:
        """Why events are not on the disk, in one sentence; None if all are."""
        return None if self._writer is None else self._writer.problem

    def write(self, events: Sequence[DaemonEvent]) -> None:
        """Write events, in their order."""
        if self._writer is None or not events:
            return
        now_ns, first = self._context.wall_ns(), self._events + 1
        self._events += len(events)
        self._writer.write([_row(number, now_ns, event) for number, event in enumerate(events, first)])

    def close(self) -> "Deferred[Any] | None":
        """Write what is left. Fires when it is on the disk; None if that is nothing."""
        if self._writer is None:
            return None
        closed: Deferred[Any] = deferToThread(cast("Any", self._writer.close))
        return closed


def _writer(context: ReplicaContext) -> "TraceWriter | None":
    try:
        from ..trace.retention import Retention
        from ..trace.writer import TraceWriter
    except ImportError as error:
        context.log(f"no trace is written: {error}; install quorate[replay] for one")
        return None
    directory, server, settings = context.directory / "trace", context.server, context.settings
    return TraceWriter(
        directory,
        Origin(server.name, server.id, context.replica.id, context.incarnation, mesh=True),
        roll_s=settings.trace_roll_s,
        retention=Retention(directory, server.id, settings.trace_keep_bytes, settings.trace_keep_s),
    )


def _row(number: int, now_ns: int, event: DaemonEvent) -> Reaction:
    """Return an event as a row: `quorate.replay.mesh_audit` names the columns as they are meant."""
    return Reaction(
        position=number,
        index=0,
        step=0,
        now_ns=now_ns,
        agent=cast("Any", event.stream),
        cls="",
        kind=event.kind,
        sender=cast("Any", event.who),
        type=event.consumer,
        payload=b"",
        request=event.serial,
        error="",
        sends=0,
        outputs=b"",
        stamp=event.check,
        cause=event.first,
        number=event.last,
    )
