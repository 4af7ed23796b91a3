"""Mutants of the first view, and of processes that come back into a view."""

from random import Random

import attrs

from quorate.hachannel import Channel, choice, gate, installation, lease
from quorate.hachannel.durable import DurableLog, Remembered
from quorate.hachannel.log import Accepted
from quorate.hachannel.messages import Heartbeat, Prepare, Promise, Record
from quorate.hachannel.view import View, ViewNumber, Voter
from quorate.testing.drawing import draw
from quorate.testing.faults import FAULTS
from quorate.testing.mutation import mutant, patched

VOTERS = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
VIEW = View(ViewNumber(3, 0, 7), VOTERS, VOTERS, 3, 0)
KINDS = ("crash", "crash-step", "crash-proposer", "partition", "isolate", "break", "one-way", "loss", "pause")


def founded_by_few(seed):
    """Clusters that a bare majority of replicas founds, with faults while it does."""
    random = Random(f"founders {seed}")
    drawn = draw(seed, ())
    replicas = random.choice([3, 5, 5])
    settings = attrs.evolve(drawn.shape.settings, min_copies=1)
    shape = attrs.evolve(
        drawn.shape, replicas=replicas, expected=replicas // 2 + 1, witnesses=0, settings=settings
    )
    times = sorted(random.uniform(0.0, 2.0) for _ in range(15))
    faults = [FAULTS[random.choice(KINDS)].draw(at, random, shape) for at in times]
    spread_s = random.choice([0.1, 1.0])
    return attrs.evolve(drawn, shape=shape, faults=faults, seconds=3.0, spread_s=spread_s, load=5.0)


@mutant(
    "A first view that may have failed is replaced by a majority of it: others found a cluster meanwhile.",
    caught=("I2", "I12"),
    schedule=founded_by_few,
)
def founders_not_met():
    def quorum(view, active):
        del active
        return view.quorum

    with patched(choice, "quorum_of", quorum), patched(gate, "quorum_of", quorum):
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


def a_founder_that_may_have_granted():
    """Without memory, and where fewer than all found a cluster, its last life may have granted."""
    channel = Channel(0, range(5), incarnation=9, cluster="c", expected=3)
    channel.start(100.0)
    channel.connected(100.0, 1, 8)
    channel.receive(100.0, 1, Prepare(ViewNumber(1, 1, 8), "start-up"))
    waits = channel.lease.until - 0.01
    assert waits > 100.5, "it is bound to nobody"
    channel.tick(waits)
    assert not any(isinstance(message, Promise) for _, message in channel.take().messages)
    channel.tick(waits + 0.02)
    assert any(isinstance(message, Promise) for _, message in channel.take().messages)


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
