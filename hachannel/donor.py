"""The master's side of a join: state transfer to one learner at a time, then its place in the configuration.

Source: the channel protocol, section 4. A learner never counts: it answers CaughtUp, never Ack. The voter of
the dead life of the replica leaves the configuration first, then the new one comes, one change per view.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum

import attrs

from .events import ProvideSnapshot
from .messages import CatchUp, CaughtUp, Chunk, ChunkAck, Join, Reconfig
from .origins import Rows
from .replication import Replication
from .state import State
from .view import Tag, Voter

TOKENS = 20
"""Bits of a transfer's token that count the transfers of one view; the bits above are the view's counter."""


MIN_LAG = 64
"""A learner that lacks no more entries than this, or than a window, may go with the next view."""


class Phase(Enum):
    """How far a transfer has come."""

    WAITING = "waits for a snapshot"
    SENDING = "sends the snapshot"
    ENTRIES = "sends entries"


@attrs.define(eq=False)
class Session:
    """One state transfer."""

    voter: Voter
    token: int
    hold: int
    """The log above it is needed."""
    heard: float
    """The last sign of life of the transfer."""
    moved: float
    """When the learner last came further."""
    phase: Phase = Phase.WAITING
    at: Tag | None = None
    chunks: Sequence[bytes] = ()
    sent: int = 0
    """Chunks sent; or, later, the index of the last entry sent."""
    acked: int = 0
    """The same, acknowledged."""
    in_flight: deque[int] = attrs.field(factory=deque[int])
    """The last indices of the CatchUp messages under way."""
    origins: Rows = ()
    """Who had submitted how much after `at`."""


class Donor:
    """State transfer, seen from the master."""

    def __init__(self, state: State, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self.session: Session | None = None
        self._count = 0
        self._wanted: Voter | None = None
        """The learner the last proposal counted on."""

    @property
    def hold(self) -> int | None:
        """The log above this index is needed for a transfer."""
        return self.session.hold if self.session is not None else None

    def on_join(self, now: float, voter: Voter, message: Join) -> None:
        """A replica outside the view wants in, or wants the transfer to go on."""
        state = self._state
        if not state.leading or state.accepted is None or voter in state.accepted.members or state.leaving:
            return
        session = self.session
        if session is not None and session.voter != voter:
            if not state.peers.departs(session.voter):
                return
            session = None
        if session is None:
            self._open(now, voter, message)
            return
        session.heard = now
        if now - session.moved > state.settings.suspect_s / 2:
            session.moved = now
            self._rewind(session, message)

    def _open(self, now: float, voter: Voter, message: Join) -> None:
        """Begin a transfer: entries only when the log reaches back to what the learner has."""
        state = self._state
        assert state.accepted is not None
        self._count += 1
        token = (state.accepted.number.counter << TOKENS) + self._count
        have = message.commit
        log = state.log
        if log.base.at <= have.at <= state.commit and log.tag(have.at) == have:
            state.note(f"replica {voter.replica} joins: sends the entries after {have.at}")
            self.session = Session(voter, token, have.at, now, now, Phase.ENTRIES, have, (), have.at, have.at)
            self._push_entries(self.session)
        else:
            state.note(f"replica {voter.replica} joins: asks for a snapshot")
            self.session = Session(voter, token, state.applied, now, now)
            state.event(ProvideSnapshot(token))

    def _close(self, reason: str) -> None:
        """The transfer is over."""
        if self.session is not None:
            self._state.note(f"transfer to replica {self.session.voter.replica} ends: {reason}")
            self.session = None

    def snapshot_ready(self, now: float, token: int, index: int, chunks: Sequence[bytes]) -> None:
        """The application answered."""
        session = self.session
        if session is None or session.token != token or session.phase is not Phase.WAITING:
            return
        state = self._state
        if not state.log.base.at <= index <= state.applied:
            self._close(f"the snapshot is of index {index}, outside {state.log.base.at}..{state.applied}")
            return
        session.phase = Phase.SENDING
        session.at = state.log.tag(index)
        session.hold = index
        session.chunks = chunks
        session.origins = state.origins_at(index)
        session.heard = session.moved = now
        self._push_chunks(session)

    def _push_chunks(self, session: Session) -> None:
        """Send chunks, as many as the window allows. An empty snapshot is one message too."""
        assert session.at is not None
        total = len(session.chunks)
        limit = min(session.acked + self._state.settings.transfer_window, total)
        while session.sent < limit or (total == 0 and session.sent == 0):
            number = session.sent
            data = session.chunks[number] if total else b""
            origins = session.origins if number + 1 >= total else ()
            self._state.send(
                session.voter.replica, Chunk(session.token, session.at, number, total, data, origins)
            )
            session.sent += 1

    def on_chunk_ack(self, now: float, voter: Voter, message: ChunkAck) -> None:
        """The learner has chunks, or has installed them."""
        session = self.session
        if (
            session is None
            or session.token != message.token
            or session.voter != voter
            or session.phase is not Phase.SENDING
            or not self._state.leading
        ):
            return
        session.heard = now
        if message.installed and session.at is not None:
            session.phase = Phase.ENTRIES
            session.chunks = ()
            session.sent = session.acked = session.at.at
            session.moved = now
            self._push_entries(session)
        elif session.acked < message.chunks <= len(session.chunks):
            session.acked = message.chunks
            session.sent = max(session.sent, session.acked)
            session.moved = now
            self._push_chunks(session)

    def _push_entries(self, session: Session) -> None:
        """Send entries, as many messages as the window allows."""
        state = self._state
        log = state.log
        assert state.accepted is not None
        if session.sent < log.base.at or session.sent > log.last.at:
            self._close("the log does not reach back far enough")
            return
        while session.sent < log.last.at and len(session.in_flight) < state.settings.transfer_window:
            base = log.tag(session.sent)
            entries = tuple(log.slice(session.sent, log.last.at, state.settings.part_bytes))
            session.sent = entries[-1].index
            session.in_flight.append(session.sent)
            state.send(
                session.voter.replica,
                CatchUp(session.token, state.accepted.number, base, entries, state.commit),
            )

    def on_caught_up(self, now: float, voter: Voter, message: CaughtUp) -> None:
        """The learner has entries."""
        session = self.session
        state = self._state
        if (
            session is None
            or session.token != message.token
            or session.voter != voter
            or session.phase is not Phase.ENTRIES
            or not state.leading
        ):
            return
        session.heard = now
        if message.reset:
            session.in_flight.clear()
            session.sent = session.acked = message.index
            session.hold = message.commit
        elif session.acked < message.index <= session.sent:
            session.acked = message.index
            session.hold = min(message.index, message.commit)
            session.moved = now
            while session.in_flight and session.in_flight[0] <= message.index:
                session.in_flight.popleft()
        self._push_entries(session)
        state.attention = True

    def _rewind(self, session: Session, message: Join) -> None:
        """No progress for a while: send again what the learner lacks."""
        if session.phase is Phase.SENDING:
            have = message.chunks if message.token == session.token else 0
            # At least the last chunk, in case only the answer to it was lost.
            session.acked = session.sent = max(0, min(have, len(session.chunks) - 1))
            self._push_chunks(session)
        elif session.phase is Phase.ENTRIES:
            session.in_flight.clear()
            session.sent = session.acked
            self._push_entries(session)

    def reconnected(self, voter: Voter) -> None:
        """What was on its way to the learner may be lost: its next Join says how far it is."""
        if self.session is not None and self.session.voter == voter:
            self.session.moved = float("-inf")

    def tick(self, now: float) -> None:
        """Send what is new, end what does not go on."""
        session, state = self.session, self._state
        if session is None or not state.leading:
            return
        settings = state.settings
        if state.peers.departs(session.voter):
            self._close("it went away")
        elif now - session.heard > settings.stall_s:
            self._close("it does not answer")
        elif len(state.log) > settings.max_log or state.log.size_bytes > settings.max_log_bytes:
            self._close("the log has become too long meanwhile")
        elif session.phase is Phase.ENTRIES:
            self._push_entries(session)

    # Membership

    def _lag(self, session: Session) -> float:
        """How much is missing, in units of what may go with the next view."""
        if session.phase is not Phase.ENTRIES:
            return float("inf")
        return (self._state.log.last.at - session.acked) / max(self._state.settings.window, MIN_LAG)

    def ready(self) -> Voter | None:
        """A learner that the next view may take in."""
        session = self.session
        # Twice what `step` asks for, or the entry it appends could be one too many.
        ready = session.voter if session is not None and self._lag(session) <= 2 else None
        self._wanted = ready
        return ready

    def step(self, now: float) -> bool:
        """Do the next thing a join needs; true when that is a new view. Called on an idle master only."""
        state, session = self._state, self.session
        view = state.accepted
        if session is None or view is None:
            return False
        if state.pending is not None:
            return False
        voter = session.voter
        old = [other for other in view.config if other.replica == voter.replica and other != voter]
        if old:
            if old[0] not in view.members:
                state.note(f"removes voter {old[0]}: {voter} takes its place")
                self._replication.reconfigure(now, Reconfig(False, *old[0]))
            return False
        if self._lag(session) > 1:
            return False
        if voter not in view.config:
            state.note(f"adds voter {voter}")
            self._replication.reconfigure(now, Reconfig(True, *voter))
            return False
        return True

    def on_view(self, now: float) -> None:
        """A view became active: the learner is in it, or the transfer goes on, or another master does it."""
        state, session = self._state, self.session
        view = state.accepted
        if session is None or view is None:
            return
        if not state.leading:
            self.session = None
        elif session.voter in view.members:
            self._close("it is a member")
        elif not view.lists(session.voter.replica):
            self._close("it does not belong to the cluster")
        elif self._wanted == session.voter and session.voter in view.config:
            self._close("it did not take part in the view")
        else:
            session.heard = session.moved = now
            session.in_flight.clear()
            session.sent = session.acked
            if session.phase is Phase.SENDING:
                self._push_chunks(session)
