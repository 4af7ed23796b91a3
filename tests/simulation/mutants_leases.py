"""Mutants of leases: whose grants count, how long they last, and what binds their voters."""

import contextlib
import math
from collections.abc import Generator

import msgspec

from quorate.hachannel import Channel, LeaseChanged, Settings
from quorate.hachannel.model.messages import Release
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.replication import lease
from quorate.hachannel.replication.durable_output import DurableOutput
from quorate.hachannel.view_change import election
from quorate.testing.channel.host import Host
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

Lease = lease.Lease


@mutant(
    "A voter that granted promises a view to another proposer.",
    caught=("I11",),
    explore="leases",
    budget={"tick": 0},
)
def lease_not_awaited() -> Generator[None]:
    def on_mark(original, self, now, voter, mark):
        original(self, now, voter, mark)
        self.until = -math.inf

    with wrapped(Lease, "on_mark", on_mark):
        yield


@mutant("A grant counts from its arrival instead of from the time of its mark.")
def grant_counted_from_its_arrival() -> Generator[None]:
    def on_grant(original, self, now, voter, message):
        original(self, now, voter, msgspec.structs.replace(message, mark=now))

    with wrapped(Lease, "on_grant", on_grant):
        yield


def _cut_off_with_the_lease(cluster: ScriptedCluster) -> tuple[Host, Host]:
    """A master that holds the lease loses all its connections; returns it, and who comes after it."""
    master = cluster.form()
    cluster.until(lambda: master.channel.lease.held)
    others = [host.replica for host in cluster.hosts if host is not master]
    cluster.split([master.replica], others)
    for other in others:
        cluster.net.shut((min(master.replica, other), max(master.replica, other)))
    return master, cluster.hosts[others[0]]


def a_master_that_loses_its_connections(seed: int = 1, drift: float = 0.0) -> None:
    """It lives and counts what was granted to it; the others must wait until that is over."""
    settings = Settings(drift=drift or Settings().drift)
    cluster = ScriptedCluster(seed=seed, shared_host=False, drift=drift, settings=settings)
    master, follower = _cut_off_with_the_lease(cluster)
    cluster.until(lambda: follower.channel.role == "master")
    assert not master.channel.lease.held
    cluster.mend()
    cluster.whole()


def a_master_with_a_slow_clock_loses_its_connections() -> None:
    """One of these clusters has one, and voters whose clocks are fast."""
    for seed in range(12):
        a_master_that_loses_its_connections(seed, drift=0.1)


@contextlib.contextmanager
def _grants_longer_by(factor):
    """A master counts each grant for its length times a function of the drift."""

    def on_grant(original, self, now, voter, message):
        for_s = message.for_s * factor(self._state.settings.drift)
        original(self, now, voter, msgspec.structs.replace(message, for_s=for_s))

    with wrapped(Lease, "on_grant", on_grant):
        yield


@mutant(
    "A master counts a grant for its full length, without an allowance for the drift of clocks.",
    scenario=a_master_with_a_slow_clock_loses_its_connections,
    caught=("I11",),
)
def drift_ignored() -> Generator[None]:
    with _grants_longer_by(lambda drift: (1 + drift) / (1 - drift)):
        yield


@mutant(
    "A master allows for the drift of its own clock, but not of the clock of the voter.",
    scenario=a_master_with_a_slow_clock_loses_its_connections,
    caught=("I11",),
)
def drift_once() -> Generator[None]:
    with _grants_longer_by(lambda drift: 1 + drift):
        yield


@mutant(
    "A master lengthens a grant by the drift of two clocks instead of shortening it.",
    scenario=a_master_with_a_slow_clock_loses_its_connections,
    caught=("I11",),
)
def drift_other_way() -> Generator[None]:
    with _grants_longer_by(lambda drift: ((1 + drift) / (1 - drift)) ** 2):
        yield


@mutant("One grant less than a majority gives the lease.", caught=("I11",), quick=True)
def grants_below_majority() -> Generator[None]:
    def expires(self):
        view = self._state.accepted
        if self._reigns_since is None or view is None:
            return -math.inf
        granted = sorted((*self.grants.values(), math.inf), reverse=True)
        enough = max(view.quorum - 1, 1)
        return granted[enough - 1] if len(granted) >= enough else -math.inf

    with patched(Lease, "expires", expires):
        yield


@mutant("A master keeps the lease until it knows of another view.", caught=("I11",))
def lease_without_end() -> Generator[None]:
    def expires(original, self):
        return math.inf if self.held or original(self) > self._state.now else -math.inf

    with wrapped(Lease, "expires", expires):
        yield


@mutant("A voter grants to a master although it has promised another view.", caught=("I11",))
def granted_against_a_promise() -> Generator[None]:
    with patched(lease, "proposer", _whoever):
        yield


def _whoever(number):
    """Equal to every voter."""
    del number
    return _Anybody()


class _Anybody:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


@mutant(
    "A grant counts only if it arrives within one heartbeat, so a slow network has no lease.", caught=("L1",)
)
def late_grants_dropped() -> Generator[None]:
    def on_grant(original, self, now, voter, message):
        if now - message.mark <= self._state.settings.heartbeat_s:
            original(self, now, voter, message)

    with wrapped(Lease, "on_grant", on_grant):
        yield


@mutant("A master asks for grants again only when it has lost the lease.", caught=("L1",))
def lease_not_prolonged() -> Generator[None]:
    asks = property(lambda self: self._reigns_since is not None and not self.held)
    with patched(Lease, "asks", asks):
        yield


def a_master_that_leaves_with_slow_services() -> None:
    """It hears nothing. Nobody may have services before its own have ended, or the lease is over."""
    settings = Settings(view_change_s=0.1, leave_s=2.0)
    cluster = ScriptedCluster(shared_host=False, stop_s=0.9, settings=settings, seed=5)
    master = cluster.form()
    cluster.until(lambda: master.channel.lease.held)
    master.leave()
    cluster.cut(*((host.replica, master.replica) for host in cluster.hosts if host is not master))
    cluster.until(lambda: any(host.channel.lease.held for host in cluster.hosts if host is not master))


@mutant(
    "A master releases its grants while its services are still ending.",
    scenario=a_master_that_leaves_with_slow_services,
    caught=("I11",),
)
def released_before_services_ended() -> Generator[None]:
    def greet(self, replica):
        if self._released is not None and not self._state.stopped:
            self._state.output.send(replica, Release(self._released))

    with patched(Lease, "greet", greet):
        yield


@mutant(
    "A closed connection counts as the end of the process.",
    scenario=a_master_that_loses_its_connections,
    caught=("I11",),
)
def closed_means_dead() -> Generator[None]:
    def disconnected(original, self, now, peer, *, ended=False):
        del ended
        original(self, now, peer, ended=True)

    with wrapped(Channel, "disconnected", disconnected):
        yield


@mutant("The application does not hear that its replica has gained the lease.", caught=("L1",), quick=True)
def lease_never_told() -> Generator[None]:
    def review(self, now):
        self._over = self.expires()
        if self._reigning() and now < self._over:
            self.wanting_since = None

    with patched(Lease, "review", review):
        yield


@mutant("A master notices the end of its lease only with its next heartbeat.", caught=("I11",))
def end_noticed_late() -> Generator[None]:
    with patched(Lease, "deadline", lambda _: None):
        yield


@mutant("A replica that paused handles messages before it checks its lease.", caught=("I11",))
def end_noticed_after_messages() -> Generator[None]:
    with patched(Lease, "watch", lambda *_: None):
        yield


def a_slave_dies_while_the_master_is_cut_off() -> None:
    """The others see the end of its process: it has nothing to do with what they granted to the master."""
    cluster = ScriptedCluster(5)
    _, follower = _cut_off_with_the_lease(cluster)
    cluster.hosts[4].crash()
    cluster.until(lambda: follower.channel.role == "master")


@mutant(
    "The end of any process releases a grant, not only the end of its holder.",
    scenario=a_slave_dies_while_the_master_is_cut_off,
    caught=("I11",),
)
def released_by_anybody() -> Generator[None]:
    def release(original, self, voter, *mark):
        del voter
        if self.holder is not None:
            original(self, self.holder, *mark)

    with wrapped(Lease, "release", release):
        yield


@mutant("A voter grants before its disk has its promise.", caught=("I3",))
def granted_at_once():
    with patched(DurableOutput, "send_once_bound", DurableOutput.send):
        yield


@mutant("The disk does not learn how long grants last.", caught=("I3",))
def length_not_written():
    with patched(Lease, "_remember", lambda *_: None):
        yield


@mutant("A master that changes the view itself forgets its grants.", caught=("I11",))
def forgotten_in_a_view_of_its_own():
    def reign(original, self, now, master):
        self._reigns_since = None
        original(self, now, master)

    with wrapped(Lease, "reign", reign):
        yield


@mutant("A master that holds the lease promises views to other replicas.", caught=("I11",))
def holder_not_bound():
    with patched(Lease, "blocks", lambda self, now, other: now < self.until and self.holder != other):
        yield


def a_master_of_before_is_heard_by_one_voter():
    """It knows three voters. There are five now, and another master: two are a majority of its own only."""
    cluster = ScriptedCluster(3)
    before = cluster.form()
    master, voter = cluster.hosts[1:]
    cluster.split([0], [1, 2, 3, 4])
    for other in (1, 2):
        cluster.net.shut((0, other))
    cluster.whole(but=[0])
    for replica in (3, 4):
        cluster.hosts.append(Host(cluster.world, replica))
        master.channel.admit(cluster.world.now, replica)
        master.settle()
        cluster.hosts[replica].start()
        assert cluster.whole(but=[0]) is master
    # The voter promises the next view, is left out of it, and does not hear of it any more.
    cluster.cut((2, 1), (2, 3), (2, 4))
    accepted = voter.channel.view
    assert accepted is not None
    cluster.until(lambda: voter.state.promised > accepted.number)
    cluster.split([1, 3, 4], [2])
    assert cluster.whole(but=[0, 2]) is master
    for way in ((0, 2), (2, 0)):
        cluster.net.mend(way)
    cluster.until(lambda: voter.state.promised.replica == 0)
    cluster.run(1.0)
    assert not before.channel.holds_lease(cluster.world.now)
    assert master.channel.holds_lease(cluster.world.now)
    cluster.mend()
    cluster.whole()


@mutant(
    "A voter grants to the proposer that it promised, though another master leads its accepted view.",
    scenario=a_master_of_before_is_heard_by_one_voter,
    caught=("I11",),
)
def granted_for_a_promise():
    def on_mark(original, self, now, voter, mark):
        view = self._state.accepted
        if view is None:
            return
        with patched(self._state, "accepted", msgspec.structs.replace(view, members=(voter,))):
            original(self, now, voter, mark)

    with wrapped(Lease, "on_mark", on_mark):
        yield


@mutant("A voter proposes a view while its grant to another replica lasts.", caught=("I11",))
def proposed_within_its_grant():
    def propose(original, self, *arguments, **options):
        with patched(Lease, "blocks", lambda *_: False):
            original(self, *arguments, **options)

    def consider(original, self, now, view):
        with patched(self._lease, "until", -math.inf):
            original(self, now, view)

    with (
        wrapped(election.Election, "propose", propose),
        wrapped(view_triggers.ViewTriggers, "_consider_master", consider),
    ):
        yield


@mutant(
    "The application hears twice that its replica has gained the lease.",
    caught=("I11",),
)
def gain_reported_twice() -> Generator[None]:
    def review(original, self, now):
        before = self.held
        original(self, now)
        if self.held and not before:
            self._state.output.emit(LeaseChanged(True))

    with wrapped(Lease, "review", review):
        yield
