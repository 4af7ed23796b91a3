"""The part of a node that is active while it is master and holds the lease: it submits batches of input.

Pure: see `node`.
"""

from collections import deque

from ...engine import ClassVersions, Engine, Tick, encode_batch
from ...hachannel import Channel, ViewEvent
from ...hachannel.protocol.observed import Standing
from .batching import BatchQueue
from .divergence import DivergenceDetector
from .held_outputs import HeldOutputs
from .outputs import NodeSettings, RoleChange

__all__ = ["Mastership"]


class Mastership:
    """Starts and stops serving as the channel's standing demands, and submits batches while it serves."""

    def __init__(
        self,
        channel: Channel,
        engine: Engine,
        settings: NodeSettings,
        divergence: DivergenceDetector,
        held: HeldOutputs | None = None,
    ) -> None:
        """`held`: the outputs that wait for the slaves, if outputs do."""
        self._divergence = divergence
        self._held = held
        self.serving = False
        """True while this replica is master and holds the lease, so that its networks and services run."""
        self.queue = BatchQueue(settings.limits)
        self.role_changes: list[RoleChange] = []
        """Role changes that `Node.drain` has not returned yet."""
        self.switching = False
        """True while an entry with other versions of agent classes is queued or in flight."""
        self.retiring = False
        """True once all replicas stop together: serving does not begin again."""
        self.views_waiting = 0
        """View events of the channel that wait. Entries submitted before they are followed may be lost."""
        self.lost_leases = 0
        """Losses of the lease that were not answered with `Channel.lease_ended`."""
        self.stops_pending = 0
        """Orders to stop services that the driver has not reported as done."""
        self.unsettled_since: float | None = None
        """When the channel became unable to commit, in monotonic seconds; None while it can."""
        self._me = channel.state.me.replica
        self._channel = channel
        self._engine = engine
        self._settings = settings
        self._view: ViewEvent | None = None
        self._flight: deque[tuple[int, list[int]]] = deque()
        """(index, tokens) of each submitted entry that is not applied."""
        self._tick_queued = False
        self._stamp_ns = engine.now_ns
        self._stamp_at = 0.0

    @property
    def may_found(self) -> bool:
        """True when the first entry of the server may be submitted: its services have been started."""
        if not self.serving or self._tick_queued or self.role_changes or self._engine.birth:
            return False
        return not self.views_waiting and self._channel.can_submit

    def deadline(self, now: float, wall_ns: int) -> float | None:
        """Return when time alone causes a change here, in monotonic seconds; None for never."""
        if not self.serving:
            return None
        due: float | None = None
        timer_ns = self._engine.next_timer_ns
        if timer_ns is not None and not self._tick_queued and self._channel.can_submit and not self._full:
            due = now + max(0, timer_ns - self._stamp(now, wall_ns)) / 1e9
        if self.unsettled_since is not None:
            at = self.unsettled_since + self._settings.unsettled_s
            due = at if due is None else min(due, at)
        return due

    @property
    def _full(self) -> bool:
        """Whether the outputs of so many entries wait for the slaves that no more are submitted."""
        return self._held is not None and self._held.full

    @property
    def accepting(self) -> bool:
        """False while no more input should come."""
        return self.serving and not self.queue.full

    # Batches

    def switch(self, versions: dict[str, int]) -> None:
        """Queue the switch to other versions of agent classes, ahead of all other input."""
        self.switching = True
        self.queue.add_first(ClassVersions(versions))

    def submit(self, now: float, wall_ns: int) -> bool:
        """Submit a batch if there is one and the channel accepts it. Returns whether one was submitted."""
        channel, engine, queue = self._channel, self._engine, self.queue
        if not self.serving or self.views_waiting or not channel.standing.may_submit:
            return False
        if engine.classes.ahead and not self.switching:
            # The next entry is the switch to the classes of this process, or another replica's.
            return False
        born = engine.birth
        if self.role_changes and not born:
            # The first entry also has the input that services send as soon as they are started.
            return False
        timer_ns = engine.next_timer_ns
        stamp_ns = 0
        # Without a birth no other server can be met; the first entry sets it.
        tick = not born and not self._tick_queued
        if timer_ns is not None and not self._tick_queued:
            stamp_ns = self._stamp(now, wall_ns)
            tick = tick or timer_ns <= stamp_ns
        if not (tick or queue.waiting) or not channel.can_submit or self._full:
            return False
        if tick:
            self._tick_queued = True
            queue.add(Tick())
        if len(self._flight) >= self._settings.eager_entries and not queue.has_batch:
            return False
        items, tokens = queue.next_batch()
        self._divergence.send_outcomes()
        stamp_ns = stamp_ns or self._stamp(now, wall_ns)
        self._stamp_ns, self._stamp_at = stamp_ns, now
        self._flight.append((channel.submit(now, stamp_ns, encode_batch(items)), tokens))
        return True

    def delivered(self, now: float, index: int, stamp_ns: int) -> list[int]:
        """Record that an entry is being applied. Return the tokens of its notifications."""
        self.advance_stamp(now, stamp_ns)
        if self._flight and self._flight[0][0] <= index:
            self._tick_queued = False
            return self._flight.popleft()[1]
        return []

    def forwarded_stamp(self, now: float, wall_ns: int) -> int | None:
        """Return the stamp of entries that members have forwarded, None while none may be ordered."""
        engine = self._engine
        if not self.serving or self.switching or engine.classes.ahead or not engine.birth or self._full:
            return None
        self._stamp_ns, self._stamp_at = self._stamp(now, wall_ns), now
        return self._stamp_ns

    def advance_stamp(self, now: float, stamp_ns: int) -> None:
        """Make the stamps of later batches not lower than this one."""
        if stamp_ns > self._stamp_ns:
            self._stamp_ns, self._stamp_at = stamp_ns, now

    def start_clock(self, now: float) -> None:
        """Begin to count time at `now`."""
        self._stamp_at = now

    def _stamp(self, now: float, wall_ns: int) -> int:
        """Return the stamp of a batch submitted now, never before an earlier stamp.

        While the clock of this machine is behind that of a former master, time passes at half speed: timers
        still fire, and the difference is made up.
        """
        if wall_ns > self._stamp_ns:
            return wall_ns
        return self._stamp_ns + max(1, int((now - self._stamp_at) * 5e8))

    # Beginning and end

    def follow_view(self, now: float, event: ViewEvent) -> None:
        """Start or stop serving for a view of the channel."""
        self.views_waiting -= 1
        self._view = event
        if event.master != self._me:
            self.stop(event.reason)
            return
        if self.serving and self._flight and self._flight[-1][0] > event.index:
            # Submitted entries that are not in the log of the view will never be delivered.
            self.stop("entries in flight were lost")
        self._begin(now, event.reason)

    def follow_role(self, now: float, standing: Standing) -> None:
        """Start or stop serving where the channel changes its role without a new view."""
        role = standing.role
        if role in ("changing", "blocked"):
            if self.unsettled_since is None:
                self.unsettled_since = now
            if now >= self.unsettled_since + self._settings.unsettled_s:
                self.stop(f"this replica was {role} for too long")
            return
        self.unsettled_since = None
        view = self._view
        if role == "master":
            if view is not None and view.master == self._me:
                self._begin(now, "it is master and holds the lease")
        elif self.serving:
            self.stop(f"this replica is {role}")

    def stop(self, reason: str) -> None:
        """Stop serving, if it serves."""
        if self.serving:
            self._change(RoleChange(False, False, reason))
            self.stops_pending += 1

    def _begin(self, now: float, reason: str) -> None:
        """Serve, if this replica holds the lease and no other replica contradicts its state.

        Otherwise `follow_role` begins once that is so.
        """
        if not self._divergence.may_serve:
            return
        if not (self.serving or self.retiring) and self._channel.standing.holds_lease(now):
            # Without a birth nothing was committed: services on another replica left no state.
            self._change(RoleChange(True, not self._engine.birth, reason))

    def _change(self, change: RoleChange) -> None:
        # Input that was not submitted is dropped: its senders repeat what was not acknowledged.
        self.queue.clear()
        self._flight.clear()
        self._tick_queued = self.switching = False
        self.serving = change.master
        if self._held is not None and not change.master:
            self._held.silence()
        self.role_changes.append(change)
