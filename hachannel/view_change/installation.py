"""The installation of a view: members adopt its log and accept it, other voters record it, it becomes active.

Source: the channel protocol, section 3, steps 4 to 6. A view is recorded only once all its members accepted
it, so a voter that recorded it proves that every member holds its log. A first view becomes active only once
k members have recorded that it may: the proposer of any later view learns of it from them, so no second view
reports that the cluster begins.
"""

from collections.abc import Callable, Mapping

import attrs

from ..model.events import ViewEvent
from ..model.messages import Accept, Activate, Found, Founded, NewView, Record, Recorded, Refuse
from ..model.view import NO_VIEW, View, ViewNumber, Voter
from ..replication.handlers import Handlers
from ..replication.lease import Lease, proposer
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState
from .choice import activated
from .staged_log import StagedLog

RESEND = 5
"""The log of a view is sent again after this many retry intervals, then after twice as many, and so on: it
may be long, and the network slow."""


@attrs.define(eq=False)
class Installing:
    """A view that this replica has proposed and is installing."""

    view: View
    source: View | None
    """The view that it replaces; None if it is the first one."""
    active: bool
    """`source` was active, or no proposer can conclude that it was not."""
    bases: Mapping[Voter, int]
    """For each other member: index up to which it has the log already."""
    since: float
    sent: dict[Voter, float]
    accepted: set[Voter]
    recorded: set[Voter]
    recording: float | None = None
    """Time when Record was last sent to the voters that are no members; None if it was not."""
    founding: float | None = None
    """In a first view that enough voters accepted: time when Found was last sent; else None."""
    founded: set[Voter] = attrs.field(factory=set[Voter])
    """The members that have answered Found."""
    again: int = 0
    """Number of times that the log was sent again."""
    known: bool = False
    """The view is active; a first view waits until that is durable here."""

    @property
    def lacking(self) -> list[Voter]:
        """The other members that have not answered."""
        answered = self.accepted if self.founding is None else self.founded
        return [voter for voter in self.bases if voter not in answered]


class Installation:
    """Installs views, as the proposer and as a member or voter."""

    def __init__(
        self, state: ReplicaState, replication: Replication, lease: Lease, abandon: Callable[[float], None]
    ) -> None:
        self._state = state
        self._replication = replication
        self._lease = lease
        self._abandon = abandon
        self.current: Installing | None = None
        self._staged: StagedLog | None = None
        self._noted = NO_VIEW
        """Number of the first view for which Activated was recorded."""
        self.busy = False
        """The application is installing a snapshot: no view can be accepted meanwhile."""

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {
            NewView: self.on_new_view,
            Accept: self.on_accept,
            Record: self.on_record,
            Recorded: self.on_recorded,
            Found: self.on_found,
            Founded: self.on_founded,
            Activate: self.on_activate,
        }

    def set_busy(self, busy: bool) -> None:
        """Note that the application begins, or ends, installing a snapshot."""
        self.busy = busy

    # The proposer

    def propose(self, now: float, installing: Installing) -> None:
        """Install a view whose log this replica has: send it to the other members, and accept it."""
        state = self._state
        view = installing.view
        self.current = installing
        state.output.note(f"installs view {view.number} of {view.replicas()}: {view.reason}")
        for voter in installing.bases:
            self._send(now, installing, voter)
        if installing.source is not None or not installing.bases:
            self._accept_own()

    def _accept_own(self) -> None:
        """Accept the view as its proposer, once; a first view after all others: no loss if it fails."""
        if self.current is not None and self._state.accepted != self.current.view:
            self._state.accept(self.current.view)
            self._state.output.send_after_sync(self._state.me.replica, Accept(self.current.view.number))

    def _send(self, now: float, installing: Installing, voter: Voter) -> None:
        """Send a member the part of the log of the view that it lacks, in messages of `part_bytes`."""
        state = self._state
        log = state.log
        view = installing.view
        start = installing.bases[voter]
        installing.sent[voter] = now
        base = log.tag(start)
        done = start
        while True:
            entries = tuple(log.slice(done, view.start, state.settings.part_bytes))
            offset, done = done - start, done + len(entries)
            complete = done >= view.start
            state.output.send(voter.replica, NewView(view, base, offset, entries, complete))
            if complete:
                return

    def on_accept(self, now: float, voter: Voter, message: Accept) -> None:
        """Note that a member has the log of the view."""
        installing = self.current
        if (
            installing is not None
            and message.number == installing.view.number
            and voter in installing.view.members
        ):
            installing.accepted.add(voter)
            if installing.source is None and installing.accepted == set(installing.bases):
                self._accept_own()
            self._progress(now, installing)

    def on_recorded(self, now: float, voter: Voter, message: Recorded) -> None:
        """Note that a voter that is no member has recorded the view."""
        installing = self.current
        if installing is not None and message.number == installing.view.number:
            installing.recorded.add(voter)
            self._progress(now, installing)

    def _progress(self, now: float, installing: Installing) -> None:
        """Send Record once all members accepted the view; activate it once both majorities have it."""
        view = installing.view
        if installing.recording is None and self.complete(installing):
            self._record(now, installing)
        have = installing.accepted | installing.recorded
        if installing.known or not activated(have, installing.source, installing.active, view):
            return
        if not view.boot:
            installing.known = True
            self.activate(now)
        elif installing.founding is None:
            self._found(now, installing)

    def _found(self, now: float, installing: Installing) -> None:
        """Record that the first view may become active at any moment, then send Found to the members."""
        state = self._state
        first, installing.founding = installing.founding is None, now
        if first:
            state.foresee()
            state.output.send_after_sync(state.me.replica, Founded(installing.view.number))
        elif state.me in installing.founded:
            self._send_found(installing)

    def _send_found(self, installing: Installing) -> None:
        """Send Found to the members, after the proposer has recorded it: then at least two know."""
        for voter in installing.lacking:
            self._state.output.send(voter.replica, Found(installing.view.number))

    def on_founded(self, now: float, voter: Voter, message: Founded) -> None:
        """Note that a member has recorded that the first view may become active."""
        installing = self.current
        if (
            installing is not None
            and not installing.known
            and message.number == installing.view.number == self._state.promised
            and voter in installing.view.members
        ):
            installing.founded.add(voter)
            if voter == self._state.me:
                self._send_found(installing)
            if len(installing.founded) >= installing.view.k:
                installing.known = True
                self.activate(now)

    def complete(self, installing: Installing) -> bool:
        """Return whether every member has accepted the view."""
        return installing.accepted >= set(installing.view.members)

    def _record(self, now: float, installing: Installing) -> None:
        """Send Record to the voters that are no members."""
        installing.recording = now
        view = installing.view
        voters = set(view.config)
        if installing.source is not None:
            voters |= set(installing.source.config)
        for voter in sorted(voters - set(view.members) - installing.recorded):
            if self._state.peers.link(voter) is not None:
                self._state.output.send(voter.replica, Record(view))

    def drive(self, now: float, attempt_timeout_s: float) -> str:
        """Repeat messages without an answer. Return why the view cannot be installed; "" if it still can.

        attempt_timeout_s: time that the installation may take, in seconds.
        """
        installing, state = self.current, self._state
        if installing is None or installing.known:
            return ""
        lacking = installing.lacking
        for voter in lacking:
            if state.peers.retires(voter):
                return f"replica {voter.replica} went away"
        if now - installing.since > attempt_timeout_s:
            missing = [voter.replica for voter in lacking]
            return f"no answer from {missing}" if missing else "too few voters recorded it"
        if installing.founding is not None:
            if now - installing.founding >= state.settings.retry_s:
                self._found(now, installing)
            return ""
        again = False
        for voter in installing.bases:
            if (
                voter not in installing.accepted
                and now - installing.sent[voter] >= RESEND * state.settings.retry_s * 2**installing.again
            ):
                again = True
                self._send(now, installing, voter)
        installing.again += again
        if installing.recording is not None and now - installing.recording >= state.settings.retry_s:
            self._record(now, installing)
        return ""

    def reconnected(self, now: float, voter: Voter) -> None:
        """Send again the messages to a member that may be lost with its connection."""
        installing = self.current
        if installing is None or voter not in installing.lacking:
            return
        if installing.founding is None:
            self._send(now, installing, voter)
        elif self._state.me in installing.founded:
            self._state.output.send(voter.replica, Found(installing.view.number))

    # Members and voters

    def on_new_view(self, now: float, voter: Voter, message: NewView) -> None:
        """Stage a part of the log of a new view; with the last part adopt it and accept the view."""
        state = self._state
        view = message.view
        if voter != proposer(view.number) or state.me not in view.members or self.busy or state.seats.witness:
            return
        if self._refused(voter, view.number) or self._bound(now, voter, view.number):
            return
        if state.accepted is not None and state.accepted.number == view.number:
            if message.complete:
                state.output.send_after_sync(voter.replica, Accept(view.number))
            return
        self._abandon(now)
        staged = self._stage(message)
        if staged is None or not message.complete:
            return
        self._staged = None
        reason = self._adopt(view, staged)
        if reason:
            state.output.note(f"cannot accept view {view.number}: {reason}")
            return
        state.accept(view)
        state.output.send_after_sync(voter.replica, Accept(view.number))

    def _refused(self, voter: Voter, number: ViewNumber) -> bool:
        """Refuse a view with a lower number than the promised one. Return whether it was refused."""
        state = self._state
        state.saw(number)
        if number >= state.promised:
            return False
        state.output.send(voter.replica, Refuse(number, state.promised))
        return True

    def _bound(self, now: float, voter: Voter, number: ViewNumber) -> bool:
        """Return whether a grant forbids a view that was not promised before; its proposer sends it again."""
        return number > self._state.promised and self._lease.blocks(now, voter)

    def _stage(self, message: NewView) -> StagedLog | None:
        """Append a part to the earlier ones; None if it does not follow them."""
        if message.offset == 0:
            self._staged = StagedLog(message.view.number, message.base, list(message.entries))
            return self._staged
        staged = self._staged
        return staged if staged is not None and staged.append(message) else None

    def _adopt(self, view: View, staged: StagedLog) -> str:
        """Make the log of this replica the log of the view. Return why that is impossible; "" if done."""
        return staged.flaw(view.start, self._state.log) or self._state.replicated.splice(
            staged.entries, view.start
        )

    def forget(self) -> None:
        """Drop the parts of a log that have arrived: they are no longer needed."""
        self._staged = None

    def on_record(self, now: float, voter: Voter, message: Record) -> None:
        """Record a view that all its members accepted, and that does not have this voter as a member."""
        state = self._state
        view = message.view
        if voter != proposer(view.number) or state.me in view.members:
            return
        if self._refused(voter, view.number) or self._bound(now, voter, view.number):
            return
        if state.accepted is None or state.accepted.number != view.number:
            self._abandon(now)
            state.accept(view)
            state.output.note(f"recorded view {view.number} of {view.replicas()}")
        state.output.send_after_sync(voter.replica, Recorded(view.number))

    def on_found(self, _now: float, voter: Voter, message: Found) -> None:
        """Record that the first view may become active: proposers of later views must learn of it."""
        state = self._state
        view = state.accepted
        if (
            view is not None
            and view.number == message.number == state.promised
            and voter == proposer(view.number)
            and state.me in view.members
        ):
            if not state.foreseen:
                # The view makes progress: this replica, which may be the next to propose, must wait.
                self._abandon(state.now)
                state.foresee()
            state.output.send_after_sync(voter.replica, Founded(view.number))

    def on_activate(self, now: float, voter: Voter, message: Activate) -> None:
        """Activate the view, as its master reports."""
        view = self._state.accepted
        if view is not None and view.number == message.number and voter == view.members[0]:
            self.activate(now)

    def activate(self, now: float) -> None:
        """The accepted view is active: deliver the rest of its log, then the view."""
        state = self._state
        view = state.accepted
        if (
            view is None
            or state.serving
            or not state.member
            or state.promised != view.number
            or state.log.last.at < view.start
        ):
            return
        resumed = view.number == state.resumed
        if resumed and view.members[0] == state.me:
            # The master has restarted and does not know what its slaves hold. The next view shows it.
            return
        state.supersede(view.number)
        state.know_active()
        if not view.boot:
            self._begin(now, view, first_time=False)
        elif self._noted != view.number:
            # A process that forgot this would report the first view once more.
            self._noted = view.number
            state.output.send_after_sync(state.me.replica, Activate(view.number))

    def on_noted(self, now: float, message: Activate) -> None:
        """Serve: it is durable that the first view is active."""
        state = self._state
        view = state.accepted
        if (
            view is not None
            and view.number == message.number == state.promised
            and state.member
            and not state.serving
        ):
            self._begin(
                now,
                view,
                first_time=not view.again and not (state.recovered.active and view.number == state.resumed),
            )

    def _begin(self, now: float, view: View, *, first_time: bool) -> None:
        state = self._state
        if self.current is not None:
            self.current = None
            for voter in view.members[1:]:
                state.output.send(voter.replica, Activate(view.number))
        self.forget()
        state.replicated.commit_to(view.start)
        self._replication.begin(now, view)
        state.attention = True
        state.output.note(
            f"view {view.number} of {view.replicas()} is active from {view.start}: {view.reason}"
        )
        state.output.emit(
            ViewEvent(
                view.start,
                view.number,
                view.members[0].replica,
                view.replicas(),
                first_time,
                view.reason,
            )
        )
