"""The driver of a node: calls it in time with the reactor, and hands its outputs to the replica."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from ...hachannel.transport.ports import ClockPort
from ...hachannel.transport.timer import Timer
from ..node.node import Node
from ..node.outputs import Output

__all__ = ["Driver", "DriverHost"]

SLICE_S = 0.02
"""Seconds after which applying entries yields to the sockets, so that a busy replica sends heartbeats."""
SLOW_S = 1.0
"""Seconds after which an entry is named in the log: heartbeats are late then, and other replicas suspect."""
MAX_UNAPPLIED = 512
"""Committed entries that may wait to be applied; while there are more, no socket is read."""


class DriverHost(Protocol):
    """The replica, which acts on the outputs of its node."""

    def act(self, out: Output) -> None:
        """Act on an output."""
        ...

    def acted(self) -> None:
        """Note that the node has no more output for now."""
        ...


class Driver:
    """Drives the node of one incarnation. After `stop` the node is not called any more."""

    def __init__(self, node: Node, reactor: ClockPort, host: DriverHost) -> None:
        self.node = node
        self._reactor = reactor
        self._host = host
        self._driving = self._again = self._flush_due = self._stopped = False
        self._spare = False
        """One step of a background digest may be done in this turn of the reactor."""
        self._alarm = Timer(self._deadline, reactor, time.monotonic, lambda: self.give(node.tick))

    def give(self, call: Callable[..., None], *args: Any) -> None:
        """Call an input of the node with the present time and these arguments, and act on its outputs."""
        if not self._stopped:
            call(time.monotonic(), time.time_ns(), *args)
            self._drive()

    def flush_soon(self) -> None:
        """Submit, at the end of this turn of the reactor, what was posted in it."""
        if not self._flush_due:
            self._flush_due = True
            self._reactor.callLater(0, self._flush)

    def stop(self) -> None:
        """Stop calling the node."""
        self._stopped = True
        self._alarm.stop()

    def _flush(self) -> None:
        self._flush_due = False
        self._spare = True
        self.give(self.node.flush)

    def _drive(self) -> None:
        """Act on outputs until there are no more, or for `SLICE_S`."""
        if self._driving:
            # An action has called an input of the node: the loop below handles its output.
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
