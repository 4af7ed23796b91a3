"""Random faults of a simulated cluster, drawn from its seed: kills, pauses, partitions, crashes of all."""

import random
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["FAULT_KINDS", "Faultable", "RandomFaults"]

FAULT_KINDS: Final = ("kill", "kill_master", "pause", "partition", "kill_all")
"""The kinds of random faults."""
LASTS_S: Final = (0.1, 8.0)
"""Range of the duration of a fault. A silent replica is suspected after 2 s."""


class Faultable(Protocol):
    """The part of a simulated cluster that faults use."""

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call a function after virtual seconds."""
        ...

    def replica_ids(self, server: str) -> list[int]:
        """Return the replicas of a server."""
        ...

    def master_id(self, server: str) -> int | None:
        """Return the replica that serves, None if there is none."""
        ...

    def fail(self, kind: str, server: str, replicas: list[int]) -> None:
        """Begin a fault of some replicas: kill, pause or partition."""
        ...

    def recover(self, kind: str, server: str, replicas: list[int]) -> None:
        """End that fault."""
        ...


class RandomFaults:
    """Faults one after the other, on random servers, until the end of their time.

    At most one is active, so that every server can go on when it is over, and mostly also while it lasts.
    """

    def __init__(
        self, cluster: Faultable, servers: list[str], kinds: tuple[str, ...], seed: str, every_s: float
    ) -> None:
        """kinds: of `FAULT_KINDS`. every_s: the mean pause between two faults."""
        unknown = sorted(set(kinds) - set(FAULT_KINDS))
        if unknown or not kinds:
            raise ValueError(f"{unknown[0] if unknown else 'nothing'!r} is no fault; choose of {FAULT_KINDS}")
        if every_s <= 0:
            raise ValueError(f"every_s is {every_s}; give a number of seconds above 0")
        self.active = False
        """Whether a fault lasts, or will come."""
        self._cluster = cluster
        self._servers = servers
        self._kinds = kinds
        self._random = random.Random(seed)
        self._every_s = every_s

    def begin(self, seconds: float) -> None:
        """Let faults happen for so many seconds from now on; the last one may end later."""
        self.active = True
        self._next(seconds)

    def _next(self, left_s: float) -> None:
        pause_s = self._random.expovariate(1 / self._every_s)
        if pause_s >= left_s:
            self.active = False
            return
        self._cluster.after(pause_s, lambda: self._fail(left_s - pause_s))

    def _fail(self, left_s: float) -> None:
        server, kind = self._random.choice(self._servers), self._random.choice(self._kinds)
        replicas = self._cluster.replica_ids(server)
        victims = [self._random.choice(replicas)]
        if kind == "kill_all":
            victims, kind = replicas, "kill"
        elif kind == "kill_master":
            master = self._cluster.master_id(server)
            victims, kind = victims if master is None else [master], "kill"
        lasts_s = self._random.uniform(*LASTS_S)
        self._cluster.fail(kind, server, victims)

        def end() -> None:
            self._cluster.recover(kind, server, victims)
            self._next(left_s - lasts_s)

        self._cluster.after(lasts_s, end)
