"""Mutants that believe what was said before, by who is silent now, or of more than there is."""

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import (
    CatchUp,
    CaughtUp,
    Commit,
    Data,
    Entry,
    Exit,
    Grant,
    Heartbeat,
    Join,
    Prepare,
    Release,
    Repair,
)
from quorate.hachannel.model.view import Voter
from quorate.hachannel.protocol.view_triggers import ViewTriggers
from quorate.hachannel.replication.lease import Lease
from quorate.hachannel.replication.normal_case import Replication
from quorate.hachannel.transfer.donor import Donor
from quorate.hachannel.transfer.learner import Learner
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, rewritten


def _submit(hand, count):
    for _ in range(count):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))


def words_of_an_earlier_transfer():
    """A learner has lost the entries that it had, and gets them again; what it said of them comes late."""
    hand = Hand()
    master = hand.form()
    hand.silence(2)
    hand.settle()
    _submit(hand, 9)
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    state = hand.channels[2].state

    def joins(refused):
        hand.give(2, 0, Join("c", False, state.log.tag(0), 0, 0, b"", False, refused, state.birth))
        return hand.waiting(0, 2, CatchUp)[-1].token

    first = joins(0)
    hand.give(2, 0, CaughtUp(first, 9, 9, False))
    assert joins(first) > first
    hand.give(2, 0, CaughtUp(first, 9, 9, False))
    assert master._donor.session.acked == 0, "it is taken in without them"


@mutant(
    "What a learner said of the entries of an earlier transfer counts.",
    scenario=words_of_an_earlier_transfer,
    caught=("scenario",),
    quick=True,
)
def earlier_entries_counted():
    with rewritten(Donor, "on_caught_up", ("session.opened <= message.token", "message.token")):
        yield


def a_repair_asked_for_in_an_earlier_view():
    """Since then the slave was sent what it lacked, with the view."""
    hand = Hand()
    master = hand.form()
    earlier = master.view.number
    hand.isolate(2)
    _submit(hand, 3)
    hand.deliver(0, 1)
    hand.give(1, 0, Repair(earlier, 1))
    assert not hand.waiting(0, 1, Data), "it is sent again what it has"


@mutant(
    "A repair that was asked for in an earlier view is made.",
    scenario=a_repair_asked_for_in_an_earlier_view,
    caught=("scenario",),
    quick=True,
)
def earlier_repair_made():
    with rewritten(Replication, "on_repair", ("and message.view == state.accepted.number", "")):
        yield


def an_exit_of_a_voter_that_is_silent_since():
    """One of five said so to another, which has not heard it since. That one and a third leave the master."""
    hand = Hand(5)
    number = hand.form().view.number
    hand.give(4, 1, Exit(number, False, "test"))

    def pass_time(*replicas):
        hand.tick(0.05)
        hand.lose(4, 1)
        hand.settle(*replicas)
        hand.lose(4, 1)

    for _ in range(50):
        pass_time(0, 1, 2, 3)
        pass_time(0, 2, 3, 4)
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    for _ in range(35):
        pass_time(0, 2, 3, 4)
        hand.deliver(2, 1)
        hand.deliver(3, 1)
    hand.lose(1, 2)
    hand.give(2, 1, Exit(number, False, "test"))
    hand.tick(0.1, 1)
    assert not hand.waiting(1, 2, Prepare), "two of five leave a master that the others follow"
    for other in (2, 3):
        hand.give(other, 1, Exit(number, False, "test"))
    hand.tick(0.1, 1)
    assert hand.waiting(1, 2, Prepare)


@mutant(
    "The EXIT of a voter that is suspected itself counts.",
    scenario=an_exit_of_a_voter_that_is_silent_since,
    caught=("scenario",),
    quick=True,
)
def silent_exits_counted():
    with rewritten(
        ViewTriggers, "_gate_open", ("link is not None and not link.suspected", "link is not None")
    ):
        yield


def a_master_that_leaves_asks_for_the_lease():
    """Its mark was on the way when it said so, and arrives behind that."""
    hand = Hand()
    hand.form()
    hand.tick(0.06)
    hand.settle()
    hand.tick(0.06, 0)
    (heartbeat,) = hand.waiting(0, 1, Heartbeat)
    hand.lose(0, 1)
    hand.give(0, 1, Exit(heartbeat.view, True, "test"))
    hand.lose(1, 0)
    hand.give(0, 1, heartbeat)
    assert not hand.waiting(1, 0, Grant), "the next master waits for the end of that grant"


@mutant(
    "A voter grants the lease to a master that leaves.",
    scenario=a_master_that_leaves_asks_for_the_lease,
    caught=("scenario",),
    quick=True,
)
def granted_to_a_leaver():
    with rewritten(Lease, "on_mark", ("or link.leaving", "")):
        yield


def a_learner_has_heard_nothing_but_entries():
    """It knows of no view, and has no state yet."""
    hand = Hand()
    hand.form()
    _submit(hand, 1)
    hand.silence(2)
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.tick(0.1, 2)
    hand.deliver(2, 0)
    entries = hand.waiting(0, 2, CatchUp)[0]
    hand.lose(0, 2)
    hand.give(0, 2, entries)
    hand.lose(2, 0)
    hand.tick(1.0, 2)
    joins = hand.waiting(2, 0, Join)
    assert joins
    assert not any(join.empty for join in joins), "it would found a cluster beside that of the entries"


@mutant(
    "A replica that has entries, and was in no view, founds a cluster.",
    scenario=a_learner_has_heard_nothing_but_entries,
    caught=("scenario",),
    quick=True,
)
def founded_with_entries():
    with rewritten(Learner, "empty", (" and state.log.last == NO_TAG", "")):
        yield


def the_log_is_full_after_a_change():
    """The change of the configuration has taken effect: it holds the log no longer."""
    hand = Hand(settings=Settings(mode="MAJORITY", window=16, keep=0, max_log=160))
    master = hand.form()
    hand.act(0, lambda channel: channel.admit(hand.now, 3, b"place", witness=False))
    hand.settle()
    assert 3 in [seat.replica for seat in master.view.seats]
    for _ in range(300):
        _submit(hand, 1)
        hand.deliver(0, 1)
        hand.deliver(1, 0)
        if len(master.state.log) >= 160:
            break
    assert len(master.state.log) == 160
    assert master.can_submit, "all wait until the slave that lags is given up for its silence"


@mutant(
    "A change of the configuration holds the log in later views, too.",
    scenario=the_log_is_full_after_a_change,
    caught=("scenario",),
    quick=True,
)
def changes_for_ever():
    with rewritten(Replication, "begin", ("self._changes = False", "pass")):
        yield


def a_release_of_an_earlier_reign():
    """A master that had made room for another one reigns again when a replica connects."""
    hand = Hand()
    hand.form()
    hand.act(0, lambda channel: channel.lease.give_up(hand.now))
    assert hand.waiting(0, 1, Release)
    hand.act(0, lambda channel: channel.lease.reign(hand.now, master=True))
    hand.connect(0, 1)
    assert not hand.waiting(0, 1, Release), "it says that it needs the lease no more"


@mutant(
    "A master says what it said at the end of an earlier reign.",
    scenario=a_release_of_an_earlier_reign,
    caught=("scenario",),
    quick=True,
)
def released_for_ever():
    with rewritten(Lease, "reign", ("self._released = None", "pass")):
        yield


def a_lease_given_up_whose_services_still_end():
    """Who asks the master meanwhile how long it is bound is to ask for its promise no sooner."""
    hand = Hand()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.stops = False
    hand.act(0, lambda channel: channel.lease.give_up(hand.now))
    assert master.lease.blocks(hand.now, Voter(1, 2))
    assert 0 < master.lease.bound_s(hand.now, Voter(1, 2)) <= master.lease.bound_until - hand.now
    hand.now = master.lease.bound_until
    assert not master.lease.blocks(hand.now, Voter(1, 2))


@mutant(
    "A master whose services still end says that nothing binds it.",
    scenario=a_lease_given_up_whose_services_still_end,
    caught=("scenario",),
    quick=True,
)
def ending_services_bind_nothing():
    with rewritten(Lease, "bound_until", ("max(self.until, self._kept_until)", "self.until")):
        yield


def more_is_held_by_all_than_a_slave_knows_to_be_committed():
    """What all members hold is committed: a slave says so of nothing that it has not delivered."""
    for kind in (Data, Commit, Heartbeat):
        hand = Hand()
        number = hand.form().view.number
        words = {
            Data: Data(Entry(number, 1, 0, b"x"), 0, 0, 1),
            Commit: Commit(number, 0, 0, 1),
            Heartbeat: Heartbeat(number, number, True, True, True, True, False, 0, 0, 0, 0, 1),
        }
        hand.give(0, 1, words[kind])
        assert hand.channels[1].stable == 0, f"it believes a {kind.__name__}"


def _beyond_commit(method):
    return rewritten(
        Replication,
        method,
        ("state.stable_to(min(message.stable, state.commit))", "state.stable_to(message.stable)"),
    )


@mutant(
    "A slave believes of any entry that all members hold it, when it comes with an entry.",
    scenario=more_is_held_by_all_than_a_slave_knows_to_be_committed,
    caught=("scenario",),
    quick=True,
)
def stable_with_data():
    with _beyond_commit("on_data"):
        yield


@mutant(
    "A slave believes of any entry that all members hold it, when that is said alone.",
    scenario=more_is_held_by_all_than_a_slave_knows_to_be_committed,
    caught=("scenario",),
    quick=True,
)
def stable_alone():
    with _beyond_commit("on_commit"):
        yield


@mutant(
    "A slave believes of any entry that all members hold it, when it comes with a heartbeat.",
    scenario=more_is_held_by_all_than_a_slave_knows_to_be_committed,
    caught=("scenario",),
    quick=True,
)
def stable_with_heartbeats():
    with _beyond_commit("on_heartbeat"):
        yield
