"""Drives a node with the reactor: calls it in time, and hands on what it says."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from ...hachannel.transport.ports import ClockPort
from ...hachannel.transport.timer import Timer
from ..node.node import Node
from ..node.outputs import Output

__all__ = ["Driver", "DriverHost"]

SLICE_S = 0.02
"""Applying entries gives way to the sockets after this time, so that a busy replica shows that it lives."""
SLOW_S = 1.0
"""An entry that takes so long to apply is named in the log: heartbeats are late then, and others suspect."""
MAX_UNAPPLIED = 512
"""Committed entries that may wait to be applied; above, nothing is read until there are fewer."""


class DriverHost(Protocol):
    """Who acts on what the node says."""

    def act(self, out: Output) -> None:
        """Do what the node wants done."""
        ...

    def acted(self) -> None:
        """The node wants nothing more for now."""
        ...


class Driver:
    """One incarnation of a replica. After `stop` nothing is called any more."""

    def __init__(self, node: Node, reactor: ClockPort, host: DriverHost) -> None:
        self.node = node
        self._reactor = reactor
        self._host = host
        self._driving = self._again = self._flush_due = self._stopped = False
        self._spare = False
        """This turn of the reactor may be used for what has time, once."""
        self._alarm = Timer(self._deadline, reactor, time.monotonic, lambda: self.give(node.tick))

    def give(self, call: Callable[..., None], *args: Any) -> None:
        """Call an input of the node with the present time and these arguments, and act on what follows."""
        if not self._stopped:
            call(time.monotonic(), time.time_ns(), *args)
            self._drive()

    def flush_soon(self) -> None:
        """Submit, at the end of this turn of the reactor, what was posted in it."""
        if not self._flush_due:
            self._flush_due = True
            self._reactor.callLater(0, self._flush)

    def stop(self) -> None:
        """End."""
        self._stopped = True
        self._alarm.stop()

    def _flush(self) -> None:
        self._flush_due = False
        self._spare = True
        self.give(self.node.flush)

    def _drive(self) -> None:
        """Act on what the node says until there is nothing more, or for a time slice."""
        if self._driving:
            # Something that is acted on has given an input: the loop below sees to it.
            self._again = True
            return
        self._driving = True
        node = self.node
        until = time.monotonic() + SLICE_S
        try:
            while not self._stopped:
                self._again = False
                self._host.act(node.take())
                now = time.monotonic()
                if now > until and 0 < node.unapplied < MAX_UNAPPLIED:
                    self.flush_soon()
                    break
                if node.patient and not self._spare:
                    self.flush_soon()
                    break
                self._spare = False
                worked = node.work(now, time.time_ns())
                took_s = time.monotonic() - now
                if took_s >= SLOW_S:
                    node.slow(took_s)
                if not worked and not self._again:
                    break
            if not self._stopped:
                self._host.acted()
                if self._again:
                    self.flush_soon()
        finally:
            # Whatever was raised, the node must be called again in time.
            self._driving = False
            self._alarm.arm()

    def _deadline(self) -> float | None:
        return self.node.deadline(time.monotonic(), time.time_ns())
