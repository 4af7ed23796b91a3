"""Copies of the state of a replica, made while it goes on."""

from typing import Any, Final

from twisted.internet.defer import Deferred

from ...engine import Source
from ...hachannel import ChangeRefused
from ..admin import wire
from .replica import Replica

__all__ = ["BackupSource"]

IDLE_S: Final = 60.0
"""A copy of which no part is asked for in this time ends."""
HOLDERS: Final = ("master", "slave")


class BackupSource:
    """The copy of the state that an administrator asks for, part by part. One at a time."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._token = 0
        self._source: Source | None = None
        self._installed = 0
        """How many states had replaced that of the node when the copy began."""
        self._node: object = None
        self._idle: Any = None

    def begin(self, birth: int, have: int) -> wire.BackupBegun:
        """Begin a copy: see `AdminTarget.begin_backup`. Raises ChangeRefused."""
        replica = self._replica
        node, name = replica.node, f"{replica.context.server.name}.{replica.context.replica.id}"
        if node.role not in HOLDERS:
            raise ChangeRefused(f"{name} is {node.role}, and has no state to copy now: ask another replica.")
        if node.channel.standing.unfit:
            raise ChangeRefused(f"The state of {name} differs from that of the others: ask another replica.")
        if node.transfer.giving:
            raise ChangeRefused(f"{name} gives its state to another replica now: try again, or ask a slave.")
        engine = node.engine
        if not engine.birth:
            raise ChangeRefused(f"{name} has done nothing yet: there is nothing to copy.")
        self._end()
        usable = have if birth == engine.birth and 0 < have <= engine.applied else 0
        self._token += 1
        self._source = engine.source(b"", usable)
        self._node, self._installed = node, node.transfer.installed
        self._wait()
        return wire.BackupBegun(self._token, engine.birth, usable)

    def part(self, token: int) -> "Deferred[wire.BackupPart]":
        """Return the next part: see `AdminTarget.continue_backup`. Raises ChangeRefused."""
        self._source_of(token)
        self._wait()
        answer: Deferred[wire.BackupPart] = Deferred()
        self._step(token, answer)
        return answer

    def _step(self, token: int, answer: "Deferred[wire.BackupPart]") -> None:
        """Work on the next part for some milliseconds, and go on in a later turn of the reactor."""
        try:
            part = self._source_of(token).next()
        except Exception as error:
            answer.errback(error)
            return
        if part is None:
            self._replica.context.reactor.callLater(0, self._step, token, answer)
            return
        if part.last:
            self._end()
        answer.callback(wire.BackupPart(part.data, part.index, part.last))

    def _source_of(self, token: int) -> Source:
        """Return the source of a copy. Raises ChangeRefused if the copy cannot go on."""
        source, node = self._source, self._replica.node
        replaced = self._node is not node or self._installed != node.transfer.installed
        if source is None or token != self._token or source.over or replaced:
            raise ChangeRefused(
                "The copy was interrupted: nothing was asked for too long, another copy was begun, or the "
                "replica has given or got a state; begin it again."
            )
        return source

    def _wait(self) -> None:
        """End the copy unless a part is asked for in time."""
        self._stop_waiting()
        self._idle = self._replica.context.reactor.callLater(IDLE_S, self._end)

    def _stop_waiting(self) -> None:
        if self._idle is not None and self._idle.active():
            self._idle.cancel()
        self._idle = None

    def _end(self) -> None:
        source, self._source = self._source, None
        self._node = None
        self._stop_waiting()
        if source is not None and not source.over:
            source.close()
