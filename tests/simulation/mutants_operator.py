"""Mutants of what an operator may ask for, and of who is told that it belongs to the cluster."""

from quorate.hachannel import ChangeRefused, Settings
from quorate.hachannel.membership import membership, witness_admission
from quorate.hachannel.model.messages import Seats, Unlisted
from quorate.hachannel.model.view import Seat, ViewNumber
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.replication import replica_state
from quorate.hachannel.view_change import election
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.random_schedules import operated
from quorate.testing.schedules.script import Script


def _refused(script, request):
    """Whether the master refuses a request."""
    master = script.master()
    try:
        request(master.channel, script.world.now)
    except ChangeRefused:
        return True
    return False


def the_only_copy_is_to_be_removed():
    """A witness and a seat that nobody has taken are left."""
    script = Script(2, witnesses=1)
    master = script.form()
    master.channel.admit(script.world.now, 5)
    master.settle()
    script.until(lambda: len(master.channel.view.seats) == 3 and master.channel.can_submit)
    assert _refused(script, lambda channel, now: channel.remove(now, 0)), "nobody has the state any more"


@mutant(
    "The only replica that has the state may be removed.",
    scenario=the_only_copy_is_to_be_removed,
    caught=("scenario",),
    quick=True,
)
def last_copy_removed():
    with rewritten(membership.Membership, "remove", ("if not rest:", "if False:")):
        yield


def too_few_copies_would_be_left():
    """A master with fewer takes no entry, not even the one that adds a replica."""
    script = Script(3, settings=Settings(min_copies=3))
    script.form()
    assert _refused(script, lambda channel, now: channel.remove(now, 2)), "it can never be undone"


@mutant(
    "A replica may be removed although too few copies are left.",
    scenario=too_few_copies_would_be_left,
    caught=("scenario",),
    quick=True,
)
def copies_removed():
    with rewritten(membership.Membership, "remove", ("if not witness and copies < least:", "if False:")):
        yield


def the_rest_cannot_be_reached():
    """Of the three that would be left two are dead: they are a majority."""
    script = Script(4, settings=Settings())
    script.form()
    script.hosts[3].crash()
    script.whole(but=[3])
    assert not _refused(script, lambda channel, now: channel.remove(now, 3))
    script = Script(3)
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    assert _refused(script, lambda channel, now: channel.remove(now, 1)), "one of two cannot go on"


@mutant(
    "A replica may be removed without which too few could decide.",
    scenario=the_rest_cannot_be_reached,
    caught=("scenario",),
    quick=True,
)
def decisive_voter_removed():
    with rewritten(membership.Membership, "remove", ("if not feasible(config, there):", "if False:")):
        yield


@mutant(
    "Half of a configuration to come is enough to take it up.",
    scenario=the_rest_cannot_be_reached,
    caught=("scenario",),
    quick=True,
)
def feasible_at_half():
    with (
        rewritten(membership, "feasible", ("majority(config)", "len(config) // 2")),
        rewritten(election, "feasible", ("majority(config)", "len(config) // 2")),
    ):
        yield


def a_member_is_said_to_be_elsewhere():
    """It runs where it is."""
    script = Script(3)
    script.form()
    assert _refused(script, lambda channel, now: channel.admit(now, 1, b"elsewhere"))
    assert _refused(script, lambda channel, now: channel.admit(now, 0, b"elsewhere"))
    assert _refused(script, lambda channel, now: channel.admit(now, 1, witness=True)), "it holds the log"


@mutant(
    "A replica that takes part may be said to be elsewhere.",
    scenario=a_member_is_said_to_be_elsewhere,
    caught=("scenario",),
    quick=True,
)
def running_replica_moved():
    with rewritten(membership.Membership, "admit", ("if living and", "if False and")):
        yield


@mutant(
    "A replica may become a witness without being removed first.",
    scenario=a_member_is_said_to_be_elsewhere,
    caught=("scenario",),
    quick=True,
)
def member_made_witness():
    with rewritten(
        membership.Membership,
        "admit",
        ("and seat.witness != witness", "and False"),
        ("if living and", "if not witness and living and"),
    ):
        yield


def a_replica_moves():
    """It is down, and will listen elsewhere."""
    script = Script(3)
    master = script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    master = script.master()
    master.channel.admit(script.world.now, 2, b"elsewhere")
    master.settle()
    script.until(lambda: Seat(2, b"elsewhere") in master.channel.view.seats)
    assert [seat.replica for seat in master.channel.view.seats] == [0, 1, 2]


@mutant(
    "A replica that moves keeps its old seat beside the new one.",
    scenario=a_replica_moves,
    caught=("scenario", "I2"),
    quick=True,
)
def seat_kept_by_who_moves():
    with rewritten(
        election,
        "seated",
        (
            "if seat.replica != change.replica",
            "if isinstance(change, Admit) or seat.replica != change.replica",
        ),
    ):
        yield


def an_older_master_does_not_know_it():
    """It was removed and added again; who says that it is none of the cluster's knows only of the first."""
    hand = Hand()
    hand.form()
    hand.channels[2].state.supersede(ViewNumber(7, 0, 1))
    hand.give(1, 2, Unlisted(ViewNumber(5, 1, 2)))
    assert hand.channels[2].role == "joining", "it stops, and belongs to the cluster"
    hand.give(0, 2, Unlisted(ViewNumber(7, 0, 1)))
    assert hand.channels[2].role == "stopped"


@mutant(
    "A replica believes the master of an older view that it does not belong to the cluster.",
    scenario=an_older_master_does_not_know_it,
    caught=("scenario",),
    quick=True,
)
def older_unlisted_believed():
    with rewritten(
        membership.Membership, "on_unlisted", (" or message.view < max(state.newer, state.seats_of)", "")
    ):
        yield


@mutant(
    "A replica that was removed never stops by itself.",
    scenario=an_older_master_does_not_know_it,
    caught=("scenario",),
    quick=True,
)
def removed_goes_on():
    with (
        rewritten(membership.Membership, "on_unlisted", ("if self._took_part:", "if False:")),
        rewritten(membership.Membership, "follow_up", ("elif (", "elif False and (")),
    ):
        yield


def who_belongs_to_the_cluster_changes_twice():
    """A member of the older view says so later."""
    hand = Hand()
    hand.form()
    channel = hand.channels[2]
    channel.state.supersede(ViewNumber(7, 0, 1))
    four = tuple(Seat(replica) for replica in range(4))
    hand.give(0, 2, Seats(ViewNumber(7, 0, 1), four))
    hand.give(1, 2, Seats(ViewNumber(5, 1, 2), four[:3]))
    assert [seat.replica for seat in channel.seats] == [0, 1, 2, 3], "it forgets one"


@mutant(
    "A replica outside believes what was said last of who belongs to the cluster, not what is newest.",
    scenario=who_belongs_to_the_cluster_changes_twice,
    caught=("scenario",),
    quick=True,
)
def older_seats_believed():
    with (
        rewritten(membership.Membership, "on_seats", ("and message.view > state.seats_of", "")),
        rewritten(replica_state.ReplicaState, "sit", (" or number < self.seats_of", "")),
    ):
        yield


def a_voter_leaves_with_a_view_that_is_not_active():
    """Until it is active its vote may be needed; afterwards nobody tries to reach it."""
    hand = Hand()
    hand.form()
    hand.act(0, lambda channel: channel.remove(hand.now, 2))
    seen = []
    for _ in range(100):
        channel = hand.channels[1]
        ways = [way for way in hand.wires if hand.wires[way]]
        if not channel.view.lists(2):
            seen.append((channel.state.known_active, 2 in channel.state.others))
        if not ways:
            break
        hand.deliver(*ways[0], 1)
    assert (False, True) in seen, "it cannot be asked any more"
    assert seen[-1] == (True, False), "it is called for ever"


@mutant(
    "Who leaves the cluster is not to be reached any more before the view without it is active.",
    scenario=a_voter_leaves_with_a_view_that_is_not_active,
    caught=("scenario",),
    quick=True,
)
def departing_not_reached():
    with rewritten(
        replica_state.ReplicaState, "sit", ("() if active else (*self._departing, *self.seats)", "()")
    ):
        yield


@mutant(
    "Who has left the cluster is called for ever.",
    scenario=a_voter_leaves_with_a_view_that_is_not_active,
    caught=("scenario",),
    quick=True,
)
def departed_called_for_ever():
    with rewritten(replica_state.ReplicaState, "_settle_seats", ("if self._departing:", "if False:")):
        yield


@mutant(
    "A change is taken on while another one is pending.",
    caught=("I2",),
    schedule=operated,
)
def change_while_pending():
    with rewritten(
        membership.Membership,
        "_check_free",
        ("if pending is not None or not self._election.idle:", "if not self._election.idle:"),
    ):
        yield


@mutant("A witness is added beside its dead life.", caught=("I2",), schedule=operated)
def witness_beside_its_dead_life():
    with rewritten(witness_admission.WitnessAdmission, "step", ("if old:", "if False:")):
        yield


@mutant("A witness is let in although another change is pending.", caught=("I2",), schedule=operated)
def witness_while_pending():
    with rewritten(
        witness_admission.WitnessAdmission,
        "step",
        ("if pending is not None and pending.view == view.number:", "if False:"),
    ):
        yield


@mutant(
    "A change that is committed waits for another reason to change the view.",
    caught=("L1",),
    schedule=operated,
    quick=True,
)
def change_waits():
    with rewritten(
        view_triggers.ViewTriggers, "_consider_members", ("if self.reconfiguring(view):", "if False:")
    ):
        yield


@mutant("A learner that does not vote is made a member.", caught=("I2",), schedule=operated, quick=True)
def learner_without_a_vote():
    with rewritten(election.Election, "_install", ("joiner in config and", "")):
        yield
