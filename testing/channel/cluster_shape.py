"""The shape of a simulated cluster: replicas, settings, network, disks."""

import math
from collections.abc import Collection

import attrs

from ...hachannel import Settings
from .arguments import check_types
from .network import Weather

__all__ = ["Shape"]

MAX_REPLICAS = 15
"""The most replicas of one cluster, as in the channel."""


MAX_SMALL_MESSAGE_BYTES = 500
"""The most bytes of a message with few payloads or none."""


@attrs.frozen(kw_only=True)
class Shape:
    """The cluster that is simulated. Times are virtual seconds.

    Raises ValueError for a value that is not allowed, or that contradicts another one.
    """

    replicas: int = 3
    """The number of replicas, from 1 to 15."""
    expected: int = 0
    """The number of replicas that found the cluster, more than half of them; 0: all."""
    settings: Settings = attrs.field(factory=Settings)
    """The settings of the channel."""
    weather: Weather = attrs.field(factory=Weather)
    """The network."""
    chunk: int = 8
    """For a state that is provided as a whole, the bytes of a piece; else twice the cells of a part."""
    parts: bool = False
    """Whether the application provides its state in parts, while it applies entries; otherwise as a whole."""
    fresh: bool = False
    """Whether a replica that starts asks for the state even if entries would suffice."""
    snapshot_s: float = 0.01
    """The longest time that the application needs to provide or to install a state."""
    witnesses: int = 0
    """The number of witnesses; they are the last replicas."""
    drift: float = 0.0
    """The largest deviation of the rate of a clock from 1, as a fraction below 0.5. With drift, clocks start
    at any reading."""
    shared_host: bool = True
    """Whether replicas run on one machine, whose operating system reports the end of a process at once."""
    stop_s: float = 0.0
    """The longest time that the application needs to end services after the loss of the lease."""
    codec: bool = False
    """Whether every message is encoded and decoded."""
    disk: bool = False
    """Whether replicas have disks: one that is killed returns as the same voter."""
    sync_s: float = 0.01
    """The longest time of a sync."""
    save_entries: int = 20
    """The number of entries after which the application is saved to the disk."""

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
        """Return the number of founders for the replicas in the file: all once the file was edited."""
        return self.expected if len(configured) == self.replicas else len(configured)

    @property
    def round_trip_s(self) -> float:
        """The longest time between a message and its answer, with the syncs for both."""
        weather = self.weather
        slow_s = weather.slow_s if weather.slow_chance else 0.0
        if weather.bytes_per_s:
            slow_s += (self.settings.part_bytes + MAX_SMALL_MESSAGE_BYTES) / weather.bytes_per_s
        # A write that begins during a sync waits for the next one.
        return 2 * (weather.delay_s + slow_s) + (2 * self.sync_s if self.disk else 0.0)

    @property
    def least_lease_s(self) -> float:
        """The shortest lease that is always prolonged in time, whatever the drift of the clocks."""
        settings = self.settings
        trip_s = self.round_trip_s + 2 * settings.heartbeat_s
        return trip_s * (1 + settings.drift) * (1 + self.drift) / ((1 - settings.drift) * (1 - self.drift))

    @property
    def witness_ids(self) -> range:
        """The replicas that are witnesses."""
        return range(self.replicas - self.witnesses, self.replicas)
