"""What the parts of a channel share: this replica's promises, its log, and the output under construction."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec

from ..model.events import Deliver, Event, Output, Stable, Stopped
from ..model.log import (
    Accepted,
    Activated,
    Appended,
    Committed,
    Foreseen,
    Leased,
    Log,
    LogRecord,
    Promised,
    Reset,
    Truncated,
)
from ..model.messages import PAYLOAD, Ack, Entry, Grant, Message
from ..model.settings import Settings
from ..model.submitters import Rows, Submitters
from ..model.view import NO_VIEW, Seat, Tag, View, ViewNumber, Voter, watching
from .peers import Link, Peers


def _nowhere(_message: Message) -> None:
    """Takes a message before the parts are put together."""


NOTHING = Output()
"""What a step that produced nothing gives out; nobody writes to it."""


class ReplicaState:
    """The facts of one replica. Only the parts of its channel write to it."""

    def __init__(
        self,
        me: Voter,
        order: Sequence[int],
        cluster: str,
        expected: int,
        settings: Settings,
        log: Log,
        data: Mapping[int, bytes],
        witnesses: Collection[int],
    ) -> None:
        self.me = me
        self.order = tuple(order)
        """The configured replicas, in order. They found the cluster; its views list who belongs to it."""
        self.configured = tuple(
            sorted(Seat(replica, data.get(replica, b""), replica in witnesses) for replica in order)
        )
        self.birth = blake2b(msgspec.msgpack.encode(self.configured), digest_size=8).digest()
        """Replicas that are configured with others do not found a cluster together."""
        self.cluster = cluster
        self.expected = expected
        self.settings = settings
        self.log = log
        self.now = 0.0
        """The time of the current step."""
        self.peers = Peers((), 0.0, settings)
        recovered = log.recovered()
        self.promised = recovered.promised
        """No view below it is acknowledged any more."""
        self.accepted: View | None = recovered.accepted
        """The last view accepted or recorded."""
        self.guest = recovered.guest
        self.resumed = NO_VIEW if recovered.accepted is None else recovered.accepted.number
        """The view this replica was in when its process ended: others may be in it still."""
        self.told = self.resumed if recovered.active else NO_VIEW
        """That view, if its application may have been told of it."""
        self.known_active = recovered.active
        """`accepted` is known to be, or to have been, active."""
        self.foreseen = recovered.foreseen
        """`accepted` is a first view, and may become active at any moment, or have been."""
        self.serving = False
        """This replica is a member of `accepted`, which is active, and has promised nothing above it."""
        self.active_since = 0.0
        """When this replica began to serve in `accepted`."""
        self.newer = log.last.view if log.last.view > self.resumed else NO_VIEW
        """The highest view known to be active; above `accepted` when this replica is not in it.

        Such a one has left entries in the log of a learner.
        """
        self.seats: tuple[Seat, ...] = ()
        """Who belongs to the cluster, as of the last view accepted, or heard of from outside."""
        self.witnesses: frozenset[int] = frozenset()
        """Those of them that vote and hold no log."""
        self.witness = False
        """This replica is one: it accepts no view and proposes none, it only promises and records."""
        self._take_seats(self.configured)
        self.seats_of = NO_VIEW
        self._departing: tuple[Seat, ...] = ()
        """Seats of the view before, whose voters may be needed until the one accepted is active."""
        if recovered.accepted is not None and recovered.accepted.seats:
            self._take_seats(recovered.accepted.seats)
            self.seats_of = recovered.accepted.number
        self.unlisted = False
        """The master said that this replica does not belong to the cluster."""
        self.leased_s = recovered.lease_s
        """How long the grants of this replica last, as far as its disk remembers."""
        self.counter = max(recovered.promised.counter, self.newer.counter)
        """The highest view counter seen."""
        self.commit = recovered.commit
        self.applied = recovered.applied
        self.origins = Submitters(recovered.origins)
        """Who has submitted how much, after `applied`."""
        self.boot = recovered.boots + 1
        """Which process of this life it is: what it forwards is numbered anew."""
        self.stable = 0
        """All members of the view held everything up to here when it became known."""
        self.unanimous = False
        """The view being served commits only what all members hold."""
        self.blocked = False
        self.leaving = False
        self.stopped = False
        self.attention = False
        """Something happened that may call for a view change."""
        self.loopback: Callable[[Message], None] = _nowhere
        """Takes the messages this replica sends to itself."""
        self._out = Output()
        self._issued = 0
        self._bound = 0
        """The token of the last record that binds this replica in what it says of other views."""
        self._confirmed = 0
        self._held: deque[tuple[int, int, Message]] = deque()
        """What waits for the disk: the token of the last record before it, to whom, and what."""

    # Where this replica stands

    @property
    def member(self) -> bool:
        """It holds the log of the last view it accepted, and knows of no later one without it."""
        accepted = self.accepted
        return accepted is not None and self.newer <= accepted.number and self.me in accepted.members

    @property
    def founded(self) -> bool:
        """It knows that its cluster exists: some view was active, or may have been and is replaced."""
        view = self.accepted
        return self.known_active or (view is not None and (view.again or not view.boot))

    @property
    def seated(self) -> bool:
        """It is a voter of the last view it knows of."""
        accepted = self.accepted
        return accepted is not None and self.newer <= accepted.number and self.me in accepted.config

    @property
    def relied_on(self) -> bool:
        """The others cannot go on without it, or not before a view takes its place, if it ends now.

        It is a member of the last view. Or it has no disk, so that who returns is another voter, and it votes
        in that view, or has promised a later one, which may need it. A joiner, which has seen no view, may
        vote in one that it promised and that it hears to be active.
        """
        accepted = self.accepted
        if self.member or self.log.durable:
            return self.member
        if accepted is None:
            return self.promised > NO_VIEW
        return self.promised > max(self.newer, accepted.number) or self.me in accepted.config

    @property
    def leading(self) -> bool:
        """It is the master of an active view."""
        return self.serving and self.accepted is not None and self.accepted.members[0] == self.me

    @property
    def too_few_copies(self) -> str:
        """Why the view takes no new entries, "" when it does."""
        view, least = self.accepted, self.settings.min_copies
        if view is None or len(view.members) >= least:
            return ""
        return f"more replicas: the view has {len(view.members)} of the {least} copies it needs"

    @property
    def commits(self) -> bool:
        """As a master: whether enough members of the view can be reached to commit an entry."""
        view = self.accepted
        return view is not None and len(set(self.alive(view)).intersection(view.members)) >= view.k

    def alive(self, view: View, but: Collection[Voter] = ()) -> list[Voter]:
        """The voters of a view's configuration and members that can be reached, this replica included."""
        voters: list[Voter] = []
        for voter in {*view.config, *view.members}:
            link = self.peers.link(voter)
            if voter == self.me or (link is not None and not link.suspected and voter not in but):
                voters.append(voter)
        return voters

    def saw(self, number: ViewNumber) -> None:
        """Remember the highest view counter, so that the next proposal is above it."""
        self.counter = max(self.counter, number.counter)

    # Other clusters

    def review_lineage(self, link: Link) -> None:
        """Find out again whether a peer belongs to another cluster than this replica."""
        said, accepted = link.heartbeat, self.accepted
        if said is None or accepted is None or not (self.founded and said.founded):
            foreign = False
        else:
            foreign = said.lineage != accepted.lineage
        if foreign != link.foreign:
            link.foreign = foreign
            link.join = None
            self.attention = True

    @property
    def outdated(self) -> int | None:
        """Of the replicas heard the one whose cluster was begun after that of this replica; None if none.

        Only if it was begun from a replica of this cluster: one that was removed before has no say here.
        """
        accepted = self.accepted
        own = None if accepted is None else accepted.lineage
        for link in self.peers:
            if link.foreign and link.connected and link.heartbeat is not None:
                theirs = link.heartbeat.lineage
                if theirs is None or not self.lists(theirs.replica):
                    continue
                if own is None or theirs.incarnation > own.incarnation:
                    return link.replica
        return None

    @property
    def forgetful(self) -> Link | None:
        """The master of a later active view that lacks what is committed here; None if there is none.

        A view holds from its start on all that was ever committed with the number of an earlier one, unless
        disks have lost what they had confirmed. What is of that view itself, or of a later one, may have come
        here since its master said how far it was.
        """
        written = self.log.tag(self.commit).view
        for link in self.peers:
            said = link.heartbeat
            if (
                said is not None
                and said.active
                and said.master
                and not link.foreign
                and said.view > written
                and said.last < self.commit
            ):
                return link
        return None

    # Changes of the durable facts

    def promise(self, number: ViewNumber) -> None:
        """From now on no view below `number` is acknowledged."""
        self.saw(number)
        self._take_back(number)
        self.promised = number
        self.serving = False
        self.attention = True
        self.record(Promised(number))

    def accept(self, view: View) -> None:
        """`view` is the last one accepted; it is not active yet."""
        self.saw(view.number)
        if view.number > self.promised:
            self._take_back(view.number)
        self.promised = view.number
        self.accepted = view
        self.serving = False
        self.foreseen = False
        self.known_active = self.newer == view.number
        self.attention = True
        self.record(Accepted(view))
        self.sit(view.number, view.seats)
        for link in self.peers:
            self.review_lineage(link)
        if self.known_active:
            self.record(Activated(view.number))
            self._settle_seats()

    def _take_back(self, number: ViewNumber) -> None:
        """What waits for the disk and does not hold once `number` is promised is not said.

        Acknowledgements are of a view below it; a grant to anybody but its proposer has run out.
        """
        self._held = deque(
            held
            for held in self._held
            if not isinstance(held[2], Ack) and (not isinstance(held[2], Grant) or held[1] == number.replica)
        )

    def foresee(self) -> None:
        """The first view, accepted last, may become active at any moment."""
        if not self.foreseen and self.accepted is not None:
            self.foreseen = True
            self.record(Foreseen(self.accepted.number))

    def know_active(self) -> None:
        """The view accepted last is, or was, active."""
        if not self.known_active and self.accepted is not None:
            self.known_active = True
            self.record(Activated(self.accepted.number))
            self._settle_seats()
            for link in self.peers:
                self.review_lineage(link)

    def supersede(self, number: ViewNumber) -> None:
        """`number` is active; this replica takes no part in it unless it accepted it."""
        if number <= self.newer:
            return
        self.saw(number)
        self.newer = number
        self.attention = True
        accepted = self.accepted
        if accepted is not None and accepted.number == number:
            self.know_active()
            return
        # What waits for the disk may be cut from the log before it is said to be there, and helps nobody now.
        self._held = deque(held for held in self._held if not isinstance(held[2], Ack))
        if self.serving:
            self.serving = False
            self.note(f"view {number} is active without this replica")

    # Who belongs to the cluster

    def _take_seats(self, seats: tuple[Seat, ...]) -> None:
        """These belong to the cluster. A replica that does not is what it was configured to be."""
        self.seats = seats
        self.witnesses = watching(seats)
        me = self.me.replica
        listed = any(seat.replica == me for seat in seats)
        self.witness = me in (self.witnesses if listed else watching(self.configured))

    def lists(self, replica: int) -> bool:
        """Whether a replica belongs to the cluster, as of the view accepted last."""
        return self.accepted is not None and self.accepted.lists(replica)

    @property
    def others(self) -> list[int]:
        """Whom to be connected with."""
        me = self.me.replica
        ids = {seat.replica for seat in (*self.seats, *self._departing)}
        return sorted(ids - {me})

    @property
    def pending(self) -> Entry | None:
        """The change of the configuration that this view has, whether committed or not."""
        if self.accepted is None:
            return None
        entry = self.log.reconfig(self.accepted.start)
        return entry if entry is not None and entry.view == self.accepted.number else None

    def sit(self, number: ViewNumber, seats: tuple[Seat, ...], *, active: bool = False) -> None:
        """Learn who belongs to the cluster as of a view. Until it is active, voters that go are needed."""
        if not seats or number < self.seats_of:
            return
        fresh, self.seats_of = self.seats_of == NO_VIEW, number
        if fresh or seats != self.seats:
            stay = {seat.replica for seat in seats}
            leave = () if active else (*self._departing, *self.seats)
            self._departing = tuple(seat for seat in leave if seat.replica not in stay)
            self._take_seats(seats)
            self.connect()

    def _settle_seats(self) -> None:
        """The view accepted last is active: nobody needs those who left with it."""
        if self._departing:
            self._departing = ()
            self.connect()

    def connect(self) -> None:
        """Have this replica connected with those who belong to the cluster, and those who leave it."""
        self.peers.follow(self.others, self.now)
        self._out.seats = (*self.seats, *self._departing)

    # The log

    def splice(self, entries: Sequence[Entry], end: int | None) -> str:
        """Make the log agree with `entries`, then cut it at `end`; returns why not, "" when done.

        Nothing is changed at or below the commit index, and nothing at all when there is a reason.
        """
        log = self.log
        last = log.last.at
        for position, entry in enumerate(entries):
            if entry.index != entries[0].index + position:
                return f"entries out of order at {entry.index}"
        fresh: Sequence[Entry] = ()
        for position, entry in enumerate(entries):
            index = entry.index
            if index > last or (index > log.base.at and log.tag(index).view != entry.view):
                if index > last + 1:
                    return f"entries {last + 1} to {index - 1} are missing"
                if index <= self.commit:
                    return f"entry {index} is committed and differs"
                fresh = entries[position:]
                break
        after = fresh[-1].index if fresh else last
        if end is not None and (end < self.commit or after < end):
            return f"the log would end at {min(after, end)}, not at {max(self.commit, end)}"
        if fresh:
            self.cut(fresh[0].index - 1)
            for entry in fresh:
                log.append(entry)
            self.record(Appended(tuple(fresh)))
        if end is not None:
            self.cut(end)
        return ""

    def cut(self, index: int) -> None:
        """Forget the entries above `index`, which is not below the commit index."""
        if index < self.log.last.at:
            self.note(f"entries {index + 1} to {self.log.last.at} are dropped")
            self.log.truncate(index)
            self.record(Truncated(index))

    def reset(self, base: Tag, origins: Rows) -> None:
        """The state after `base` came as a snapshot."""
        self.log.reset(base)
        self.origins = Submitters(origins)
        self.record(Reset(base, origins))
        self.commit = self.applied = base.at

    def commit_to(self, index: int) -> None:
        """Everything up to `index` is committed: deliver it."""
        if index <= self.commit:
            return
        self.commit = index
        self.deliver()
        if self.log.durable:
            self.record(Committed(index, self.origins.rows))
        if self.serving and self.unanimous:
            self.stable_to(index)

    def stable_to(self, index: int) -> None:
        """All members of the view hold everything up to `index`, which is committed."""
        if index > self.stable:
            self.stable = index
            if self.settings.mode == "MAJORITY":
                self.event(Stable(index))

    def deliver(self) -> None:
        """Hand out what is committed and was not handed out."""
        log = self.log
        events = self._out.events
        for index in range(self.applied + 1, self.commit + 1):
            entry = log.get(index)
            if entry.kind == PAYLOAD:
                source = entry.source
                events.append(Deliver(index, entry.stamp_ns, entry.payload, source))
                if source is not None:
                    self.origins.add(source)
            else:
                self.attention = True
        self.applied = self.commit

    def origins_at(self, index: int) -> Rows:
        """Who had submitted how much after the entry `index`, from the base of the log to `applied`."""
        log = self.log
        return self.origins.before(log.get(later).source for later in range(index + 1, self.applied + 1))

    # Output

    def send(self, replica: int, message: Message) -> None:
        """To a peer, at once."""
        self._out.messages.append((replica, message))

    def broadcast(self, message: Message) -> None:
        """To every connected peer, at once."""
        for link in self.peers:
            if link.connected:
                self._out.messages.append((link.replica, message))

    def vow(self, replica: int, message: Message) -> None:
        """To a peer or to oneself, once everything recorded so far is durable."""
        if self.log.durable and (self._out.persist or self._confirmed < self._issued):
            self._hold(self._issued + bool(self._out.persist), replica, message)
        elif replica == self.me.replica:
            self.loopback(message)
        else:
            self.send(replica, message)

    def _hold(self, token: int, replica: int, message: Message) -> None:
        """Have a message wait for the disk, in the place of one of its kind that would leave with it.

        Grants, promises and the like are repeated for as long as a disk hangs, and the newest says it all.
        One that waits for an earlier record stays: it leaves earlier.
        """
        held = self._held
        for place in range(len(held) - 1, -1, -1):
            before_token, before_replica, before = held[place]
            if before_token != token:
                break
            if before_replica == replica and type(before) is type(message):
                del held[place]
                break
        held.append((token, replica, message))

    def pledge(self, replica: int, message: Message) -> None:
        """To a peer, once what binds this replica is durable: whom it promised, how long its grants last.

        Entries need not be. A pledge that waited for the disk with them would come late under load.
        """
        if self._confirmed < self._bound:
            self.vow(replica, message)
        else:
            self.send(replica, message)

    def record(self, record: LogRecord) -> None:
        """Ask for a record to be made durable."""
        if self.log.durable:
            self._out.persist.append(record)
            if isinstance(record, Promised | Accepted | Leased):
                self._bound = self._issued + 1

    def mark(self, record: LogRecord) -> int:
        """Ask for a record to be made durable; returns what to give to `is_durable`."""
        self.record(record)
        return self._issued + 1 if self.log.durable else 0

    def is_durable(self, mark: int) -> bool:
        """Whether a marked record would survive this process, or nothing does."""
        return mark <= self._confirmed

    def record_entry(self, entry: Entry) -> None:
        """Ask for the entry just appended to be made durable."""
        self._out.persist.append(Appended((entry,)))

    def persisted(self, token: int) -> None:
        """Let go of the messages that waited for this."""
        self._confirmed = max(self._confirmed, token)
        while self._held and self._held[0][0] <= self._confirmed:
            _, replica, message = self._held.popleft()
            if replica == self.me.replica:
                self.loopback(message)
            else:
                self.send(replica, message)

    def event(self, event: Event) -> None:
        """Hand an event to the application."""
        self._out.events.append(event)

    @property
    def idle(self) -> bool:
        """Whether nothing has gathered since the last time."""
        return not self._out

    @property
    def eventful(self) -> bool:
        """Whether there are events to hand out."""
        return bool(self._out.events)

    def note(self, line: str) -> None:
        """A line for the log."""
        self._out.notes.append(line)

    def stop(self, reason: str, *, failed: bool = False) -> None:
        """The end: nothing is sent or received after this. failed: see `Stopped`."""
        if not self.stopped:
            self.stopped = True
            self.serving = False
            self.note(f"stopped: {reason}")
            self.event(Stopped(reason, failed))

    def take(self) -> Output:
        """What has gathered since the last time."""
        out = self._out
        if out.persist:
            self._issued += 1
            out.token = self._issued
        elif not out:
            return NOTHING
        self._out = Output()
        return out
