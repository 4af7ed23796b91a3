"""The normal case: the master appends and multicasts, slaves acknowledge, what is acknowledged is committed.

Source: the channel protocol, section 2. No timeout turns a missing acknowledgement into success; only a new
view does.
"""

from collections.abc import Callable

import attrs

from ..model.errors import NotMaster, PayloadTooLarge, TooFewCopies, WindowFull
from ..model.messages import (
    PAYLOAD,
    RECONFIG,
    Ack,
    Change,
    Commit,
    Data,
    Entry,
    Heartbeat,
    Repair,
    encode_reconfig,
)
from ..model.settings import TRIM_STEP
from ..model.submitters import Source
from ..model.view import View, Voter
from .handlers import Handlers
from .replica_state import ReplicaState

MAX_REPAIR_PAUSE_S = 1.0


@attrs.define(eq=False)
class Progress:
    """The master's knowledge of one slave."""

    voter: Voter
    match: int
    """Index up to which the slave has acknowledged everything."""
    sent: int
    """Everything up to here was sent to it."""
    flight_bytes: int
    """Payload bytes of what was sent and not acknowledged."""
    applied: int
    announced_commit: int
    """Commit index in the last message to it."""
    announced_stable: int
    """Stable index in the last message to it: all members hold everything up to there."""
    moved: float
    """When `match` last rose, or had reached the end."""


def _never() -> bool:
    return False


class Replication:
    """Appending, acknowledging, committing, repairing and trimming."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._output = state.output
        self._replicated = state.replicated
        self._slaves: dict[Voter, Progress] = {}
        self._synced = 0
        """The master's own log is durable up to here."""
        self._in_flight_bytes = 0
        self._may_announce = False
        """A slave that holds everything may not know that it is committed, or held by all."""
        self._trim = 0
        self._held_for_transfer = False
        """At the last heartbeat only a state transfer kept the log from being trimmed."""
        self.throttled: Callable[[], bool] = _never
        """Whether flow control for a learner stops new entries: the log that it needs is full."""
        self._changes = False
        """A change of the configuration was appended in this view: it holds the log until the next one."""
        self._ack_due = False
        self._repair_at = 0.0
        self._repair_pause_s = 0.0

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {Ack: self.on_ack, Commit: self.on_commit, Repair: self.on_repair}

    # The master

    def begin(self, now: float, view: View) -> None:
        """Start the normal case of `view`, which is active, as its master or as a slave."""
        state = self._state
        state.serve(now, view)
        self._ack_due = False
        self._repair_pause_s = 0.0
        self._in_flight_bytes = 0
        self._synced = view.start
        self._may_announce = False
        # All members have accepted the log of the view.
        self._replicated.stable_to(view.start)
        self._trim = 0
        self._changes = False
        start = view.start
        self._slaves = {
            voter: Progress(voter, start, start, 0, self._heard(voter), start, start, now)
            for voter in view.members[1:]
            if view.members[0] == state.me
        }

    def _heard(self, voter: Voter) -> int:
        """Return the index that a slave has applied, by its last heartbeat, perhaps of an earlier view."""
        link = self._state.peers.link(voter)
        return 0 if link is None or link.heartbeat is None else link.heartbeat.applied

    @property
    def room(self) -> bool:
        """Whether the window and the log have room for another entry.

        Entries that all members have are trimmed, except those that a learner needs. Only a change of the
        configuration that cannot take effect, because too few voters answer, can stop this for ever.
        """
        state = self._state
        settings = state.settings
        return (
            state.log.last.at - self._replicated.commit < settings.window
            and self._in_flight_bytes < settings.window_bytes
            and not (self._synced < self._replicated.commit and self._log_full)
            and not (self._changes and self._log_full and not self._held_for_transfer)
            and not self.throttled()
        )

    @property
    def _log_full(self) -> bool:
        log, settings = self._state.log, self._state.settings
        return len(log) >= settings.max_log or log.size_bytes >= settings.max_log_bytes

    @property
    def _heavy(self) -> bool:
        """Whether the log has half of `max_log_bytes`. The other half is for entries that a replica lacks."""
        state = self._state
        return state.log.size_bytes > state.settings.max_log_bytes // 2

    def submit(self, now: float, stamp_ns: int, payload: bytes) -> int:
        """Append a payload of the application; return its index. Raises as `Channel.submit` does."""
        state = self._state
        if not state.status.leading or state.leaving or state.unfit:
            raise NotMaster("this replica is not the master of an active view: submit on the master")
        if len(payload) > state.settings.max_payload_bytes:
            raise PayloadTooLarge(
                f"a payload of {len(payload)} bytes is above {state.settings.max_payload_bytes}: split it"
            )
        if state.too_few_copies:
            raise TooFewCopies(f"wait for {state.too_few_copies}")
        if not self.room:
            raise WindowFull("too many entries are in flight or kept: wait until can_submit is true")
        return self._append(now, stamp_ns, payload, PAYLOAD)

    def admit(self, now: float, source: Source, stamp_ns: int, payload: bytes) -> None:
        """Append a payload that a member has forwarded. Only while `room` is true."""
        self._append(now, stamp_ns, payload, PAYLOAD, source)

    def reconfigure(self, now: float, change: Change) -> None:
        """Append a change of the configuration; it takes effect with the next view."""
        self._changes = True
        self._append(now, 0, encode_reconfig(change), RECONFIG)

    def _append(
        self, now: float, stamp_ns: int, payload: bytes, kind: int, source: Source | None = None
    ) -> int:
        state = self._state
        log = state.log
        assert state.accepted is not None
        number = state.accepted.number
        if not state.peers.links and (log.last.at % TRIM_STEP == 0 or self._heavy):
            # A cluster of one has no heartbeats to do it.
            self.bound(None)
        index = log.last.at + 1
        entry = Entry(number, index, stamp_ns, payload, kind, source)
        log.append(entry)
        self._in_flight_bytes += len(payload)
        if self._slaves:
            data = self._data(entry)
            for slave in self._slaves.values():
                if slave.match == index - 1:
                    slave.moved = now
                if slave.sent == index - 1 and self._may_send(slave):
                    self._send_data(slave, data)
        if log.durable:
            self._output.record_entry(entry)
            self._output.send_after_sync(state.me.replica, Ack(number, index))
        else:
            self._synced = index
            if state.accepted.k == 1:
                self._advance()
        return index

    def on_ack(self, now: float, voter: Voter, message: Ack) -> None:
        """Note that a slave, or the disk of the master itself, holds all entries up to an index; commit."""
        state = self._state
        if not state.status.leading or state.accepted is None or message.view != state.accepted.number:
            return
        last = state.log.last.at
        index = message.index
        if voter == state.me:
            self._synced = max(self._synced, min(index, last))
        else:
            slave = self._slaves.get(voter)
            if slave is None or index > last or index <= slave.match:
                return
            log = state.log
            for known in range(slave.match + 1, min(index, slave.sent) + 1):
                slave.flight_bytes -= len(log.get(known).payload)
            slave.match = index
            slave.moved = now
            if slave.sent < index:
                slave.sent = index
            if slave.sent < last:
                self._push(slave)
        self._may_announce = True
        self._advance()

    def _advance(self) -> None:
        """Commit the entries that k members hold, the master included."""
        state = self._state
        view = state.accepted
        assert view is not None
        commit = self.held(view)
        if commit > self._replicated.commit:
            log = state.log
            for index in range(self._replicated.commit + 1, commit + 1):
                self._in_flight_bytes -= len(log.get(index).payload)
            self._replicated.commit_to(commit)
        if not state.status.unanimous:
            self._replicated.stable_to(min(self._replicated.commit, self._by_all()))

    def _send_data(self, slave: Progress, data: Data) -> None:
        slave.sent = data.entry.index
        slave.flight_bytes += len(data.entry.payload)
        slave.announced_commit, slave.announced_stable = data.commit, data.stable
        self._output.send(slave.voter.replica, data)

    def _data(self, entry: Entry) -> Data:
        return Data(entry, self._replicated.commit, self._trim, self._replicated.stable)

    def held(self, view: View) -> int:
        """Return the highest index that k members of the view hold: with a slow disk, not the master."""
        others = view.k - 1
        if others == len(self._slaves):
            return self._by_all()
        matches = [self._synced, *[slave.match for slave in self._slaves.values()]]
        matches.sort(reverse=True)
        return matches[others]

    def _by_all(self) -> int:
        """Return the highest index that all members hold."""
        lowest = self._synced
        for slave in self._slaves.values():
            if slave.match < lowest:
                lowest = slave.match
        return lowest

    def _push(self, slave: Progress) -> None:
        """Send a slave the entries that it lacks, as many as its window allows."""
        log = self._state.log
        while slave.sent < log.last.at and self._may_send(slave):
            self._send_data(slave, self._data(log.get(slave.sent + 1)))

    def _may_send(self, slave: Progress) -> bool:
        """Return whether the window of a slave has room. The others may commit without this slave."""
        settings = self._state.settings
        return slave.sent - slave.match < settings.window and slave.flight_bytes < settings.window_bytes

    def _rewind(self, slave: Progress, index: int) -> None:
        """Count the entries after `index` as not sent to a slave, so that they are sent again."""
        log = self._state.log
        slave.sent = index
        slave.flight_bytes = sum(len(log.get(known).payload) for known in range(slave.match + 1, index + 1))

    def on_repair(self, _now: float, voter: Voter, message: Repair) -> None:
        """Send entries again to a slave that asks for them."""
        state = self._state
        slave = self._slaves.get(voter)
        if (
            state.status.leading
            and slave is not None
            and state.accepted is not None
            and message.view == state.accepted.number
            and slave.match <= message.index < slave.sent
        ):
            self._rewind(slave, message.index)
            self._push(slave)

    def connected(self, voter: Voter) -> None:
        """Note that messages on their way to a slave may be lost."""
        slave = self._slaves.get(voter)
        if slave is not None and self._state.status.leading:
            self._rewind(slave, slave.match)

    def resume(self, voter: Voter) -> None:
        """Send a slave that has connected what it lacks."""
        slave = self._slaves.get(voter)
        if slave is not None and self._state.status.leading:
            self._push(slave)

    def end_for(self, voter: Voter | None) -> int:
        """Return the end of the log for a heartbeat to a peer: for a slave, the last entry sent to it.

        A slave would take entries that its window holds back for lost, and ask for all that are in flight.
        """
        slave = None if voter is None else self._slaves.get(voter)
        return self._state.log.last.at if slave is None or not self._state.status.leading else slave.sent

    def paused(self, now: float, seconds: float) -> None:
        """Extend the time of every slave to acknowledge: this replica did not run for `seconds`."""
        for slave in self._slaves.values():
            slave.moved = min(slave.moved + seconds, now)

    def stalled(self, now: float) -> Voter | None:
        """Return a slave that has left entries unacknowledged for `stall_s`; None if there is none.

        The time counts from when its disk has confirmed the view.
        """
        last, peers = self._state.log.last.at, self._state.peers
        for slave in self._slaves.values():
            if slave.match >= last or peers.writes(slave.voter, now):
                slave.moved = now
            elif now - slave.moved > self._state.settings.stall_s:
                return slave.voter
        return None

    def laggard(self) -> Voter | None:
        """Return the slave that keeps a log that is too long from being trimmed; None if there is none.

        While a transfer holds the log, only a slave that lacks too many entries itself is returned.
        """
        state = self._state
        settings = state.settings
        log = state.log
        if len(log) <= settings.max_log and log.size_bytes <= settings.max_log_bytes:
            return None
        slave = min(self._slaves.values(), key=lambda slave: slave.match, default=None)
        if slave is None or slave.match >= self._replicated.commit:
            return None
        lacks = log.last.at - slave.match
        # In bytes, as far as the mean size of an entry tells.
        little = lacks <= settings.max_log and lacks * log.size_bytes <= settings.max_log_bytes * len(log)
        return None if self._held_for_transfer and little else slave.voter

    # Slaves

    def on_data(self, now: float, voter: Voter, message: Data) -> None:
        """Append the next entry of the master, ignore an old one, or ask for those that are missing."""
        state = self._state
        view = state.accepted
        entry = message.entry
        if not state.status.serving or view is None or entry.view != view.number or voter != view.members[0]:
            return
        log = state.log
        last = log.last.at
        if entry.index == last + 1:
            log.append(entry)
            if log.durable:
                self._output.record_entry(entry)
            self._repair_pause_s = 0.0
        elif entry.index > last + 1:
            self._ask(now)
        self._ack_due = True
        if message.commit > self._replicated.commit:
            self._replicated.commit_to(min(message.commit, log.last.at))
        if message.stable > self._replicated.stable:
            self._replicated.stable_to(min(message.stable, self._replicated.commit))
        if message.trim > self._trim:
            self._trim = message.trim
            self.trim(message.trim)

    def on_commit(self, now: float, voter: Voter, message: Commit) -> None:
        """Commit what the master announces, and ask for the end of the log if it was lost."""
        state = self._state
        view = state.accepted
        if (
            not state.status.serving
            or view is None
            or message.view != view.number
            or voter != view.members[0]
        ):
            return
        if message.last > state.log.last.at:
            self._ask(now)
        self._replicated.commit_to(min(message.commit, state.log.last.at))
        self._replicated.stable_to(min(message.stable, self._replicated.commit))

    @property
    def owes(self) -> bool:
        """Whether this replica, a slave, has entries to acknowledge."""
        return self._ack_due

    @property
    def commit_unannounced(self) -> bool:
        """Whether slaves may not know that what they hold is committed; or held by all, if none follows."""
        state = self._state
        if not (self._may_announce and self._slaves and state.status.leading):
            return False
        commit = self._replicated.commit
        return commit == state.log.last.at or any(map(self._behind, self._slaves.values()))

    def _behind(self, slave: Progress) -> bool:
        """Whether a slave holds everything that is committed, and this was not announced to it."""
        return slave.announced_commit < self._replicated.commit <= slave.match

    @property
    def announced(self) -> int:
        """Index up to which every slave has been sent that all members hold everything."""
        return min(
            (slave.announced_stable for slave in self._slaves.values()), default=self._replicated.stable
        )

    def flush(self, more: bool, announce: bool = False) -> None:
        """Acknowledge all entries of a step at once, unless a promise made meanwhile forbids it.

        The master announces at once what is committed, and what all members hold, unless `more` may be
        submitted soon or entries are in flight: then the next Data announces it, or a Commit after the
        acknowledgement of the last entry. announce: do it now, even with entries in flight.
        """
        state = self._state
        if (announce or not more) and self.commit_unannounced:
            if self._replicated.commit == state.log.last.at:
                self._announce_commit()
            elif announce:
                self._announce_in_flight()
        if not self._ack_due:
            return
        self._ack_due = False
        view = state.accepted
        if view is not None and self.may_ack(view):
            self._output.send_after_sync(view.members[0].replica, Ack(view.number, state.log.last.at))

    def _announce_commit(self) -> None:
        state = self._state
        assert state.accepted is not None
        self._may_announce = False
        last = state.log.last.at
        stable = self._replicated.stable
        message = Commit(state.accepted.number, self._replicated.commit, last, stable)
        for slave in self._slaves.values():
            # The next entries announce it to a slave that lacks some.
            if slave.match == last and (
                slave.announced_commit < last or slave.announced_stable < stable == last
            ):
                slave.announced_commit, slave.announced_stable = last, stable
                self._output.send(slave.voter.replica, message)

    def _announce_in_flight(self) -> None:
        """Announce the commit, while entries are in flight, to the slaves that hold all that is committed."""
        state = self._state
        assert state.accepted is not None
        for slave in self._slaves.values():
            if self._behind(slave):
                slave.announced_commit, slave.announced_stable = (
                    self._replicated.commit,
                    self._replicated.stable,
                )
                message = Commit(
                    state.accepted.number, self._replicated.commit, slave.sent, self._replicated.stable
                )
                self._output.send(slave.voter.replica, message)

    def may_ack(self, view: View) -> bool:
        """Return whether this replica may still acknowledge entries of its view."""
        return self._state.status.serving and self._state.promised == view.number

    def _ask(self, now: float) -> None:
        """Ask the master for missing entries, with growing pauses."""
        state = self._state
        if now < self._repair_at or state.accepted is None:
            return
        self._repair_pause_s = min(
            max(2 * self._repair_pause_s, state.settings.heartbeat_s), MAX_REPAIR_PAUSE_S
        )
        self._repair_at = now + self._repair_pause_s
        self._output.send(state.accepted.members[0].replica, Repair(state.accepted.number, state.log.last.at))

    def on_heartbeat(self, now: float, voter: Voter, message: Heartbeat) -> None:
        """Compare the log with that of the master, or note, as the master, what a slave has applied."""
        state = self._state
        view = state.accepted
        if message.master and not state.member:
            # A learner may stay outside the view for long, and must trim its log, too.
            self.trim(message.trim)
        if not state.status.serving or view is None or message.view != view.number:
            return
        if view.members[0] == state.me:
            slave = self._slaves.get(voter)
            if slave is not None:
                slave.applied = message.applied
        elif voter == view.members[0]:
            if message.last > state.log.last.at:
                self._ask(now)
            elif message.commit != message.last:
                # The acknowledgement may be lost, or others have committed more than was sent here.
                self._ack_due = True
            self._replicated.commit_to(min(message.commit, state.log.last.at))
            self._replicated.stable_to(min(message.stable, self._replicated.commit))
            self.trim(message.trim)

    # Memory

    def bound(self, hold: int | None) -> None:
        """Trim the entries that all members have applied and acknowledged.

        hold: a transfer needs the entries above this index. A slave with a slow disk may apply an entry that
        the others hold before it acknowledges it, and may need it again.
        """
        state = self._state
        slaves = self._slaves.values()
        trim = min(
            [self._replicated.applied, self._synced, *(min(slave.applied, slave.match) for slave in slaves)]
        )
        if state.accepted is not None:
            pending = state.log.reconfig(state.accepted.start)
            if pending is not None:
                # The next view is derived from it.
                trim = min(trim, pending.index - 1)
        self._trim = trim
        self._held_for_transfer = hold is not None and hold < trim
        self.trim(trim if hold is None else min(trim, hold))

    @property
    def trim_point(self) -> int:
        """Index that every member has applied, as far as the master knows."""
        return self._trim

    def trim(self, index: int) -> None:
        """Remove the entries up to `index`, but keep the last ones: a short absence needs no snapshot then.

        At least `TRIM_STEP` entries are removed at a time, except from a log with large entries.
        """
        state = self._state
        log = state.log
        heavy = self._heavy
        index = min(index, self._replicated.applied)
        if not heavy and log.size_bytes <= state.settings.keep_bytes:
            index -= state.settings.keep
        if index - log.base.at >= (1 if heavy else TRIM_STEP):
            log.trim(index)
