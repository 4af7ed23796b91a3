"""The driver of a replica's node: calls it with the time of the reactor, and passes on its outputs."""

import time
from collections.abc import Callable
from typing import Any

from ...hachannel.transport.ports import ClockPort
from ...hachannel.transport.timer import Timer
from ..node.node import Node
from ..node.outputs import Output

__all__ = ["Driver"]

SLICE_S = 0.02
"""Seconds after which applying entries yields to the sockets, so that a busy replica sends heartbeats."""
SLOW_S = 1.0
"""Seconds after which an entry is named in the log: heartbeats are late then, and other replicas suspect."""
MAX_UNAPPLIED = 512
"""Committed entries that may wait to be applied; while there are more, no socket is read."""


class Driver:
    """Drives the node of the present incarnation: `begin` with each of them, `stop` in between."""

    node: Node
    """The node of the present incarnation, or of the last one; there is none before the first `begin`."""

    def __init__(
        self,
        reactor: ClockPort,
        carry_out: Callable[[Output], None],
        settled: Callable[[], None],
        *,
        now: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`carry_out` gets the outputs; `settled` is called when the node has no more output for now.

        `now` returns monotonic seconds, `wall_ns` nanoseconds since the epoch.
        """
        self._reactor = reactor
        self._now = now
        self._wall_ns = wall_ns
        self._carry_out = carry_out
        self._settled = settled
        self._driving = self._again = self._flush_due = False
        self._stopped = True
        self._spare = False
        """One step of a background digest may be done in this turn of the reactor."""
        self._alarm = self._new_alarm()

    def begin(self, node: Node) -> None:
        """Drive this node from now on."""
        self.node = node
        self._stopped = False
        self._alarm = self._new_alarm()

    def stop(self) -> None:
        """Stop calling the node."""
        self._stopped = True
        self._alarm.stop()

    def call(self, entry: Callable[..., None], *args: Any) -> None:
        """Call an input of the node with the present time and these arguments, and carry out its outputs.

        After `stop` it does nothing.
        """
        if not self._stopped:
            entry(self._now(), self._wall_ns(), *args)
            self._drive()

    def flush_soon(self) -> None:
        """Submit, at the end of this turn of the reactor, what was posted in it."""
        if not self._flush_due:
            self._flush_due = True
            self._reactor.callLater(0, self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._spare = True
        self.call(self.node.flush)

    def _drive(self) -> None:
        """Carry out outputs until there are no more, or for `SLICE_S`."""
        if self._driving:
            # While an output was carried out, an input was called: the loop below handles its output.
            self._again = True
            return
        self._driving = True
        node = self.node
        until = self._now() + SLICE_S
        try:
            while not self._stopped:
                self._again = False
                self._carry_out(node.drain(self._now()))
                now = self._now()
                if now > until and 0 < node.unapplied < MAX_UNAPPLIED:
                    self.flush_soon()
                    break
                if node.only_digest_left and not self._spare:
                    self.flush_soon()
                    break
                self._spare = False
                worked = node.work(now, self._wall_ns())
                took_s = self._now() - now
                if took_s >= SLOW_S:
                    node.log_slow_entry(took_s)
                if not worked and not self._again:
                    break
            if not self._stopped:
                self._settled()
                if self._again:
                    self.flush_soon()
        finally:
            # Whatever was raised, the node must be called again in time.
            self._driving = False
            self._alarm.arm()

    def _new_alarm(self) -> Timer:
        return Timer(self._deadline, self._reactor, self._now, lambda: self.call(self.node.tick))

    def _deadline(self) -> float | None:
        return self.node.deadline(self._now(), self._wall_ns())
