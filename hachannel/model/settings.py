"""Settings of the channel. The defaults suit replicas on one machine or one local network."""

import math
from typing import Literal, get_args

import attrs

TRIM_STEP = 64
"""The log is trimmed by at least this many entries at a time, unless it has half of `max_log_bytes`."""

Mode = Literal["ALL", "MAJORITY"]

ANNOUNCE_AFTER_S = 0.001
"""Pause before a master sends a Commit message of its own; an entry sent meanwhile makes it unnecessary."""

LEAST_S = 0.001
"""Shortest period or timeout, in seconds: with a shorter one a replica would only send again and again."""
MOST_S = 1e9
"""Longest time, in seconds: about 30 years, as good as never. Larger floats lose a clock's precision."""
MOST_BYTES = 1 << 30
"""Limit of `max_payload_bytes` and `part_bytes`: a frame may hold two of them, and its length is a uint32."""
LEAST_SHARE = 0.01
_PERIODS = ("heartbeat_s", "suspect_s", "retry_s", "view_change_s", "stall_s")
_FROM_0 = ("keep", "keep_bytes")
_IN_ONE_FRAME = ("max_payload_bytes", "part_bytes")


@attrs.frozen(kw_only=True)
class Settings:
    """Timing, flow control and memory bounds of one channel. Times are seconds, sizes are bytes."""

    mode: Mode = "ALL"
    """Which members must hold an entry before it is committed: every member of the view, or a majority."""
    min_copies: int = 1
    """A view with fewer members accepts no new entries. At least this many members hold a committed entry."""
    heartbeat_s: float = 0.05
    """Period of the heartbeats that a replica sends to every peer."""
    suspect_s: float = 2.0
    """Silence after which a peer is suspected. Any frame ends the silence."""
    verify_s: float = 0.06
    """Time for which a connection may be closed before its peer is suspected."""
    lease_s: float = 0.0
    """Time for which a voter that hears the master promises no view to any other replica. A master that hears
    no majority for this time stops what only one replica may run. 0, the default, becomes three quarters of
    `suspect_s`."""
    drift: float = 0.01
    """Largest deviation of the rate of a replica's clock from real time, as a fraction."""
    retry_s: float = 0.1
    """Pause between repetitions of a message of a view change or a join that was not answered."""
    view_change_s: float = 1.0
    """Time that a view change may take before another one is tried."""
    rank_delay_s: float = 0.1
    """Additional pause of each further member, in order of seniority, before it proposes a view."""
    stall_s: float = 5.0
    """Time for which a member may leave entries unacknowledged, or a joiner may make no progress, before the
    master goes on without it."""
    leave_s: float = 1.0
    """Time that an orderly stop waits for the others to install a view without this replica. Without a disk
    it waits longer while it hears a replica that stays: as long as a view change may take."""
    boot_wait_s: float = 0.5
    """Time to wait for the remaining replicas at start-up, where fewer than all are expected."""
    window: int = 256
    """Entries in flight: appended by the master and not yet committed."""
    window_bytes: int = 16 * 1024 * 1024
    """Payload bytes in flight."""
    forward_window: int = 64
    """Entries that a member which is not the master may have on their way to the master."""
    forward_window_bytes: int = 8 * 1024 * 1024
    """Payload bytes of the entries in the `forward_window`; one larger payload goes alone."""
    forward_queue: int = 1024
    """Entries that a member may have submitted with `forward` before they are delivered to it."""
    forward_queue_bytes: int = 64 * 1024 * 1024
    """Payload bytes of the entries in the `forward_queue`."""
    max_payload_bytes: int = 8 * 1024 * 1024
    """The largest payload that `submit` accepts."""
    part_bytes: int = 1024 * 1024
    """Bytes of a log or snapshot in one message of a repair, view change or transfer. The last message of a
    part of a snapshot may carry up to a 64th more."""
    transfer_window: int = 4
    """Messages of a state transfer in flight."""
    transfer_pause_s: float = 0.01
    """Shortest pause between two bursts of parts of a state while the master serves."""
    transfer_share: float = 0.2
    """Largest share of the time in which parts of a state are in flight while the master serves."""
    keep: int = 512
    """Entries kept below the trim point, so that a short absence is repaired without a snapshot."""
    keep_bytes: int = 16 * 1024 * 1024
    """Payload bytes kept below the trim point, at most half of `max_log_bytes`."""
    max_log: int = 20_000
    """Entries in memory above which the master drops the member or joiner for which it keeps them. For a
    joiner the limit is one higher for each 1024 bytes of the state that it has received. The joiner itself
    holds entries until it has the whole state; there the limit is two higher for each 1024 bytes."""
    max_log_bytes: int = 256 * 1024 * 1024
    """Payload bytes in memory above which the master drops the member or joiner for which it keeps them. For
    a joiner the limit is higher by the bytes of the state that it has received, and in the memory of the
    joiner itself by twice as many."""

    def __attrs_post_init__(self) -> None:
        self._check_each()
        if self.lease_s == 0:
            object.__setattr__(self, "lease_s", self.suspect_s * 3 / 4)
        if self.max_log < self.keep + 2 * self.window + 2 * TRIM_STEP:
            raise ValueError("max_log must leave room for keep and the window: raise it or lower those")
        if self.verify_s > self.suspect_s or self.heartbeat_s * 4 > self.suspect_s:
            raise ValueError(
                f"suspect_s ({self.suspect_s:g}) must be at least verify_s ({self.verify_s:g}) "
                f"and four times heartbeat_s ({self.heartbeat_s:g})"
            )
        if self.lease_s < 2 * self.heartbeat_s:
            raise ValueError("lease_s must be at least two heartbeats, or no lease is ever prolonged in time")

    def _check_each(self) -> None:
        """Check the type and the range of each setting. Raises ValueError."""
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode is {self.mode!r}: {' or '.join(get_args(Mode))}")
        for field in attrs.fields(Settings):
            name, value = field.name, getattr(self, field.name)
            if isinstance(field.default, int):
                least = 0 if name in _FROM_0 else 1
                if not isinstance(value, int) or isinstance(value, bool) or value < least:
                    raise ValueError(f"{name} is {value!r}: a whole number, at least {least}")
                if name in _IN_ONE_FRAME and value > MOST_BYTES:
                    raise ValueError(f"{name} is {value}: at most {MOST_BYTES}, since it goes in one frame")
            elif isinstance(field.default, float):
                number = isinstance(value, int | float) and not isinstance(value, bool)
                if name == "drift":
                    if not number or not 0 <= value < 0.5:
                        raise ValueError(f"drift is {value!r}: a fraction from 0 to 0.5, 0.5 left out")
                elif name == "transfer_share":
                    if not number or not LEAST_SHARE <= value <= 1:
                        raise ValueError(f"transfer_share is {value!r}: a fraction from {LEAST_SHARE} to 1")
                elif not number or not (LEAST_S if name in _PERIODS else 0) <= value < math.inf:
                    least_s = LEAST_S if name in _PERIODS else 0
                    raise ValueError(f"{name} is {value!r}: seconds, at least {least_s}")
                elif value > MOST_S:
                    raise ValueError(
                        f"{name} is {value!r}: seconds, at most {MOST_S:.0f}, which is as good as never"
                    )
