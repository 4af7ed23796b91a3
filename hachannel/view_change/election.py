"""The election of a view: prepare, promise, choose, and fetch the log to adopt.

Source: the channel protocol, section 3, steps 2 to 4.
"""

import math
from collections.abc import Collection, Mapping

import attrs

from ..model.messages import (
    Change,
    Dismiss,
    Fetch,
    Prepare,
    Promise,
    Reconfig,
    Refuse,
    Suffix,
    Yield,
    decode_reconfig,
)
from ..model.view import Tag, View, ViewNumber, Voter, required
from ..replication.handlers import Handlers
from ..replication.lease import Lease
from ..replication.normal_case import Replication
from ..replication.peers import founds
from ..replication.replica_state import ReplicaState
from ..transfer.donor import Donor
from .attempts import Fetched, Fetching, Preparing
from .choice import (
    Activation,
    Choice,
    choose,
    feasible,
    latest,
    overlap,
    reconfigured,
    seated,
    shared_prefixes,
    witnesses_of,
)
from .founding import AlreadyFounded, FirstView, Founding, Impossible, Waiting
from .installation import Installation, Installing
from .invitation import Invitations
from .slow_disks import SlowDisks

MAX_YIELDS = 2
"""A proposer yields at most this many times to the same first member, then leaves it out."""
FREE_PROPOSALS = 2
"""This many proposals have the timeout `view_change_s`; each further one has twice the previous timeout."""
MAX_DOUBLINGS = 2
"""The attempt timeout is doubled at most this many times."""
VOTER_TIMEOUTS = 2
"""Voters use twice the timeout of the proposer: only the proposer sees progress."""
MAX_MISSED = 2
"""A member for which this many views waited in vain is left out; it can join a later view."""


class Election:
    """The election of a view, as proposer and as voter, up to the log to adopt. `Installation` follows."""

    def __init__(self, state: ReplicaState, replication: Replication, donor: Donor, lease: Lease) -> None:
        self._state = state
        self._replication = replication
        self._donor = donor
        self._lease = lease
        self.founding = Founding(state)
        self.installation = Installation(state, replication, lease, self.abandon)
        self._slow_disks = SlowDisks(state)
        self._attempt: Preparing | Fetching | None = None
        self._invitations = Invitations(state, donor)
        self.since = 0.0
        """Time when the last proposal known here made progress."""
        self.failures = 0
        """Number of attempts of this replica that failed in a row."""
        self._proposals = 0
        """Number of proposals, of this or another replica, promised here since this replica last served."""
        self._lacking: View | None = None
        self._yields: dict[Voter, int] = {}
        self._missed: dict[Voter, int] = {}
        """For each member: the number of views in a row that waited in vain for it to accept them."""
        self._fetched = Fetched()
        self._deferred: tuple[Voter, Prepare] | None = None
        """The highest proposal that cannot be promised before a grant ends."""

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {
            Prepare: self.on_prepare,
            Promise: self.on_promise,
            Refuse: self.on_refuse,
            Fetch: self.on_fetch,
            Suffix: self.on_suffix,
            Yield: self.on_yield,
        }

    @property
    def idle(self) -> bool:
        """Whether no attempt of this replica is in progress."""
        return self._attempt is None and self.installation.current is None

    @property
    def phase(self) -> str:
        """The phase of the attempt of this replica, one of `phases.VIEW_CHANGE`."""
        if self.installation.current is not None:
            return "installing"
        match self._attempt:
            case Preparing():
                return "preparing"
            case Fetching():
                return "fetching"
            case None:
                return "idle"

    @property
    def attempt_timeout_s(self) -> float:
        """The timeout, in seconds, after which a proposer gives up a view that is not installed.

        It grows with every proposal, up to a bound. With a fixed timeout, proposals of several replicas could
        interrupt each other forever if sending the log takes longer.
        """
        doublings = min(max(self._proposals - FREE_PROPOSALS, 0), MAX_DOUBLINGS)
        return self._state.settings.view_change_s * (1 << doublings)

    @property
    def waiting(self) -> str:
        """Reason why an attempt of this replica waits, as a sentence."""
        return self._attempt.waiting if isinstance(self._attempt, Preparing) else ""

    @property
    def lacking(self) -> View | None:
        """The last view known to the voters that answered, while too few of its voters can be reached."""
        view = self._lacking
        if view is not None and overlap(self._state.alive(view), view, active=True):
            return view
        return None

    # Prepare

    def propose(
        self, now: float, reason: str, exclude: Collection[Voter] = (), *, boot: bool = False
    ) -> None:
        """Start a view change, unless a grant to another replica forbids it.

        exclude: members that the view must not have. boot: propose the first view of the cluster.
        """
        state = self._state
        if self._lease.blocks(now, state.me):
            return
        number, promises = self._invitations.next_number()
        state.output.note(f"proposes view {number}: {reason}")
        self._proposals += 1
        self.installation.current = None
        learner = self._donor.ready()
        self._attempt = Preparing(number, reason, now, now, now, exclude, boot, learner, promises)
        self.since = now
        state.promise(number)
        self._send_prepare(self._attempt)
        state.output.send_after_sync(state.me.replica, self._promise(number))

    def reconnected(self, now: float, voter: Voter) -> None:
        """Send again what may be lost with a connection."""
        self._invitations.withdraw(voter)
        self.installation.reconnected(now, voter)

    def _send_prepare(self, attempt: Preparing) -> None:
        """Ask all peers that have not answered; for the first view, only those that may found a cluster."""
        message = Prepare(attempt.number, attempt.reason)
        for link in self._state.peers:
            asked = founds(link, self._state.configuration.birth) if attempt.boot else not link.foreign
            if link.connected and link.voter not in attempt.promises and asked:
                self._state.output.send_after_sync(link.replica, message)

    def _promise(self, number: ViewNumber) -> Promise:
        """Return the promise of this replica: its view and the end of its log."""
        state = self._state
        return Promise(
            number,
            state.accepted,
            state.known_active,
            state.log.last,
            state.replicated.commit,
            state.leaving,
            state.foreseen,
            state.unfit,
        )

    def on_prepare(self, now: float, voter: Voter, message: Prepare) -> None:
        """Promise the view that another replica proposes, or refuse it."""
        state = self._state
        number = message.number
        if number.replica != voter.replica or number.incarnation != voter.incarnation:
            return
        state.saw(number)
        if number < state.promised:
            state.output.send(voter.replica, Refuse(number, state.promised))
            return
        if number > state.promised:
            if self._lease.blocks(now, voter):
                if self._deferred is None or self._deferred[1].number < number:
                    self._deferred = voter, message
                return
            self.abandon(now)
            state.output.note(f"promised view {number}: {message.reason}")
            self._proposals += 1
            state.promise(number)
        state.output.send_after_sync(voter.replica, self._promise(number))

    def answer_deferred(self, now: float) -> None:
        """Promise the deferred proposal once the grant that forbade it has ended."""
        if self._deferred is None:
            return
        voter, message = self._deferred
        if not self._lease.blocks(now, voter):
            self._deferred = None
            if self._state.peers.link(voter) is not None:
                self.on_prepare(now, voter, message)

    @property
    def wake(self) -> float | None:
        """Time when the grant ends that forbids a promise; None if there is none."""
        if self._deferred is None:
            return None
        until = self._lease.bound_until
        return until if until > self._state.now else None

    def abandon(self, now: float) -> None:
        """End the attempt of this replica: another proposal has a higher number."""
        self._attempt = None
        self.installation.current = None
        self.since = now

    def withdraw(self, now: float) -> None:
        """End an attempt that has not begun to install, because this replica leaves."""
        if self._attempt is not None:
            self._state.output.note("leaves the next view to the others")
            self.abandon(now)

    def lost(self, now: float) -> None:
        """End the attempt of this replica: a view is active without it."""
        if not self.idle:
            self.abandon(now)
        if self._fetched.entries:
            self._fetched = Fetched()
        self.installation.forget()

    def fail(self, now: float, reason: str) -> None:
        """End the attempt of this replica, for a reason; another attempt follows after a pause."""
        self._state.output.note(f"view {self._state.promised} not installed: {reason}")
        self.abandon(now)
        self.failures += 1
        self._state.attention = True

    def on_refuse(self, now: float, voter: Voter, message: Refuse) -> None:
        """End the attempt of this replica if a voter that it needs has promised a higher view."""
        state = self._state
        state.saw(message.promised)
        if self.idle or message.number != state.promised or message.promised <= state.promised:
            return
        installing = self.installation.current
        if installing is not None and voter not in installing.bases:
            return
        self.fail(now, f"replica {voter.replica} has promised view {message.promised}")

    # Choose

    def on_promise(self, now: float, voter: Voter, message: Promise) -> None:
        """Count the promise of a voter for the proposal of this replica."""
        link = self._state.peers.link(voter)
        if link is not None:
            # The latest message counts, so that a voter which returned is not left out again and again. But
            # the promise may be older than the voter's decision to leave, for example after a slow sync.
            link.leaving = message.leaving or (link.leaving and message.number <= link.left_at)
        self._invitations.promised(voter, message)
        attempt = self._attempt
        if isinstance(attempt, Preparing) and message.number == attempt.number:
            if message.accepted is not None:
                self._state.saw(message.accepted.number)
            attempt.promises[voter] = message
            self._evaluate(now, attempt)

    def _evaluate(self, now: float, attempt: Preparing) -> None:
        """Continue as soon as the promises suffice and all living voters have answered."""
        if now - attempt.ran > self._state.settings.suspect_s:
            # Voters that promised may have gone unnoticed. This replica would accept a view that its other
            # members never accept, and that no voter can replace without them.
            self.fail(now, "this replica did not run meanwhile")
            return
        attempt.ran = now
        if attempt.boot:
            self._evaluate_first(now, attempt)
            return
        state = self._state
        choice = choose(attempt.promises, state.me)
        if isinstance(choice, str):
            attempt.waiting = choice
            self._lacking = latest(attempt.promises)
            return
        late = now - attempt.since >= state.settings.view_change_s
        expected = {*state.alive(choice.source)}
        # Without an answer of the voter that it adds, a change would be dropped.
        expected |= {
            voter
            for voter in reconfigured(choice.source.config, self.change(choice.source, attempt.promises))
            if (link := state.peers.link(voter)) is not None and not link.suspected
        }
        if attempt.joiner is not None and state.peers.link(attempt.joiner) is not None:
            expected.add(attempt.joiner)
        # A member that missed several views is slow: it answers only after all that is in flight to it.
        expected = {voter for voter in expected if voter not in attempt.exclude and self._answers(voter)}
        if not late and not expected <= attempt.promises.keys():
            attempt.waiting = "not everybody alive has answered"
            return
        members = self._staying(choice.source, choice.members, attempt)
        if not members and any(
            attempt.promises[voter].unfit for voter in choice.source.members if voter in attempt.promises
        ):
            attempt.waiting = "no member with the right state has answered"
            return
        while members and members[0] != state.me and self._yields.get(members[0], 0) >= MAX_YIELDS:
            members = members[1:]
        if not members:
            self.fail(now, "nobody who answered can be a member")
            # It has yielded to all possible masters, and none led: now one of them must time out first.
            self.since = now + (VOTER_TIMEOUTS + 1) * self.attempt_timeout_s
        elif members[0] != state.me:
            self._yield(now, attempt, members[0])
        else:
            self._adopt(now, attempt, attrs.evolve(choice, members=members))

    def _staying(self, source: View, members: Collection[Voter], attempt: Preparing) -> tuple[Voter, ...]:
        """Return the possible members of the view: not those excluded, ended, or removed by the change."""
        peers = self._state.peers
        members = tuple(voter for voter in members if voter not in attempt.exclude and not peers.ended(voter))
        members = tuple(voter for voter in members if self._answers(voter)) or members
        config = reconfigured(source.config, self.change(source, attempt.promises))
        # If no other member holds the log, the change is dropped.
        return tuple(voter for voter in members if voter in config) or members

    def _answers(self, voter: Voter) -> bool:
        """Return whether a member may be in the view: it has not missed too many views in a row."""
        return self._missed.get(voter, 0) < MAX_MISSED

    def _yield(self, now: float, attempt: Preparing, first: Voter) -> None:
        """Let the first member that answered propose a view instead."""
        state = self._state
        state.output.note(f"yields to replica {first.replica}")
        self._yields[first] = self._yields.get(first, 0) + 1
        self._lease.give_up(now)
        state.output.send(first.replica, Yield(attempt.number, attempt.reason))
        self.fail(now, f"replica {first.replica} is the first member")
        self.since = now + self.attempt_timeout_s

    def on_yield(self, now: float, voter: Voter, message: Yield) -> None:
        """Propose a view: another proposer found that this replica is the first member."""
        state = self._state
        state.saw(message.number)
        able = (state.member or state.accepted is None) and not (state.seats.witness or state.unfit)
        if self.idle and able and not state.leaving and message.number >= state.promised:
            self._yields[voter] = MAX_YIELDS
            # If a grant forbids it now, this replica proposes as soon as the grant ends.
            self.since = -math.inf
            self.propose(now, message.reason)

    def _adopt(self, now: float, attempt: Preparing, choice: Choice) -> None:
        """Fetch the end of the log to adopt if only another replica has it, then install."""
        state = self._state
        accepted = state.accepted
        same = accepted is not None and accepted.number == choice.source.number
        base = state.log.last.at if same else state.replicated.commit
        if choice.holder == state.me or (same and base == choice.last.at):
            self._install(now, attempt, choice)
            return
        self._fetched = self._fetched.resume(choice, base, state.settings.retry_s)
        fetching = Fetching(attempt, choice, self._fetched, now, now)
        self._attempt = fetching
        self._fetch(now, fetching)

    def _fetch(self, now: float, attempt: Fetching) -> None:
        """Ask for the next part of the log, or install the view if the log is complete."""
        if attempt.fetched.reached >= attempt.choice.last.at:
            self._splice(now, attempt)
            return
        attempt.asked = now
        self._state.output.send(
            attempt.choice.holder.replica, Fetch(attempt.prepared.number, attempt.fetched.reached)
        )

    def on_fetch(self, _now: float, voter: Voter, message: Fetch) -> None:
        """Send a part of the end of this replica's log, which a proposer lacks."""
        state = self._state
        log = state.log
        if message.number == state.promised and log.base.at <= message.index <= log.last.at:
            entries = log.slice(message.index, log.last.at, state.settings.part_bytes)
            # The proposal makes progress, though a long log over a slow network takes its time.
            self.since = max(self.since, state.now)
            state.output.send(voter.replica, Suffix(message.number, message.index, tuple(entries)))

    def on_suffix(self, now: float, voter: Voter, message: Suffix) -> None:
        """Add a part of the log to adopt, and ask for the next."""
        attempt = self._attempt
        if (
            not isinstance(attempt, Fetching)
            or message.number != attempt.prepared.number
            or voter != attempt.choice.holder
            or message.index != attempt.fetched.reached
        ):
            return
        attempt.fetched.entries.extend(message.entries)
        attempt.moved = now
        if message.entries:
            self._fetch(now, attempt)
        else:
            self._splice(now, attempt)

    def _splice(self, now: float, attempt: Fetching) -> None:
        """Replace the end of the log and install: the log may change only if the view is accepted at once."""
        self._fetched = Fetched()
        fetched = attempt.fetched
        end = fetched.entries[-1] if fetched.entries else None
        last = self._state.log.tag(fetched.base) if end is None else Tag(end.view, end.index)
        reason = "the log fetched does not end as promised"
        if last == attempt.choice.last:
            reason = self._state.replicated.splice(fetched.entries, last.at)
        if reason:
            self.fail(now, reason)
        else:
            self._install(now, attempt.prepared, attempt.choice)

    def _install(self, now: float, attempt: Preparing, choice: Choice) -> None:
        """Decide on the members of the view, whose log this replica has, and install it."""
        state = self._state
        log = state.log
        source = choice.source
        change = self.change(source, attempt.promises)
        remaining = self._staying(source, choice.members, attempt)
        if state.me not in remaining:
            self._yield(now, attempt, remaining[0])
            return
        config = reconfigured(source.config, change)
        reason = self._unfeasible(change, config, attempt.promises)
        if reason:
            state.output.note(f"the change of the configuration is dropped: {reason}")
            change, config = None, source.config
        joiner = attempt.joiner
        if joiner is not None and (state.peers.ended(joiner) or not self._answers(joiner)):
            joiner = None
        if joiner is not None and joiner in attempt.promises and attempt.promises[joiner].unfit:
            joiner = None
        bases = shared_prefixes(
            {voter: attempt.promises[voter] for voter in remaining if voter in config}, source, log
        )
        if joiner is not None and joiner in config and joiner in attempt.promises and joiner not in bases:
            # The log of a learner is shared up to its commit index only.
            bases |= shared_prefixes({joiner: attempt.promises[joiner]}, None, log)
        bases.pop(state.me, None)
        members = (state.me, *bases)
        seats = seated(source.seats, change)
        # A view that replaces a first view not known to be active is a first view, too.
        first = source.boot > 0 and choice.activation is not Activation.ACTIVE
        view = View(
            attempt.number,
            config,
            members,
            required(state.settings.mode, members, state.settings.min_copies),
            log.last.at,
            source.boot if first else 0,
            attempt.reason,
            seats,
            witnesses_of(config, seats),
            source.lineage,
            first and (source.again or choice.activation is Activation.OPEN),
        )
        self._start(now, view, source, choice.activation is Activation.ACTIVE, bases)

    def _unfeasible(
        self, change: Change | None, config: Collection[Voter], promises: Mapping[Voter, Promise]
    ) -> str:
        """Return why a configuration could not become active with the voters that answered; "" if it can."""
        adds = isinstance(change, Reconfig) and change.add
        # Any other change needs no more votes than before, and a leaving voter waits for the view.
        stay = adds or isinstance(change, Dismiss)
        answered = {voter for voter, promise in promises.items() if not (stay and promise.leaving)}
        if self._state.me not in config or not feasible(config, answered):
            return f"too few of replicas {', '.join(str(voter.replica) for voter in config)} answer"
        if isinstance(change, Reconfig) and change.add:
            voter = Voter(change.replica, change.incarnation)
            link = self._state.peers.link(voter)
            # A slow one may answer too late each time, and is added all the same.
            if voter not in answered and (link is None or link.suspected or link.leaving):
                return f"replica {change.replica} leaves, or cannot be reached"
        return ""

    def change(self, source: View, promises: Mapping[Voter, Promise]) -> Change | None:
        """Return the change of the configuration in the log to adopt; None if there is none."""
        entry = self._state.log.reconfig(source.start)
        if entry is None or entry.view != source.number:
            return None
        change = decode_reconfig(entry.payload)
        if isinstance(change, Reconfig) and not change.add:
            promise = promises.get(Voter(change.replica, change.incarnation))
            if promise is not None and not promise.leaving:
                # It was removed because it left or could not be reached. It has answered, so it stays.
                return None
        return change

    def _start(
        self, now: float, view: View, source: View | None, active: bool, bases: dict[Voter, int]
    ) -> None:
        """Start the installation of the view."""
        self._attempt = None
        self._yields.clear()
        self._lacking = None
        self.failures = 0
        self.since = now
        self.installation.propose(
            now, Installing(view, source, active, bases, now, dict.fromkeys(bases, now), set(), set())
        )

    def _evaluate_first(self, now: float, attempt: Preparing) -> None:
        """Continue with the proposal of a first view as far as the promises allow."""
        match self.founding.decide(now, attempt):
            case FirstView(view=view, others=others):
                self._start(now, view, None, False, dict.fromkeys(others, 0))
            case AlreadyFounded():
                # The remaining members of the first view learn only now that it may be active.
                attempt.boot = False
                self._evaluate(now, attempt)
            case Impossible(reason=reason):
                self.fail(now, reason)
            case Waiting(reason=reason):
                attempt.waiting = reason or attempt.waiting

    # Time

    def _wait_for_disks(self, now: float) -> None:
        """Extend all timeouts by the time in which a slow disk writes what the others wait for."""
        pause = self._slow_disks.pause(now)
        if not pause:
            return
        # Not beyond now: it may have begun after the last tick. After a yield `since` is later.
        self.founding.extend(now, pause)
        self.since = max(self.since, min(self.since + pause, now))
        if isinstance(self._attempt, Preparing):
            self._attempt.since = min(self._attempt.since + pause, now)
        if self.installation.current is not None:
            self.installation.current.since = min(self.installation.current.since + pause, now)

    def tick(self, now: float) -> None:
        """Repeat messages without an answer, and end an attempt that takes too long."""
        state = self._state
        settings = state.settings
        attempt = self._attempt
        installing = self.installation.current
        self._wait_for_disks(now)
        reason = self.installation.drive(now, self.attempt_timeout_s)
        if reason:
            for voter in () if installing is None else installing.lacking:
                self._missed[voter] = self._missed.get(voter, 0) + 1
            self.fail(now, reason)
        elif isinstance(attempt, Preparing):
            self._evaluate(now, attempt)
            if self._attempt is attempt and now - attempt.since > 2 * self.attempt_timeout_s:
                self.fail(now, attempt.waiting)
            elif self._attempt is attempt and now - attempt.sent >= settings.retry_s:
                attempt.sent = now
                self._send_prepare(attempt)
        elif isinstance(attempt, Fetching):
            if now - attempt.moved > 2 * self.attempt_timeout_s:
                self.fail(now, f"replica {attempt.choice.holder.replica} does not send its log")
            elif now - attempt.asked >= attempt.fetched.again_s:
                # The part is lost, or the network slow: asking more and more rarely does not slow it further.
                attempt.fetched.again_s = min(2 * attempt.fetched.again_s, self.attempt_timeout_s)
                self._fetch(now, attempt)
        if state.serving:
            self._lacking = None
            self.failures = self._proposals = 0
            self._missed.clear()
            self._yields.clear()
            self._fetched = Fetched()
