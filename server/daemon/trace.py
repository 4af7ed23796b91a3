"""The trace of a daemon. Its events are written in the columns of reactions, with a mark of their own."""

from collections.abc import Sequence
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from ...engine.reaction import Reaction
from ...replay.schema import Origin
from ...services.daemon_base import DaemonEvent
from ..context import ReplicaContext
from ..replica.trace import open_writer

__all__ = ["DaemonTrace"]


class DaemonTrace:
    """Writes the events of one life of a daemon. Without a trace in the settings, it does nothing."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        server, replica = context.server, context.replica
        origin = Origin(server.name, server.id, replica.id, context.incarnation, mesh=True)
        self._writer = open_writer(context, origin) if context.settings.trace else None
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
