"""Mutants of the first view, and of processes that come back into a view."""

from quorate.hachannel import Channel
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Accepted
from quorate.hachannel.model.messages import Founded, Heartbeat, Prepare, Promise, Record
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.replication import lease
from quorate.hachannel.view_change import choice, installation
from quorate.testing.channel.by_hand import founding
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.random_schedules import draw
from quorate.testing.schedules.script import Script

VOTERS = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
VIEW = View(ViewNumber(3, 0, 7), VOTERS, VOTERS, 3, 0)


def founded_by_few(seed):
    """Clusters that a bare majority of replicas founds, with faults while it does."""
    return draw(seed, profile="founding")


@mutant(
    "A first view that may have failed is replaced by a majority of it: others found a cluster meanwhile.",
    caught=("I2", "I12"),
    schedule=founded_by_few,
)
def founders_not_met():
    def quorum(view, active):
        del active
        return view.quorum

    with patched(choice, "quorum_of", quorum), patched(view_triggers, "quorum_of", quorum):
        yield


def a_founder_loses_a_witness_before_that_has_recorded_the_first_view():
    """Three found it: 0, 1 and the witness 3, which has promised it and then sees 2 and 4 only.

    Two of its voters know of it, a majority, and the three others have lost nothing and know of no cluster.
    """
    script = Script(5, expected=3, witnesses=2, disk=True)
    hosts = script.hosts
    script.split((0, 1, 3), (2, 4))
    for host in hosts:
        host.start()
    script.until(lambda: hosts[0].channel.installing is not None)
    first = hosts[0].channel.installing.view
    assert {voter.replica for voter in first.config} == {0, 1, 3}
    script.mend()
    script.split((0, 1), (2, 3, 4))
    script.until(lambda: hosts[2].state.serving, 15.0)
    script.mend()
    script.whole()
    assert script.first_times == 1


@mutant(
    "A first view is active once a majority of its voters know it: others can found a cluster meanwhile.",
    scenario=a_founder_loses_a_witness_before_that_has_recorded_the_first_view,
    caught=("I12",),
    quick=True,
)
def first_view_quorum():
    with rewritten(installation, "activated", ("quorum_of(view, False)", "view.quorum")):
        yield


@mutant("No view says first_time.", caught=("I12", "I14"), quick=True)
def first_time_unsaid():
    original = installation.Installation._begin

    def begin(self, now, view, *, first_time):
        del first_time
        original(self, now, view, first_time=False)

    with patched(installation.Installation, "_begin", begin):
        yield


def a_master_comes_back_while_its_slaves_follow():
    """It knows neither what they hold nor, perhaps, what it has sent them."""
    channel = Channel(
        0,
        range(3),
        incarnation=7,
        cluster="c",
        expected=3,
        log=DurableLog(Remembered(VIEW.number, VIEW, True)),
    )
    channel.start(0.0)
    for slave in VOTERS[1:]:
        channel.connected(0.0, slave.replica, slave.incarnation)
        number = VIEW.number
        heartbeat = Heartbeat(number, number, True, True, False, True, False, 0, 1, 0, 0, 0)
        channel.receive(0.0, slave.replica, heartbeat)
    assert channel.role == "changing", "it goes on as if it had never been away"


@mutant(
    "A master that comes back from its disk goes on in its view.",
    scenario=a_master_comes_back_while_its_slaves_follow,
    caught=("scenario",),
    quick=True,
)
def resumed_master_goes_on():
    original = installation.Installation.activate

    def activate(self, now):
        resumed, self._state.resumed = self._state.resumed, None
        original(self, now)
        self._state.resumed = resumed

    with patched(installation.Installation, "activate", activate):
        yield


def _asked_at_once(replicas, expected):
    """A replica without memory has just started when another one proposes a view."""
    channel = Channel(0, range(replicas), incarnation=9, cluster="c", expected=expected)
    channel.start(100.0)
    channel.connected(100.0, 1, 8)
    channel.receive(100.0, 1, Prepare(ViewNumber(1, 1, 8), "start-up"))
    return channel


def _promises(channel):
    return any(isinstance(message, Promise) for _, message in channel.take().messages)


def a_founder_that_may_have_granted():
    """Without memory, and where fewer than all found a cluster, its last life may have granted."""
    for replicas, expected in ((5, 3), (3, 2), (4, 3)):
        channel = _asked_at_once(replicas, expected)
        waits = channel.lease.until - 0.01
        assert waits > 100.5, f"it is bound to nobody, of {replicas} with {expected} expected"
        channel.tick(waits)
        assert not _promises(channel)
        channel.tick(waits + 0.02)
        assert _promises(channel)


def a_founder_that_cannot_have_granted():
    """All are needed to found a cluster, or it is alone: no other one can hold a lease without it."""
    assert _promises(_asked_at_once(3, 3)), "it waits although nothing binds it"
    alone = Channel(0, range(1), incarnation=9, cluster="c", expected=1)
    alone.start(100.0)
    assert not alone.lease.blocks(100.0, Voter(0, 9)), "it waits although nothing binds it"


@mutant(
    "A replica that has no memory takes it that its last life granted nothing.",
    scenario=a_founder_that_may_have_granted,
    caught=("scenario",),
    quick=True,
)
def last_life_granted_nothing():
    original = lease.Lease.start

    def start(self, now):
        if self._state.log.durable:
            original(self, now)

    with patched(lease.Lease, "start", start):
        yield


@mutant(
    "Where two of three found a cluster, a replica takes it that its last life granted nothing.",
    scenario=a_founder_that_may_have_granted,
    caught=("scenario",),
    quick=True,
)
def last_life_of_three_granted_nothing():
    with rewritten(lease.Lease, "start", ("1 < state.expected", "2 < state.expected")):
        yield


@mutant(
    "A replica without memory waits for a grant of its last life although all are needed to found a cluster.",
    scenario=a_founder_that_cannot_have_granted,
    caught=("scenario",),
    quick=True,
)
def last_life_granted_where_all_found():
    with rewritten(lease.Lease, "start", ("< len(state.order)", "<= len(state.order)")):
        yield


def a_view_recorded_without_a_promise():
    """A voter that is no member recorded a view that may have failed, and comes back: that binds it."""
    remembered = Remembered(VIEW.number, VIEW, True)
    channel = Channel(2, range(3), incarnation=9, cluster="c", expected=3, log=DurableLog(remembered))
    channel.start(0.0)
    channel.connected(0.0, 1, 8)
    view = View(ViewNumber(9, 1, 8), VOTERS, VOTERS[1:2], 1, 0)
    channel.receive(5.0, 1, Record(view))
    for record in channel.take().persist:
        remembered.apply(record)
    again = Channel(2, range(3), incarnation=9, cluster="c", expected=3, log=DurableLog(remembered))
    assert again.state.promised == view.number, "it may promise, and acknowledge, what is below"
    assert again.view == view
    assert not again.state.known_active, "nobody has said that it is active"


@mutant(
    "What was recorded without a promise binds nobody after a restart.",
    scenario=a_view_recorded_without_a_promise,
    caught=("scenario",),
    quick=True,
)
def recorded_promises_nothing():
    original = Remembered.apply

    def apply(self, record):
        before = self.promised
        original(self, record)
        if isinstance(record, Accepted):
            self.promised = before

    with patched(Remembered, "apply", apply):
        yield


@mutant(
    "A view that was accepted last is taken for active after a restart, because the one before was.",
    scenario=a_view_recorded_without_a_promise,
    caught=("scenario",),
    quick=True,
)
def accepted_remembered_as_active():
    original = Remembered.apply

    def apply(self, record):
        before = self.active
        original(self, record)
        self.active = self.active or before

    with patched(Remembered, "apply", apply):
        yield


def a_founder_that_stops(seed):
    """Who proposes the first view stops for seconds, or is cut off, somewhere on the way to it."""
    return draw(seed, profile="slow-founding")


@mutant(
    "A first view is announced before its members know that it will be.",
    schedule=a_founder_that_stops,
    caught=("I12",),
)
def first_view_not_founded():
    original = installation.Installation._found

    def found(self, now, installing):
        original(self, now, installing)
        installing.known = True
        self.activate(now)

    with patched(installation.Installation, "_found", found):
        yield


def who_announced_the_first_view_is_gone():
    """One of the two others knows that it may have been active: enough of them, with the one that is gone."""
    hand = founding("MAJORITY")
    hand.deliver(0, 1)
    hand.silence(0)
    for _ in range(100):
        hand.settle()
        hand.tick(0.05)
    assert [[view.first_time for view in hand.views(replica)] for replica in (1, 2)] == [[False]] * 2


@mutant(
    "A member of a first view forgets that it may be active.",
    scenario=who_announced_the_first_view_is_gone,
    caught=("scenario",),
    quick=True,
)
def founding_forgotten():
    def on_found(self, voter, message):
        view = self._state.accepted
        if view is not None and view.number == message.number == self._state.promised:
            self._state.vow(voter.replica, Founded(view.number))

    with patched(installation.Installation, "on_found", on_found):
        yield


@mutant(
    "A first view is announced once one member fewer knows of it than commit an entry.",
    schedule=a_founder_that_stops,
    caught=("I12",),
)
def founded_one_less():
    original = installation.Installation.on_founded

    def on_founded(self, now, voter, message):
        original(self, now, voter, message)
        installing = self.current
        if (
            installing is not None
            and not installing.known
            and len(installing.founded) >= installing.view.k - 1
        ):
            installing.known = True
            self.activate(now)

    with patched(installation.Installation, "on_founded", on_founded):
        yield
