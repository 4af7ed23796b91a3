"""State of a replica that the parts of a channel share: promises, log, seats, output."""

from collections.abc import Collection

from ..model.configuration import Configuration
from ..model.events import Stopped
from ..model.log import (
    Accepted,
    Activated,
    Fitness,
    Foreseen,
    Log,
    Promised,
)
from ..model.messages import Entry, Message
from ..model.settings import Settings
from ..model.view import NO_VIEW, Seat, View, ViewNumber, Voter
from .durable_output import DurableOutput
from .lineage import is_foreign
from .peers import Link, Peers
from .replicated_log import ReplicatedLog
from .seats import Seats
from .status import ENDED, WAITING, Ended, Serving, Status


class ReplicaState:
    """State that the parts of a channel share. Only they write to it."""

    def __init__(self, me: Voter, configuration: Configuration, settings: Settings, log: Log) -> None:
        self.me = me
        self.configuration = configuration
        self.settings = settings
        self.log = log
        self.output = DurableOutput(me.replica, durable=log.durable)
        self.now = 0.0
        """The time of the current step, in monotonic seconds."""
        self.peers = Peers((), 0.0, settings)
        self.recovered = log.recovered()
        """Facts that the disk remembered when this process started."""
        recovered = self.recovered
        self.promised = recovered.promised
        """No view below it is acknowledged any more."""
        self.accepted: View | None = recovered.accepted
        """The last view accepted or recorded."""
        self.guest = recovered.guest
        """This replica may join a cluster, but never found one."""
        self.known_active = recovered.active
        """`accepted` is known to be, or to have been, active."""
        self.foreseen = recovered.foreseen
        """`accepted` is a first view, and may become active at any moment, or have been."""
        self.newer = log.last.view if log.last.view > self.resumed else NO_VIEW
        """The highest view known to be active; above `accepted` when this replica is not in it.

        A learner has entries of such a view in its log.
        """
        self.seats = Seats(me.replica, configuration.seats, recovered.accepted)
        self.counter = max(recovered.promised.counter, self.newer.counter)
        """The highest view counter seen."""
        self.replicated = ReplicatedLog(
            log, self.output, self.call_attention, emits_stable=settings.mode == "MAJORITY"
        )
        """The log with its commit index."""
        self.boot = recovered.boots + 1
        """The number of this process in this life of the replica: what it forwards is numbered anew."""
        self.status: Status = WAITING
        self.blocked = False
        """Too few replicas can be reached to go on."""
        self.leaving = False
        self.unfit = recovered.unfit
        """The state of the application is wrong: see `Channel.disqualify`."""
        self.writing_since: float | None = None
        """Since when the disk is slow to confirm what a view change waits for; None if it is not."""
        self.attention = False
        """Something happened that may call for a view change."""

    # Where this replica stands

    @property
    def serving(self) -> bool:
        """The replica serves in the last view it accepted."""
        return self.status.serving

    @property
    def leading(self) -> bool:
        """The replica is the master of an active view."""
        return self.status.leading

    @property
    def stopped(self) -> bool:
        """The replica has stopped."""
        return isinstance(self.status, Ended)

    @property
    def active_since(self) -> float:
        """When this replica began to serve in `accepted`, in monotonic seconds; 0 while it does not."""
        return self.status.since if isinstance(self.status, Serving) else 0.0

    @property
    def resumed(self) -> ViewNumber:
        """The view this replica was in when its last process ended: others may be in it still."""
        accepted = self.recovered.accepted
        return NO_VIEW if accepted is None else accepted.number

    @property
    def member(self) -> bool:
        """The replica holds the log of the last view it accepted, and knows of no later view without it."""
        accepted = self.accepted
        return accepted is not None and self.newer <= accepted.number and self.me in accepted.members

    @property
    def founded(self) -> bool:
        """The cluster is known to exist: a view was active, or may have been and is replaced."""
        view = self.accepted
        return self.known_active or (view is not None and (view.again or not view.boot))

    @property
    def seated(self) -> bool:
        """The replica is a voter of the last view it knows of."""
        accepted = self.accepted
        return accepted is not None and self.newer <= accepted.number and self.me in accepted.config

    @property
    def relied_on(self) -> bool:
        """Whether the others need another view, or cannot go on at all, if this replica ends now.

        That holds for a member of the last view. Without a disk it also holds for a voter of that view, and
        for a replica that has promised a later one: after a restart it is another voter. A joiner that has
        accepted no view may vote in one that it has promised.
        """
        accepted = self.accepted
        if self.member or self.log.durable:
            return self.member
        if accepted is None:
            return self.promised > NO_VIEW
        return self.promised > max(self.newer, accepted.number) or self.me in accepted.config

    @property
    def too_few_copies(self) -> str:
        """Copies that the view lacks before it accepts new entries, as a sentence; "" if it lacks none."""
        view, least = self.accepted, self.settings.min_copies
        if view is None or len(view.members) >= least:
            return ""
        return f"more replicas: the view has {len(view.members)} of the {least} copies it needs"

    @property
    def commits(self) -> bool:
        """Whether enough members of the view can be reached to commit an entry, for a master."""
        view = self.accepted
        return view is not None and len(set(self.alive(view)).intersection(view.members)) >= view.k

    def is_unfit(self, voter: Voter) -> bool:
        """Return whether a replica, perhaps this one, has reported that its application's state is wrong."""
        if voter == self.me:
            return self.unfit
        link = self.peers.link(voter)
        return link is not None and link.unfit

    def alive(self, view: View, but: Collection[Voter] = ()) -> list[Voter]:
        """Return the voters and members of a view that can be reached, and this replica, but for `but`."""
        voters: list[Voter] = []
        for voter in {*view.config, *view.members}:
            link = self.peers.link(voter)
            if voter == self.me or (link is not None and not link.suspected and voter not in but):
                voters.append(voter)
        return voters

    def saw(self, number: ViewNumber) -> None:
        """Note a view number, so that the next proposal of this replica has a higher counter."""
        self.counter = max(self.counter, number.counter)

    def review_lineage(self, link: Link) -> None:
        """Find out again whether a peer belongs to another cluster than this replica."""
        foreign = is_foreign(link.heartbeat, self.accepted, founded=self.founded)
        if foreign != link.foreign:
            link.foreign = foreign
            link.join = None
            self.attention = True

    def call_attention(self) -> None:
        """Have the decision loop run: something happened that may call for a view change."""
        self.attention = True

    # Changes of the durable facts

    def promise(self, number: ViewNumber) -> None:
        """Promise to acknowledge no view below `number` from now on."""
        self.saw(number)
        self.output.retract_below(number)
        self.promised = number
        self.cease()
        self.attention = True
        self.output.record(Promised(number))

    def accept(self, view: View) -> None:
        """Accept `view`, the last one from now on. Normally it becomes active later."""
        self.saw(view.number)
        if view.number > self.promised:
            self.output.retract_below(view.number)
        self.promised = view.number
        self.accepted = view
        self.cease()
        self.foreseen = False
        self.known_active = self.newer == view.number
        self.attention = True
        self.output.record(Accepted(view))
        self.sit(view.number, view.seats)
        for link in self.peers:
            self.review_lineage(link)
        if self.known_active:
            self.output.record(Activated(view.number))
            self._settle_seats()

    def serve(self, now: float, view: View) -> None:
        """Begin to serve in `view`, which was accepted last and is active."""
        if not self.stopped:
            unanimous = view.k == len(view.members)
            self.status = Serving(now, view.members[0] == self.me, unanimous)
            self.replicated.unanimous = unanimous

    def cease(self) -> None:
        """Stop serving in the view, if this replica does."""
        if self.status.serving:
            self.status = WAITING
            self.replicated.unanimous = False

    def foresee(self) -> None:
        """Note that the first view, accepted last, may become active at any moment."""
        if not self.foreseen and self.accepted is not None:
            self.foreseen = True
            self.output.record(Foreseen(self.accepted.number))

    def know_active(self) -> None:
        """Note that the view accepted last is, or was, active."""
        if not self.known_active and self.accepted is not None:
            self.known_active = True
            self.output.record(Activated(self.accepted.number))
            self._settle_seats()
            for link in self.peers:
                self.review_lineage(link)

    def disqualify(self) -> None:
        """Note that the state of the application is wrong, until a whole state is installed."""
        self.unfit = True
        self.attention = True
        self.output.record(Fitness(True))

    def supersede(self, number: ViewNumber) -> None:
        """Note that the view `number` is active. This replica takes part only if it has accepted it."""
        if number <= self.newer:
            return
        self.saw(number)
        self.newer = number
        self.attention = True
        accepted = self.accepted
        if accepted is not None and accepted.number == number:
            self.know_active()
            return
        self.output.retract_acks()
        if self.status.serving:
            self.cease()
            self.output.note(f"view {number} is active without this replica")

    # Who belongs to the cluster

    def lists(self, replica: int) -> bool:
        """Return whether a replica belongs to the cluster, as of the view accepted last."""
        return self.accepted is not None and self.accepted.lists(replica)

    @property
    def pending(self) -> Entry | None:
        """The change of the configuration that this view has in the log, committed or not; None if none."""
        if self.accepted is None:
            return None
        entry = self.log.reconfig(self.accepted.start)
        return entry if entry is not None and entry.view == self.accepted.number else None

    def sit(self, number: ViewNumber, seats: tuple[Seat, ...], *, active: bool = False) -> None:
        """Replace the seats by those of a view. Until it is active, voters that leave may be needed."""
        if self.seats.replace(number, seats, active=active):
            self.connect()

    def _settle_seats(self) -> None:
        """Forget the seats that left with the view accepted last, which is active."""
        if self.seats.settle():
            self.connect()

    def connect(self) -> None:
        """Ask for connections with the replicas of the cluster, and with those that leave it."""
        self.peers.follow(self.seats.others, self.now)
        self.output.batch.seats = self.seats.connected

    # Output

    def broadcast(self, message: Message) -> None:
        """Send a message to every connected peer."""
        for link in self.peers:
            if link.connected:
                self.output.send(link.replica, message)

    def stop(self, reason: str, *, failed: bool = False) -> None:
        """Stop: nothing is sent or received after this. failed: see the event `Stopped`."""
        if not self.stopped:
            self.status = ENDED
            self.output.note(f"stopped: {reason}")
            self.output.emit(Stopped(reason, failed))
