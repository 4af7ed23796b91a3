"""The part of a node that is active on every replica of the view, in a server whose clients use all of them.

Such a replica is a *home*. What its services post is forwarded through the channel, which orders it once and
in the order of the posts, whatever master there is; the outputs of committed entries for its clients leave
there. Pure: see `node`.
"""

from collections import deque

from ...engine import Engine, encode_batch
from ...hachannel import Channel
from ...hachannel.model.submitters import Source
from ...hachannel.protocol.observed import Standing
from .batching import BatchQueue
from .outputs import HomeChange, NodeSettings

__all__ = ["Home"]

UNSETTLED_FACTOR = 2
"""A home serves on without a view that can go on, for this many times `NodeSettings.unsettled_s`: short
interruptions are normal when another replica fails, and its clients need not notice them."""


class Home:
    """Begins and ends to serve clients as the standing of the replica demands, and forwards their input."""

    def __init__(self, channel: Channel, engine: Engine, settings: NodeSettings) -> None:
        self.active = False
        """Whether this replica serves clients."""
        self.queue = BatchQueue(settings.limits)
        self.changes: list[HomeChange] = []
        """Changes that `Node.drain` has not returned yet."""
        self._channel = channel
        self._engine = engine
        self._settings = settings
        self._flight: deque[tuple[int, list[int]]] = deque()
        """(number, tokens) of each forwarded batch that is not delivered here."""
        self._unsettled_since: float | None = None

    @property
    def accepting(self) -> bool:
        """False while clients of this replica should not send more."""
        return self.active and not self.queue.full

    @property
    def deadline(self) -> float | None:
        """When time alone ends the service, in monotonic seconds; None for never."""
        if not self.active or self._unsettled_since is None:
            return None
        return self._unsettled_since + UNSETTLED_FACTOR * self._settings.unsettled_s

    def follow(self, now: float, standing: Standing, serving: bool) -> None:
        """Begin or end to serve clients. `serving`: whether this replica is master, with the lease."""
        role = standing.role
        if role in ("slave", "master"):
            self._unsettled_since = None
            # Before the birth of the server only its first master may add something to it.
            if not self.active and (serving or self._engine.birth):
                self._change(True, "it is a member of the view", first_time=not self._engine.birth)
        elif role in ("changing", "blocked") and self.active:
            if self._unsettled_since is None:
                self._unsettled_since = now
            due = self.deadline
            if due is not None and now >= due:
                self.end(f"this replica was {role} for too long")
        elif self.active:
            self.end(f"this replica is {role}")

    def end(self, reason: str) -> None:
        """End to serve clients, if it does."""
        if self.active:
            self._unsettled_since = None
            self._change(False, reason)

    def submit(self, now: float) -> bool:
        """Forward a batch, if there is one and the channel takes it. Returns whether one was forwarded."""
        queue, channel = self.queue, self._channel
        if not (queue.waiting and channel.can_forward):
            return False
        if channel.forwarding >= self._settings.eager_entries and not queue.has_batch:
            return False
        items, tokens = queue.next_batch()
        self._flight.append((channel.forward(now, encode_batch(items)), tokens))
        return True

    def delivered(self, source: Source | None) -> list[int]:
        """Record that a forwarded entry is being applied. Return the tokens of its notifications."""
        flight = self._flight
        if source is None or not flight:
            return []
        state = self._channel.state
        if (source.replica, source.incarnation, source.boot) != (*state.me, state.boot):
            return []
        tokens: list[int] = []
        while flight and flight[0][0] <= source.oseq:
            tokens += flight.popleft()[1]
        return tokens

    def _change(self, active: bool, reason: str, first_time: bool = False) -> None:
        # What was forwarded is ordered all the same: what is sent again for it has the same numbers.
        self.queue.clear()
        self._flight.clear()
        self.active = active
        self.changes.append(HomeChange(active, first_time, reason))
