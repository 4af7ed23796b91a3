"""The side of a replica outside the active view: announce itself, take the state, keep up, wait to be let in.

Source: the channel protocol, section 4. At start-up the same announcement is the barrier: enough empty
replicas that see each other found the cluster.
"""

from collections.abc import Callable

import attrs

from .events import InstallSnapshot
from .messages import CatchUp, CaughtUp, Chunk, ChunkAck, Join
from .origins import Origins, Rows
from .peers import founds
from .state import State
from .view import NO_TAG, NO_VIEW, Tag, Voter

MAX_BACKOFF = 50
"""Repeated failures stretch the pause between attempts up to this many retry intervals."""
MAX_CHUNKS = 1 << 20
"""A snapshot in more chunks than this is not believed."""


@attrs.define(eq=False)
class Learning:
    """One state transfer, seen from the learner."""

    token: int
    donor: int
    at: Tag
    total: int
    chunks: list[bytes] = attrs.field(factory=list[bytes])
    origins: Rows = ()
    installing: bool = False
    installed: bool = False


class Learner:
    """Joining, from the barrier to the last entry before the view that takes this replica in."""

    def __init__(self, state: State, busy: Callable[[bool], None]) -> None:
        self._state = state
        self._busy = busy
        self.learning: Learning | None = None
        self._next_join = 0.0
        self._complete_since: float | None = None

    # The barrier

    @property
    def empty(self) -> bool:
        """This replica holds nothing, has heard of no cluster and was never in one.

        It may have accepted a first view that is not known to be active.
        """
        state = self._state
        view = state.accepted
        unfounded = view is None or (view.boot > 0 and not state.known_active)
        return not state.guest and unfounded and state.log.last == NO_TAG and state.newer == NO_VIEW

    def may_boot(self, now: float, since: float, failures: int) -> bool:
        """Whether enough empty replicas see each other and it is this one's turn to propose.

        since, failures: the last progress of a proposal heard of, and how many of its own came to nothing.
        """
        state = self._state
        if not self.empty or state.leaving:
            return False
        found = {state.me.replica}
        for link in state.peers:
            if link.heartbeat is not None and link.heartbeat.founded:
                return False
            if link.connected and not link.suspected and founds(link, state.birth):
                found.add(link.replica)
        if len(found) < state.expected:
            self._complete_since = None
            return False
        if self._complete_since is None:
            self._complete_since = now
        settings = state.settings
        rank = [replica for replica in state.order if replica in found].index(state.me.replica)
        wait = 0.0 if len(found) == len(state.order) else settings.boot_wait_s
        wait += rank * settings.view_change_s + min(failures**2, MAX_BACKOFF) * settings.retry_s
        return now >= max(self._complete_since, since) + wait

    # Joining

    def tick(self, now: float) -> None:
        """Announce this replica while it is outside."""
        state = self._state
        if (state.member and not self.empty) or state.leaving or now < self._next_join:
            return
        self._next_join = now + state.settings.retry_s * (1 if self.learning is None else 3)
        state.broadcast(self.join())

    def join(self) -> Join:
        """The announcement."""
        state, learning = self._state, self.learning
        return Join(
            state.cluster,
            self.empty,
            state.log.tag(state.commit),
            0 if learning is None else learning.token,
            0 if learning is None else len(learning.chunks),
            state.birth,
        )

    def hurry(self) -> None:
        """Announce this replica with the next tick."""
        self._next_join = 0.0

    def on_chunk(self, voter: Voter, message: Chunk) -> None:
        """A piece of a snapshot."""
        state = self._state
        learning = self.learning
        if state.member or message.token <= 0 or not 0 <= message.total <= MAX_CHUNKS:
            return
        if learning is None or message.token > learning.token:
            if learning is not None and learning.installing:
                return
            learning = self.learning = Learning(message.token, voter.replica, message.at, message.total)
        if (
            message.token != learning.token
            or voter.replica != learning.donor
            or message.at != learning.at
            or message.total != learning.total
            or learning.installing
        ):
            return
        if not learning.installed:
            if message.number == len(learning.chunks) < learning.total:
                learning.chunks.append(message.data)
            if message.number + 1 >= learning.total:
                learning.origins = message.origins
            if len(learning.chunks) == learning.total:
                self._install(learning)
                return
        state.send(voter.replica, ChunkAck(learning.token, len(learning.chunks), learning.installed))

    def _install(self, learning: Learning) -> None:
        """The snapshot is complete: hand it to the application, unless its state is newer already."""
        state = self._state
        if learning.at.at <= state.applied:
            self._installed(learning)
            return
        learning.installing = True
        self._busy(True)
        state.note(f"installs a snapshot of index {learning.at.at}")
        me = state.me
        forwarded = Origins(learning.origins).last(me.replica, me.incarnation, state.boot)
        state.event(InstallSnapshot(learning.at.at, learning.chunks, forwarded))

    def snapshot_installed(self, index: int) -> None:
        """The application has replaced its state."""
        learning = self.learning
        if learning is None or not learning.installing or index != learning.at.at:
            return
        learning.installing = False
        self._busy(False)
        self._state.reset(learning.at, learning.origins)
        self._installed(learning)

    def _installed(self, learning: Learning) -> None:
        """Tell the donor, which goes on with entries."""
        learning.installed = True
        learning.chunks = []
        self._state.vow(learning.donor, ChunkAck(learning.token, learning.total, True))

    def on_catch_up(self, voter: Voter, message: CatchUp) -> None:
        """Entries after the snapshot."""
        state = self._state
        learning = self.learning
        if state.member or message.token <= 0:
            return
        if learning is None or message.token > learning.token:
            if learning is not None and learning.installing:
                return
            learning = Learning(message.token, voter.replica, message.base, 0, installed=True)
            self.learning = learning
        if message.token != learning.token or not learning.installed or voter.replica != learning.donor:
            return
        log = state.log
        base = message.base
        if base.at > log.last.at or (base.at >= log.base.at and log.tag(base.at) != base):
            # Not what this replica has: only the committed part is sure to be shared.
            state.send(voter.replica, CaughtUp(message.token, state.commit, state.commit, True))
            return
        if base.at < 0 or (message.entries and message.entries[0].index != base.at + 1):
            return
        reason = state.splice(message.entries, None)
        if reason:
            state.note(f"cannot take entries after {base.at} from replica {voter.replica}: {reason}")
            return
        reached = max(base.at + len(message.entries), state.commit)
        state.commit_to(min(message.commit, reached))
        state.vow(voter.replica, CaughtUp(message.token, reached, state.commit, False))

    def done(self) -> None:
        """A view took this replica in."""
        self.learning = None
        self._complete_since = None
