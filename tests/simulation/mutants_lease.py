"""Mutants of leases."""

import math
from collections.abc import Iterator

import msgspec

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Leased
from quorate.hachannel.model.messages import Prepare, Promise, Record, Recorded, Release
from quorate.hachannel.model.view import NO_VIEW, ViewNumber, Voter
from quorate.hachannel.replication import lease
from quorate.hachannel.view_change import installation
from quorate.testing.channel.by_hand import Hand
from quorate.testing.channel.world import Host
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script

Lease = lease.Lease


@mutant(
    "A voter that granted promises a view to another proposer.",
    quick=True,
    caught=("I11",),
    explore="leases",
    budget={"tick": 0},
)
def lease_not_awaited() -> Iterator[None]:
    original = Lease.on_mark

    def on_mark(self, now, voter, mark):
        original(self, now, voter, mark)
        self.until = -math.inf

    with patched(Lease, "on_mark", on_mark):
        yield


@mutant("A grant counts from the moment it arrives, not from when its mark was sent.", quick=True)
def grant_counted_from_its_arrival() -> Iterator[None]:
    original = Lease.on_grant

    def on_grant(self, now, voter, message):
        original(self, now, voter, msgspec.structs.replace(message, mark=now))

    with patched(Lease, "on_grant", on_grant):
        yield


def _cut_off_with_the_lease(script: Script) -> tuple[Host, Host]:
    """A master that holds the lease loses all its connections; returns it, and who comes after it."""
    master = script.form()
    script.until(lambda: master.channel.lease.held)
    others = [host.replica for host in script.hosts if host is not master]
    script.split([master.replica], others)
    for other in others:
        script.net.shut((min(master.replica, other), max(master.replica, other)))
    return master, script.hosts[others[0]]


def a_master_that_loses_its_connections(seed: int = 1, drift: float = 0.0) -> None:
    """It lives and counts what was granted to it; the others must wait until that is over."""
    settings = Settings(drift=drift or Settings().drift)
    script = Script(seed=seed, shared_host=False, drift=drift, settings=settings)
    master, follower = _cut_off_with_the_lease(script)
    script.until(lambda: follower.channel.role == "master")
    assert not master.channel.lease.held
    script.mend()
    script.whole()


def a_master_with_a_slow_clock_loses_its_connections() -> None:
    """One of these clusters has one, and voters whose clocks are fast."""
    for seed in range(12):
        a_master_that_loses_its_connections(seed, drift=0.1)


@mutant(
    "A master counts a grant for as long as the voter said, as if clocks did not drift.",
    scenario=a_master_with_a_slow_clock_loses_its_connections,
    caught=("I11",),
    quick=True,
)
def drift_ignored() -> Iterator[None]:
    original = Lease.on_grant

    def on_grant(self, now, voter, message):
        drift = self._state.settings.drift
        for_s = message.for_s * (1 + drift) / (1 - drift)
        original(self, now, voter, msgspec.structs.replace(message, for_s=for_s))

    with patched(Lease, "on_grant", on_grant):
        yield


@mutant(
    "A master allows for the drift of its own clock, not for that of the voter.",
    scenario=a_master_with_a_slow_clock_loses_its_connections,
    caught=("I11",),
    quick=True,
)
def drift_once() -> Iterator[None]:
    with rewritten(Lease, "on_grant", ("(1 - drift) / (1 + drift)", "(1 - drift)")):
        yield


@mutant(
    "A master counts a grant for longer than the voter said, by what two clocks may drift apart.",
    scenario=a_master_with_a_slow_clock_loses_its_connections,
    caught=("I11",),
    quick=True,
)
def drift_other_way() -> Iterator[None]:
    with rewritten(Lease, "on_grant", ("(1 - drift) / (1 + drift)", "(1 + drift) / (1 - drift)")):
        yield


@mutant("One grant less than a majority is enough.", quick=True, caught=("I11",))
def grants_below_majority() -> Iterator[None]:
    def expires(self):
        view = self._state.accepted
        if self._reigns_since is None or view is None:
            return -math.inf
        granted = sorted((*self.grants.values(), math.inf), reverse=True)
        enough = max(view.quorum - 1, 1)
        return granted[enough - 1] if len(granted) >= enough else -math.inf

    with patched(Lease, "expires", expires):
        yield


@mutant("A lease that was gained once is kept until another view is known.", quick=True, caught=("I11",))
def lease_without_end() -> Iterator[None]:
    original = Lease.expires

    def expires(self):
        return math.inf if self.held or original(self) > self._state.now else -math.inf

    with patched(Lease, "expires", expires):
        yield


@mutant("A voter grants to a master although it has promised another view.", caught=("I11",))
def granted_against_a_promise() -> Iterator[None]:
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
    "A grant counts only if it comes within a heartbeat: no lease on a slow network.",
    caught=("L1",),
)
def late_grants_dropped() -> Iterator[None]:
    original = Lease.on_grant

    def on_grant(self, now, voter, message):
        if now - message.mark <= self._state.settings.heartbeat_s:
            original(self, now, voter, message)

    with patched(Lease, "on_grant", on_grant):
        yield


@mutant("A master that holds the lease asks again only when it has lost it.", caught=("L1",), quick=True)
def lease_not_prolonged() -> Iterator[None]:
    asks = property(lambda self: self._reigns_since is not None and not self.held)
    with patched(Lease, "asks", asks):
        yield


def a_master_that_leaves_with_slow_services() -> None:
    """It hears nothing. Nobody may have services before its own have ended, or the lease is over."""
    settings = Settings(view_change_s=0.1, leave_s=2.0)
    script = Script(shared_host=False, stop_s=0.9, settings=settings, seed=5)
    master = script.form()
    script.until(lambda: master.channel.lease.held)
    master.leave()
    script.cut(*((host.replica, master.replica) for host in script.hosts if host is not master))
    script.until(lambda: any(host.channel.lease.held for host in script.hosts if host is not master))


def a_master_asked_for_a_promise_while_its_services_end() -> None:
    """It has given up the lease, and says no more about the time than any voter that granted."""
    hand = Hand()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    assert master.holds_lease(hand.now)
    hand.stops = False
    hand.act(0, lambda channel: channel.leave(hand.now))
    hand.give(2, 0, Prepare(ViewNumber(9, 2, 3), "test"))
    assert not hand.waiting(0, 2, Promise), "it promised while it may still be serving"
    hand.act(0, lambda channel: channel.lease_ended(hand.now))
    assert hand.waiting(0, 2, Promise)


@mutant(
    "A master says that its grants are over while its services are still ending.",
    scenario=a_master_that_leaves_with_slow_services,
    caught=("I11",),
    quick=True,
)
def released_before_services_ended() -> Iterator[None]:
    def greet(self, replica):
        if self._released is not None and not self._state.stopped:
            self._state.send(replica, Release(self._released))

    with patched(Lease, "greet", greet):
        yield


@mutant(
    "A master that has given up the lease promises a view while its services are still ending.",
    scenario=a_master_asked_for_a_promise_while_its_services_end,
    caught=("scenario",),
    quick=True,
)
def promised_before_services_ended() -> Iterator[None]:
    original = Lease.review

    def review(self, now):
        original(self, now)
        self._kept_until = -math.inf

    with patched(Lease, "review", review):
        yield


@mutant(
    "A closed connection is taken for the end of the process.",
    scenario=a_master_that_loses_its_connections,
    caught=("I11",),
    quick=True,
)
def closed_means_dead() -> Iterator[None]:
    original = Channel.disconnected

    def disconnected(self, now, peer, *, ended=False):
        del ended
        original(self, now, peer, ended=True)

    with patched(Channel, "disconnected", disconnected):
        yield


def a_voter_that_restarts_from_its_disk() -> None:
    """It granted, forgot it, and is asked by another proposer at once."""
    hand = Hand()
    master = hand.form()
    view = hand.channels[1].view
    assert view is not None
    hand.tick(0.05)
    hand.settle()
    assert master.holds_lease(hand.now)
    log = DurableLog(Remembered(promised=view.number, accepted=view, active=True))
    hand.start(1, 3, 2, log)
    hand.connect(1, 2)
    hand.settle(1, 2)
    hand.give(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    for seconds in (0.5, Settings().lease_s - 0.51):
        hand.tick(seconds, 1)
        hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
        assert not hand.waiting(1, 2, Promise), "it promised what its grant forbids"
    hand.tick(0.02, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
    assert hand.waiting(1, 2, Promise)


@mutant(
    "A voter that restarts from its disk takes it that it granted nothing.",
    scenario=a_voter_that_restarts_from_its_disk,
    caught=("scenario",),
    quick=True,
)
def grant_forgotten_after_restart() -> Iterator[None]:
    with patched(Lease, "start", lambda *_: None):
        yield


def a_view_that_is_recorded_within_a_grant() -> None:
    """It was never promised, and is sent again once the grant is over."""
    hand = Hand()
    hand.form()
    hand.tick(0.05)
    hand.settle()
    old = hand.channels[1].view
    assert old is not None
    alone = old.members[2]
    view = msgspec.structs.replace(old, number=ViewNumber(9, *alone), members=(alone,), k=1)
    hand.give(2, 1, Record(view))
    assert not hand.waiting(1, 2, Recorded), "it recorded what its grant forbids"
    hand.tick(Settings().lease_s, 1)
    hand.give(2, 1, Record(view))
    assert hand.waiting(1, 2, Recorded)


@mutant(
    "A voter that granted accepts and records views of another that it has not promised.",
    scenario=a_view_that_is_recorded_within_a_grant,
    quick=True,
)
def record_ignores_grant() -> Iterator[None]:
    with patched(installation.Installation, "_bound", lambda *_: False):
        yield


@mutant("The application is never told that the lease was gained.", caught=("L1",), quick=True)
def lease_never_told() -> Iterator[None]:
    def review(self, now):
        self._over = self.expires()
        if self._reigning() and now < self._over:
            self.wanting_since = None

    with patched(Lease, "review", review):
        yield


@mutant("The end of the lease is noticed with the next heartbeat only.", caught=("I11",), quick=True)
def end_noticed_late() -> Iterator[None]:
    with patched(Lease, "deadline", lambda _: None):
        yield


@mutant(
    "A replica that was stopped handles what came meanwhile before it looks at its lease.", caught=("I11",)
)
def end_noticed_after_messages() -> Iterator[None]:
    with patched(Lease, "watch", lambda *_: None):
        yield


def a_slave_dies_while_the_master_is_cut_off() -> None:
    """The others see the end of its process: it has nothing to do with what they granted to the master."""
    script = Script(5)
    _, follower = _cut_off_with_the_lease(script)
    script.hosts[4].crash()
    script.until(lambda: follower.channel.role == "master")


@mutant(
    "The end of any process releases what was granted, not only that of the holder.",
    scenario=a_slave_dies_while_the_master_is_cut_off,
    caught=("I11",),
    quick=True,
)
def released_by_anybody() -> Iterator[None]:
    original = Lease.release

    def release(self, voter, *mark):
        del voter
        if self.holder is not None:
            original(self, self.holder, *mark)

    with patched(Lease, "release", release):
        yield


def _an_old_master_hears_one():
    """Of five the old master and the last slave hear each other; three hear all but the old master."""
    script = Script(5, settings=Settings(suspect_s=0.5, view_change_s=0.4))
    script.form()
    script.cut(*(pair for other in (1, 2, 3) for pair in ((0, other), (other, 0))))
    script.whole(but=[0])


@mutant(
    "Who knows that a later view is active still grants to a master of before.",
    scenario=_an_old_master_hears_one,
    caught=("scenario",),
    quick=True,
)
def grants_to_the_past() -> Iterator[None]:
    original = Lease.on_mark

    def on_mark(self, now, voter, mark):
        state = self._state
        newer, state.newer = state.newer, NO_VIEW
        original(self, now, voter, mark)
        state.newer = newer

    with patched(Lease, "on_mark", on_mark):
        yield


def a_voter_that_restarts_with_a_shorter_lease() -> None:
    """What its earlier process granted lasts for 3 s, longer than what this one grants."""
    hand = Hand()
    view = hand.form().view
    assert view is not None
    hand.start(1, 3, 2, DurableLog(Remembered(view.number, view, True, lease_s=3.0)))
    hand.connect(0, 1)
    hand.connect(1, 2)
    hand.tick(0.1)
    hand.settle(0, 1)
    assert hand.channels[1].lease.holder == Voter(0, 1), "it has granted nothing"
    assert Leased(Settings().lease_s) not in hand.records[1], "a crash now would leave it bound too briefly"
    hand.give(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    hand.tick(2.5, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
    assert not hand.waiting(1, 2, Promise), "it promised what its earlier process has granted away"
    hand.tick(0.5, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
    assert hand.waiting(1, 2, Promise)


@mutant(
    "A grant takes the place of one that lasts longer.",
    scenario=a_voter_that_restarts_with_a_shorter_lease,
    caught=("scenario",),
    quick=True,
)
def grant_shortened() -> Iterator[None]:
    with rewritten(
        Lease, "on_mark", ("max(self.until, now + state.settings.lease_s)", "now + state.settings.lease_s")
    ):
        yield


@mutant(
    "A voter that restarts is bound as long as grants last now, not as long as they did.",
    scenario=a_voter_that_restarts_with_a_shorter_lease,
    caught=("scenario",),
    quick=True,
)
def longer_grant_forgotten() -> Iterator[None]:
    with rewritten(Lease, "start", ("max(state.settings.lease_s, state.leased_s)", "state.settings.lease_s")):
        yield


@mutant(
    "A disk is told that grants last less long while longer ones still bind.",
    scenario=a_voter_that_restarts_with_a_shorter_lease,
    caught=("scenario",),
    quick=True,
)
def shorter_lease_written_early() -> Iterator[None]:
    with rewritten(Lease, "_remember", (" and now >= self._earlier_until", "")):
        yield


def a_master_loses_the_lease_twice_while_its_services_end() -> None:
    """Its application has answered once: what was begun with the second lease may still run."""
    hand = Hand()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.stops = False
    hand.tick(2.0, 0)
    assert not master.holds_lease(hand.now)
    hand.settle()
    assert master.holds_lease(hand.now)
    hand.act(0, lambda channel: channel.leave(hand.now))
    hand.act(0, lambda channel: channel.lease_ended(hand.now))
    hand.give(2, 0, Prepare(ViewNumber(9, 2, 3), "test"))
    assert not hand.waiting(0, 1, Release), "it released the voters while it may still be serving"
    assert not hand.waiting(0, 2, Promise), "it promised while it may still be serving"
    hand.act(0, lambda channel: channel.lease_ended(hand.now))
    assert hand.waiting(0, 1, Release)
    assert hand.waiting(0, 2, Promise)


@mutant(
    "The first answer of an application stands for the end of all leases it was told of.",
    scenario=a_master_loses_the_lease_twice_while_its_services_end,
    caught=("scenario",),
    quick=True,
)
def one_end_for_all() -> Iterator[None]:
    with rewritten(Lease, "ended", ("self._told -= self._told > 0", "self._told = 0")):
        yield


@mutant(
    "A master is free to promise when its application has answered for the first of two leases.",
    scenario=a_master_loses_the_lease_twice_while_its_services_end,
    caught=("scenario",),
    quick=True,
)
def free_at_the_first_end() -> Iterator[None]:
    with rewritten(Lease, "ended", ("if not self._told:", "if True:")):
        yield


def a_master_gives_up_a_lease_while_its_services_end() -> None:
    """Nobody else may hear that the grants are over before its application has been told, and answered."""
    hand = Hand()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    assert master.holds_lease(hand.now)
    hand.stops = False
    hand.act(0, lambda channel: channel.leave(hand.now))
    assert not hand.waiting(0, 1, Release), "it released the voters while it is still serving"


@mutant(
    "A master says that its grants are over before it has told its application.",
    scenario=a_master_gives_up_a_lease_while_its_services_end,
    caught=("scenario",),
    quick=True,
)
def given_up_untold() -> Iterator[None]:
    with rewritten(Lease, "give_up", ("self.review(now)", "pass")):
        yield


def a_master_that_has_promised_gets_a_late_grant() -> None:
    """It has lost the lease and promised a view to another, of which the voter of the grant knows nothing."""
    hand = Hand()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.tick(0.06, 0)
    hand.deliver(0, 2)
    hand.lose(0, 1)
    hand.tick(1.42, 0)
    assert not master.holds_lease(hand.now)
    hand.give(1, 0, Prepare(ViewNumber(9, 1, 2), "test"))
    assert hand.waiting(0, 1, Promise)
    hand.deliver(2, 0)
    assert not master.holds_lease(hand.now), "so may the master of the view that it has promised"


@mutant(
    "A master that has promised a view to another goes on counting grants.",
    scenario=a_master_that_has_promised_gets_a_late_grant,
    caught=("scenario",),
    quick=True,
)
def counted_after_a_promise() -> Iterator[None]:
    with rewritten(Lease, "_reigning", ("and proposer(state.promised) == state.me", "")):
        yield


def a_release_that_is_late() -> None:
    """It is of marks before the one that was granted last."""
    hand = Hand()
    hand.form()
    hand.tick(0.05)
    hand.settle()
    early = hand.now
    hand.tick(0.06, 0)
    hand.deliver(0, 1)
    hand.give(0, 1, Release(early))
    hand.give(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    assert not hand.waiting(1, 2, Promise), "the master counts what was granted since"


@mutant(
    "A Release ends what was granted to later marks, too.",
    scenario=a_release_that_is_late,
    caught=("scenario",),
    quick=True,
)
def later_grants_released() -> Iterator[None]:
    with rewritten(Lease, "release", (" and self._marked <= mark", "")):
        yield
