"""A simulated cluster of channels: the virtual clock, the network and the hosts of one run."""

import heapq
from collections import deque
from collections.abc import Callable, Collection
from random import Random

import attrs

from ...hachannel import Channel
from .cluster_shape import Shape
from .host import Host
from .network import Network
from .observer import Observer

__all__ = ["World"]

TRACE_LINES = 400
"""Lines of the trace that are kept for the report of a violation."""


class World:
    """The virtual clock, the network, the hosts and the trace of one run.

    Everything random is drawn from streams of the seed; each user has its own, so that one does not disturb
    another.
    """

    def __init__(
        self, seed: int, shape: Shape, observer: Observer, channel: Callable[..., Channel] = Channel
    ) -> None:
        """Make the hosts of `shape`; `channel` makes their channels. Nothing is started yet."""
        self.seed = seed
        self.load_random = Random(f"load {seed}")
        """The stream of clients and scripts."""
        self.machine_random = Random(f"machines {seed}")
        """The stream of disks and applications."""
        self.service_random = Random(f"services {seed}")
        """The stream of the time that services need to end."""
        self.shape = shape
        self.observer = observer
        self.channel = channel
        self.now = 0.0
        """Virtual seconds since the start of the run."""
        self.sync_s = shape.sync_s
        """The longest time that a sync takes at present."""
        self.net = Network(self, Random(f"net {seed}"), attrs.evolve(shape.weather))
        self.steps = 0
        """Events that have happened."""
        self.lines: deque[str] = deque(maxlen=TRACE_LINES)
        self.echo = False
        """Print each line of the trace."""
        self.verbose = False
        """Add every message to the trace."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._incarnations = 0
        self._stamps = 0
        self.configured = list(range(shape.replicas))
        """The replicas in the configuration file that processes start with; an administrator edits it."""
        self.witness_ids = set(shape.witness_ids)
        """The replicas that are witnesses, for good."""
        self.hosts = [Host(self, replica) for replica in range(shape.replicas)]

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call `action` at a virtual time; at once if the time has passed."""
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.now), self._count, action))

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Let virtual time pass up to `until`, or until `stop` returns true. Return whether `stop` did."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            self.steps += 1
            action()
            if stop is not None and stop():
                return True
        self.now = until
        return False

    def incarnation(self) -> int:
        """Return a number that no other process has."""
        self._incarnations += 1
        return self._incarnations

    def could_found_again(self, configured: Collection[int], victims: Collection[Host] = ()) -> bool:
        """Return whether the replicas in a file that know of no cluster are enough to found another one.

        victims: hosts that have lost all memory.
        """
        knowing = sum(
            host.replica in configured and host not in victims and host.remembered is not None
            for host in self.hosts
        )
        return len(configured) - knowing >= self.shape.founders(configured)

    def stamp(self) -> int:
        """Return the time stamp for an entry that a master submits, in nanoseconds; no two are equal."""
        self._stamps += 1
        return int(self.now * 1e9) + self._stamps

    def trace(self, line: str) -> None:
        """Add a line to the trace, with the virtual time in front."""
        line = f"{self.now:9.4f} {line}"
        self.lines.append(line)
        if self.echo:
            print(line)

    def master(self) -> Host | None:
        """Return a running replica that accepts submissions, if there is one."""
        for host in self.hosts:
            if host.running and not host.paused and host.channel.can_submit:
                return host
        return None
