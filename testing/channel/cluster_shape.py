"""What a simulation of the channel simulates."""

import math
from collections.abc import Collection

import attrs

from ...hachannel import Settings
from .arguments import check_types
from .network import Weather

__all__ = ["Shape"]

MAX_REPLICAS = 15
"""Of one cluster, as in the channel."""


MAX_SMALL_MESSAGE_BYTES = 500
"""A message of no payload, or a few, has no more."""


@attrs.frozen(kw_only=True)
class Shape:
    """What is simulated. Drawn from the seed, or given."""

    replicas: int = 3
    expected: int = 0
    """How many found the cluster; 0, the default, becomes all."""
    settings: Settings = attrs.field(factory=Settings)
    weather: Weather = attrs.field(factory=Weather)
    chunk: int = 8
    """Bytes of a piece of a state that is given as a whole, or half the cells of a part."""
    parts: bool = False
    """The application gives its state in parts, and goes on meanwhile."""
    fresh: bool = False
    """Whoever starts again wants the state, even where entries would do."""
    snapshot_s: float = 0.01
    """How long the application takes for a state, or a part of one, and to install it."""
    witnesses: int = 0
    """So many of the replicas, the last ones, are witnesses."""
    drift: float = 0.0
    """How much the clock of a replica may run too fast or too slow; with it, they start anywhere."""
    shared_host: bool = True
    """Replicas run on one machine, whose operating system tells them that a process has ended."""
    stop_s: float = 0.0
    """How long the application takes at most to end what needs the lease."""
    codec: bool = False
    """Every message goes through its bytes."""
    disk: bool = False
    """Replicas have disks: one that is killed comes back as the voter it was."""
    sync_s: float = 0.01
    """The longest time that a sync takes."""
    save_entries: int = 20
    """The application is saved to the disk after about so many entries."""

    def __attrs_post_init__(self) -> None:
        check_types(self)
        if self.expected == 0:
            object.__setattr__(self, "expected", self.replicas)
        if not 1 <= self.replicas <= MAX_REPLICAS:
            raise ValueError(f"replicas is {self.replicas}: from 1 to {MAX_REPLICAS}")
        if not self.replicas // 2 < self.expected <= self.replicas:
            raise ValueError(
                f"expected is {self.expected}: more than half of the {self.replicas} replicas, or 0 for all"
            )
        if not 0 <= self.witnesses < self.replicas:
            raise ValueError(f"witnesses is {self.witnesses}: some of the {self.replicas} replicas, not all")
        copies, least = self.replicas - self.witnesses, self.settings.min_copies
        if least > copies:
            raise ValueError(f"min_copies is {least}, and {copies} replicas hold the log")
        for name in ("snapshot_s", "stop_s", "sync_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: seconds, from 0")
        if not 0 <= self.drift < 0.5:
            raise ValueError(f"drift is {self.drift}: a fraction from 0 to 0.5")
        if self.chunk < (0 if self.parts else 1) or self.save_entries < 1:
            raise ValueError("chunk and save_entries are at least 1")

    def founders(self, configured: Collection[int]) -> int:
        """Return how many found a cluster with these replicas in the file: all, once the file was edited."""
        return self.expected if len(configured) == self.replicas else len(configured)

    @property
    def round_trip_s(self) -> float:
        """The longest time between a message and its answer, with what the disk takes for each."""
        weather = self.weather
        slow_s = weather.slow_s if weather.slow_chance else 0.0
        if weather.bytes_per_s:
            slow_s += (self.settings.part_bytes + MAX_SMALL_MESSAGE_BYTES) / weather.bytes_per_s
        # What comes while a disk is busy waits for the next sync.
        return 2 * (weather.delay_s + slow_s) + (2 * self.sync_s if self.disk else 0.0)

    @property
    def least_lease_s(self) -> float:
        """A lease longer than this is prolonged in time, whichever clocks run fast; a shorter one may not."""
        settings = self.settings
        trip_s = self.round_trip_s + 2 * settings.heartbeat_s
        return trip_s * (1 + settings.drift) * (1 + self.drift) / ((1 - settings.drift) * (1 - self.drift))

    @property
    def witness_ids(self) -> range:
        """The replicas that are witnesses."""
        return range(self.replicas - self.witnesses, self.replicas)
