"""The master's side of a join: state transfer to one learner at a time, then its place in the configuration.

Source: the channel protocol, section 4. The application gives the state part by part, at the pace at which
the learner takes them, and says with the last ones after which entry the whole is the state; the log is kept
from there on only. A learner never counts: it answers CaughtUp, never Ack. The voter of the dead life of the
replica leaves the configuration first, then the new one comes, one change per view.
"""

import math
from collections.abc import Iterable

from ..model.events import ProvidePart, ProvideSnapshot
from ..model.messages import CatchUp, CaughtUp, ChunkAck, Join, Reconfig
from ..model.view import Voter
from ..replication.lease import Lease, proposer
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState
from .chunks import Outbox, Parts
from .flow_control import FlowControl
from .log_tail import Lead
from .pacing import Pacing
from .transfer import Phase, Transfer

REPLICA_BITS = 16
"""The lowest bits of a token are the donor's id: no two masters ever give the same one."""
TOKENS = 32
"""The bits above these are the counter of the view; those between count transfers, and questions."""
MAX_TOKEN = 1 << 62
"""What a learner shows above this is not believed."""
PROOF_AGAIN = 4
"""A learner that does not confirm that it can answer is asked again after this many `view_change_s`."""
PATIENCE = 4
"""While another learner waits, one that comes no further for so many `stall_s` gives its place up."""
MAX_AGAIN = 2
"""What is not acknowledged is sent again after pauses that grow up to so many `stall_s`."""


class Donor:
    """State transfer, seen from the master."""

    def __init__(self, state: ReplicaState, replication: Replication, lease: Lease) -> None:
        self._state = state
        self._replication = replication
        replication.lent_out = self.full
        self._lease = lease
        self.session: Transfer | None = None
        self._last = 0
        """The last token given to a transfer, or to a question."""
        self._wanted: Voter | None = None
        """The learner the last proposal counted on."""
        self._lending = FlowControl(state)

    @property
    def phase(self) -> str:
        """How far the transfer has come: see `phases.GIVING`."""
        return "nobody" if self.session is None else self.session.phase.value

    @property
    def hold(self) -> int | None:
        """The log above this index is needed for a transfer."""
        return self.session.hold if self.session is not None else None

    @property
    def wake(self) -> float | None:
        """When the application may be asked for the next part, or entries go beside it, None if time does not
        tell."""
        session = self.session
        state = self._state
        if session is None or not state.leading or session.phase is not Phase.STATE:
            return None
        wake = session.pace.wake if self._wants(session) else None
        if session.lead is not None and session.lead.wants(state.commit):
            wake = session.ahead_after if wake is None else min(wake, session.ahead_after)
        return wake

    def on_join(self, now: float, voter: Voter, message: Join) -> None:
        """A replica outside the view wants in, or wants the transfer to go on."""
        state = self._state
        if not state.leading or state.accepted is None or voter in state.accepted.members or state.leaving:
            return
        session = self.session
        if session is not None and session.voter != voter:
            if not state.peers.departs(session.voter):
                if not self._stuck(now, session):
                    return
                self._close("it comes no further, and another one waits")
            session = None
        if session is not None and self._lost(session, message):
            self._close("the learner begins again")
            session = None
        if session is None:
            if not self._served(now, message):
                self._open(now, voter, message)
            return
        session.heard = now
        if message.commit.at > session.reached:
            session.reached, session.came = message.commit.at, now
        if now - session.moved > session.again_s:
            if session.moved > -math.inf:
                # Or its connection is slow: what comes twice for that would make it slower and slower.
                session.again_s = min(2 * session.again_s, MAX_AGAIN * state.settings.stall_s)
            session.moved = now
            self._rewind(now, session)
        elif session.lead is not None and session.lead.waits and now - session.lead.moved > session.again_s:
            session.lead.again(now)

    def _gone(self, session: Transfer) -> bool:
        """Whether the learner is not there any more. A connected one that is silent may be installing."""
        link = self._state.peers.link(session.voter)
        return self._state.peers.departs(session.voter) if link is None else link.leaving

    def _stuck(self, now: float, session: Transfer) -> bool:
        """Whether the learner has had something to do for long, and does not: its disk hangs, say.

        Or it takes what is sent, and never answers in time to be taken in: its disk is slow.
        """
        long = PATIENCE * self._state.settings.stall_s
        if session.phase is Phase.ENTRIES:
            busy = session.acked < session.sent
        else:
            busy = not session.asked and (session.whole or not session.outbox.empty)
        return now - session.doubted > long or (busy and now - session.came > long)

    def _lost(self, session: Transfer, message: Join) -> bool:
        """The learner does not have what it had acknowledged, or had when it began, or will have none of it.

        It may be another process of the same voter, which was back before anybody noticed. Or a master of
        before, which it heard meanwhile, has begun a transfer of its own, and it takes nothing of this one.
        """
        if message.refused == session.token or message.token > session.token:
            return True
        if session.phase is not Phase.STATE:
            return message.fresh
        same = message.token == session.token
        chunks = message.chunks if same else 0
        return (
            chunks < (session.kept if same else session.outbox.acked)
            or message.commit.at < session.have
            or (not same and session.lead is not None and len(session.lead) > 0)
            or (chunks == 0 and message.marker != session.marker)
        )

    def _served(self, now: float, message: Join) -> bool:
        """Whether another master gives the learner its state, and this one may be the one to give way.

        Either may be cut off from the others and not know it. If each took the learner from the other one no
        state would ever arrive: it belongs to the one that holds the lease.
        """
        state = self._state
        assert state.accepted is not None
        first = state.accepted.number.counter << TOKENS
        by_another = message.token >= first and message.token % (1 << REPLICA_BITS) != state.me.replica
        return by_another and not self._lease.holds(now)

    def _open(self, now: float, voter: Voter, message: Join) -> None:
        """Begin a transfer: entries only when the log reaches back to what the learner has."""
        state, settings = self._state, self._state.settings
        assert state.accepted is not None
        # Above what the learner knows, which may be of another cluster that had come further.
        known = max(message.token, message.refused)
        first = state.accepted.number.counter << TOKENS
        token = self._token_above(max(first, known if known < MAX_TOKEN else 0))
        have = message.commit
        log = state.log
        outbox = Outbox(token, settings.part_bytes, settings.transfer_window)
        pace = Pacing(
            settings.transfer_share, settings.transfer_pause_s, settings.transfer_window, log.last.at
        )
        session = self.session = Transfer(
            voter, token, token, now, now, now, settings.suspect_s, Phase.STATE, outbox, pace
        )
        if not message.fresh and log.base.at <= have.at <= state.commit and log.tag(have.at) == have:
            state.note(f"replica {voter.replica} joins: sends the entries after {have.at}")
            self._begin_entries(now, session, have.at)
            return
        session.marker = message.marker
        # Where the log still has that entry, it is another one.
        if not message.fresh and have.at < log.base.at and have.view <= state.accepted.number:
            session.have = have.at
        state.note(
            f"replica {voter.replica} joins: sends the state"
            + (", going on with what it has" if session.marker else "")
            + (f", or what has changed since entry {session.have}" if session.have else "")
        )
        self._ask(now, session)

    def _token_above(self, known: int) -> int:
        """One that is above another, and all that were given before."""
        count = (max(self._last, known) >> REPLICA_BITS) + 1
        self._last = (count << REPLICA_BITS) + self._state.me.replica
        return self._last

    def _close(self, reason: str) -> None:
        """The transfer is over."""
        if self.session is not None:
            self._state.note(f"transfer to replica {self.session.voter.replica} ends: {reason}")
            self.session = None

    # The state

    def _wants(self, session: Transfer) -> bool:
        """Whether another part may be asked for, if it is time."""
        there = session.at is None or bool(session.rest)
        return session.phase is Phase.STATE and there and not session.asked and session.outbox.hungry

    def _ask(self, now: float, session: Transfer) -> None:
        """Ask the application for the next part, unless it has given it in advance."""
        state, pace = self._state, session.pace
        while self._wants(session) and pace.wake is not None and now >= pace.wake:
            pace.asked(now, state.log.last.at)
            if not session.rest:
                self._ask_application(session)
                return
            try:
                data = session.rest.take()
            except Exception as error:
                # What is there is not all of it.
                self._close(f"the state cannot be had: {error!r}")
                return
            last = not session.rest
            session.outbox.put(data, *((session.at, session.origins) if last else (None, ())))
            session.came = now
            self._push(session)

    def _ask_application(self, session: Transfer) -> None:
        state = self._state
        session.asked = True
        if not session.frozen:
            # The application is here, and may say that the state is of now.
            session.hold = state.applied
        if session.begun:
            state.event(ProvidePart(session.token, state.applied))
        else:
            session.begun = True
            state.event(ProvideSnapshot(session.token, state.applied, session.have, session.marker))

    def _push(self, session: Transfer) -> None:
        for piece in session.outbox.due():
            self._state.send(session.voter.replica, piece)

    def _asked(self, token: int) -> Transfer | None:
        """The transfer that an answer of the application is for."""
        session = self.session
        if session is None or session.token != token or not session.asked:
            return None
        session.asked = False
        return session

    def part_ready(self, now: float, token: int, data: bytes, index: int | None, *, last: bool) -> None:
        """The application gave one part."""
        session = self._asked(token)
        if session is None or not self._freeze(session, index, last=last):
            return
        if not session.frozen:
            # Until the application is asked again it says nothing of an entry.
            session.hold = None
        session.outbox.put(data, session.at, session.origins)
        session.came = now
        self._push(session)
        self._ask(now, session)

    def snapshot_ready(self, now: float, token: int, index: int, parts: Iterable[bytes]) -> None:
        """The application gave all parts, each to be made when it is wanted."""
        session = self._asked(token)
        if session is None or not self._freeze(session, index, last=True):
            return
        try:
            session.rest = Parts(parts) or Parts([b""])
        except Exception as error:
            self._close(f"the state cannot be had: {error!r}")
            return
        session.heard = session.moved = now
        self._ask(now, session)

    def _freeze(self, session: Transfer, index: int | None, *, last: bool) -> bool:
        """The parts are as of entry `index` from here on; false if the log does not reach back to it."""
        if index is None:
            return not last
        state = self._state
        if not state.log.base.at <= index <= state.applied:
            reach = f"{state.log.base.at}..{state.applied}"
            self._close(f"the state is that after entry {index}, outside {reach}")
            return False
        session.frozen = True
        session.hold = index
        if last:
            session.at, session.origins = state.log.tag(index), state.origins_at(index)
            session.lead = Lead(state.now, session.token, state.settings.transfer_window, index)
        return True

    def part_failed(self, token: int, reason: str) -> None:
        """The application cannot give the state, or has forgotten what it gave."""
        if self._asked(token) is not None:
            self._close(reason)

    def on_chunk_ack(self, now: float, voter: Voter, message: ChunkAck) -> None:
        """The learner has pieces, or has installed them all."""
        session = self.session
        if (
            session is None
            or session.token != message.token
            or session.voter != voter
            or session.phase is not Phase.STATE
        ):
            return
        session.heard = now
        if not self._state.leading:
            session.unread = message
            return
        lead = session.lead
        if lead is not None and lead.ack(now, self._state.log, message.ahead):
            session.hold = lead.acked
            if not message.installed and now >= session.ahead_after:
                self._push_ahead(now, session)
        if message.installed and lead is not None:
            self._begin_entries(now, session, lead.acked)
        elif session.outbox.ack(message.chunks):
            session.moved = session.came = now
            if session.outbox.empty and not session.asked:
                hurry = self._lending.hurry(session) if session.frozen else 0.0
                session.pace.taken(now, self._state.log.last.at, hurry=hurry)
            self._push(session)
            self._ask(now, session)

    def _push_ahead(self, now: float, session: Transfer) -> None:
        """Send entries beside the state, as many messages as the window allows."""
        state, lead = self._state, session.lead
        if lead is None:
            return
        for message in lead.due(now, state.log, state.commit, state.settings.part_bytes):
            state.send(session.voter.replica, message)
        session.ahead_after = now + state.settings.transfer_pause_s

    def full(self) -> bool:
        """The log is as long as it may be for a learner that everybody waits for."""
        session = self.session
        return session is not None and self._lending.full(session)

    # Entries

    def _begin_entries(self, now: float, session: Transfer, after: int) -> None:
        session.phase = Phase.ENTRIES
        session.rest = Parts()
        session.hold = session.sent = session.acked = after
        session.moved = session.came = session.follows = now
        self._push_entries(session)

    def _push_entries(self, session: Transfer, *, again: bool = False) -> None:
        """Send entries, as many messages as the window allows. again: those that were sent before."""
        state = self._state
        log = state.log
        assert state.accepted is not None
        if session.sent < log.base.at or session.sent > log.last.at:
            self._close("the log does not reach back far enough")
            return
        if session.sent == session.acked < log.last.at and not again:
            session.came = state.now
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
            or not session.opened <= message.token <= session.token
            or session.voter != voter
            or session.phase is not Phase.ENTRIES
            or not state.leading
        ):
            return
        session.heard = now
        in_time = now - session.proof_asked <= state.settings.view_change_s
        if in_time and message.token == session.token and not message.reset:
            # With a disk this has waited for it, as a promise would.
            session.doubted = math.inf
            session.proved = not message.bound_s > 0
            if not session.proved:
                session.ask_again = min(session.ask_again, now + message.bound_s)
        if message.reset:
            if message.index < state.log.base.at or message.index > state.log.last.at:
                self._close("the log does not reach back far enough")
                return
            session.in_flight.clear()
            session.sent = session.acked = message.index
            session.hold = min(session.acked, message.commit)
            if session.came_back == message.index:
                # At once again it would answer the same: what follows goes when it announces itself.
                return
            session.came_back = message.index
        elif session.acked < message.index <= state.log.last.at:
            session.acked = message.index
            # It may have more than what was sent again after its answers were lost.
            session.sent = max(session.sent, message.index)
            session.hold = min(message.index, message.commit)
            session.moved = session.came = now
            while session.in_flight and session.in_flight[0] <= message.index:
                session.in_flight.popleft()
        self._push_entries(session)
        state.attention = True

    def _rewind(self, now: float, session: Transfer) -> None:
        """No progress for a while: send again what the learner has not acknowledged."""
        if session.phase is Phase.STATE:
            session.outbox.again()
            self._push(session)
            if session.lead is not None:
                session.lead.again(now)
            self._ask(now, session)
        else:
            session.in_flight.clear()
            session.sent = session.acked
            self._push_entries(session, again=True)

    def reconnected(self, voter: Voter) -> None:
        """What was on its way to the learner may be lost: its next Join says how far it is."""
        session = self.session
        if session is not None and session.voter == voter:
            session.moved = -math.inf
            session.kept = session.outbox.acked

    def paused(self, now: float, seconds: float) -> None:
        """This replica did not run for so long: the learner is not to blame for that."""
        session = self.session
        if session is None:
            return
        session.heard, session.moved, session.came = (
            min(time + seconds, now) for time in (session.heard, session.moved, session.came)
        )
        if session.filled < math.inf:
            session.filled = min(session.filled + seconds, now)
        if session.doubted < math.inf:
            session.doubted = min(session.doubted + seconds, now)

    def tick(self, now: float) -> None:
        """Send what is new, end what does not go on."""
        session, state = self.session, self._state
        if session is None or not state.leading:
            return
        settings = state.settings
        if self._gone(session):
            self._close("it went away")
        elif now - session.heard > settings.stall_s * (PATIENCE if session.whole else 1):
            self._close("it does not answer")
        elif reason := self._lending.overflows(now, session):
            self._close(reason)
        elif session.phase is Phase.ENTRIES:
            self._push_entries(session)
        else:
            self._ask(now, session)
            if now >= session.ahead_after:
                self._push_ahead(now, session)

    # Membership

    def ready(self) -> Voter | None:
        """A learner that the next view may take in."""
        session = self.session
        # Twice what `step` asks for, or the entry it appends could be one too many.
        ready = session is not None and session.proved and self._lending.lag(session) <= 2
        self._wanted = session.voter if session is not None and ready else None
        return self._wanted

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
        if self._lending.lag(session) > 1 or not self._proved(now, session):
            return False
        if voter not in view.config:
            state.note(f"adds voter {voter}")
            self._replication.reconfigure(now, Reconfig(True, *voter))
            return False
        return True

    def _proved(self, now: float, session: Transfer) -> bool:
        """Whether the learner has shown that it can answer and may promise; if not it is asked to.

        One whose disk hangs announces itself all the same, and lacks nothing while nothing happens; each view
        that was to take it in would stop the others for `view_change_s`, in vain; so would one that a grant
        binds, to a master of before say. It is asked under a token of its own: what it says of messages sent
        before, or of an earlier question, proves nothing.
        """
        state = self._state
        if not session.proved and now > session.ask_again:
            assert state.accepted is not None
            session.token = self._token_above(session.token)
            session.proof_asked, session.doubted = now, min(session.doubted, now)
            session.ask_again = now + PROOF_AGAIN * state.settings.view_change_s
            base = state.log.tag(session.sent)
            message = CatchUp(session.token, state.accepted.number, base, (), state.commit)
            state.send(session.voter.replica, message)
        return session.proved

    def review(self) -> None:
        """Another one's view was accepted: this log may not be any more what the learner was given of it."""
        view = self._state.accepted
        if self.session is not None and view is not None and proposer(view.number) != self._state.me:
            self._close("another one leads")

    def on_view(self, now: float) -> None:
        """A view became active: the learner is in it, or the transfer goes on, or another master does it."""
        state, session = self._state, self.session
        view = state.accepted
        if not state.leading:
            self._lending.missed.clear()
            self._lending.in_vain.clear()
        if session is None or view is None:
            return
        if session.voter in view.members:
            self._lending.missed.pop(session.voter.replica, None)
            self._lending.in_vain.discard(session.voter.replica)
            self._close("it is a member")
        elif not view.lists(session.voter.replica):
            self._close("it does not belong to the cluster")
        elif self._wanted == session.voter and session.voter in view.config:
            replica = session.voter.replica
            self._lending.missed[replica] = self._lending.missed.get(replica, 0) + 1
            self._close("it did not take part in the view")
        else:
            session.heard = session.moved = now
            session.in_flight.clear()
            session.sent = session.acked
            if session.lead is not None:
                session.lead.again(now)
            session.proved, session.proof_asked, session.ask_again = False, -math.inf, -math.inf
            unread, session.unread = session.unread, None
            if unread is not None:
                self.on_chunk_ack(now, session.voter, unread)
