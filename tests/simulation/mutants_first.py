"""Mutants of what becomes of a first view that may have been active: who replaces it, or founds another."""

import contextlib
from pathlib import Path

from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Accepted, Foreseen
from quorate.hachannel.model.messages import Found, Prepare, Promise, Record
from quorate.hachannel.model.view import NO_TAG, View, ViewNumber, Voter
from quorate.hachannel.replication.replica_state import ReplicaState
from quorate.hachannel.view_change import choice, election, installation
from quorate.hachannel.view_change.choice import Activation
from quorate.testing import simulate
from quorate.testing.channel.by_hand import Hand, founding, half_founded, slow_proposer
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.schedule import read

VOTERS = tuple(Voter(replica, replica + 1) for replica in range(5))


def _first(*founders, counter=1, k=3, again=False):
    """A first view of some of five replicas."""
    members = tuple(VOTERS[founder] for founder in founders)
    number = ViewNumber(counter, *members[0])
    return View(number, tuple(sorted(members)), members, k, 0, 3, "start-up", again=again)


def _promises(**said):
    """r0=(view, foreseen), ..."""
    return {
        VOTERS[int(name[1:])]: Promise(ViewNumber(9, 4, 5), view, False, NO_TAG, 0, False, foreseen)
        for name, (view, foreseen) in said.items()
    }


@contextlib.contextmanager
def _judging(*changes):
    """Rewrite `standing` where it is used."""
    with rewritten(choice, "activation", *changes), rewritten(election, "activation", *changes):
        yield


def _go_on(hand, seconds=10.0):
    for _ in range(round(10 * seconds)):
        hand.settle()
        hand.tick(0.1)


def two_founders_come_back_and_the_others_have_founded_a_cluster():
    """The proposer of the first view had noted that it may be active, and had told nobody."""
    schedule, seed = read(Path(__file__).with_name("two_clusters.json"))
    simulate(schedule, seed=seed)


@mutant(
    "That a first view may be active is taken for that it is.",
    scenario=two_founders_come_back_and_the_others_have_founded_a_cluster,
    caught=("I2",),
    quick=True,
)
def foreseen_is_active():
    def foresee(self):
        self.know_active()
        self.foreseen = True

    with patched(ReplicaState, "foresee", foresee):
        yield


def two_views_of_two_founders_each():
    """Three of four found a cluster. Two attempts were broken off, and each has two of its founders left."""
    hand = Hand(4, expected=3)
    half_founded(hand, (1, 2, 3), 2)
    half_founded(hand, (0, 2, 3), 3)
    hand.part((1, 2), (0, 3))
    _go_on(hand, 20.0)
    assert not [one for one, channel in hand.channels.items() if channel.state.serving], "two clusters"


@mutant(
    "As many as meet all who could found a cluster replace a first view: others replace another one.",
    scenario=two_views_of_two_founders_each,
    caught=("scenario",),
    quick=True,
)
def founders_met_and_not_each_other():
    with rewritten(
        election.Election,
        "_evaluate_boot",
        ("majority(state.order),", "len(state.order) - state.expected + 1,"),
    ):
        yield


def two_founders_go_on_and_the_third_one_has_founded_another_cluster():
    """Three of five found one. 0 and 3 began to, with 4, which then did with 1 and 2: they hear it late."""
    hand = Hand(5, expected=3)
    half_founded(hand, (0, 3, 4), 3)
    hand.part((0, 3, 4), (1, 2, 4))
    for one in (0, 3):
        hand.deliver(4, one, 1)
    while not all(hand.channels[one].state.serving for one in (1, 2, 4)):
        hand.settle(1, 2, 4)
        hand.tick(0.1, 1, 2, 4)
    # Then 4 stands still, and what it has said to 0 and 3 arrives slowly. 1 and 2 go on without it, and what
    # it granted is over, before it hears of a view of 0 and 3.
    for _ in range(100):
        hand.settle(0, 3)
        hand.settle(1, 2)
        if hand.waiting(0, 4, Record):
            hand.deliver(0, 4)
            hand.deliver(4, 0)
        for one in (0, 3):
            hand.act(one, lambda channel: channel.hears(hand.now, 4))
        hand.tick(0.1, 0, 1, 2, 3)
    assert hand.channels[1].members == (1, 2)
    assert not hand.channels[0].state.serving, "there are two clusters"
    assert hand.channels[0].state.promised.replica == 3, "they have not tried"


@mutant(
    "A majority of its founders replaces a first view that never was active: others have founded a cluster.",
    scenario=two_founders_go_on_and_the_third_one_has_founded_another_cluster,
    caught=("scenario",),
    quick=True,
)
def never_active_needs_no_founders():
    change = ("verdict is Activation.ACTIVE)", "verdict is not Activation.OPEN)")
    with rewritten(choice, "choose", change), rewritten(election, "choose", change):
        yield


def of_three_two_know_of_the_first_view():
    """One of them proposed it: it may be that the third one knows, and that the view is active."""
    first = _first(0, 1, 2)
    said = _promises(r1=(first, True), r3=(None, False))
    assert choice.activation(first, said) is Activation.OPEN, "as few as these may have been told nothing"
    said = _promises(r1=(first, True), r2=(first, True))
    assert choice.activation(first, said) is Activation.ACTIVE, "nobody can find that it never was"


@mutant(
    "A first view of which one member knows that it may be active is taken for active.",
    scenario=of_three_two_know_of_the_first_view,
    caught=("scenario",),
    quick=True,
)
def one_aware_is_enough():
    with _judging(("any(promise.active for", "any(promise.active or promise.foreseen for")):
        yield


@mutant(
    "A first view counts as active although one member fewer than needed knows of it.",
    scenario=of_three_two_know_of_the_first_view,
    caught=("scenario",),
    quick=True,
)
def aware_one_early():
    with _judging(("| {proposer}) >= view.k:", "| {proposer}) >= view.k - 1:")):
        yield


def who_founded_it_is_gone_for_good(mode="ALL"):
    """Of five three founded it; the two that are left know of it. The two others held nothing."""
    hand = founding(mode, replicas=5, expected=3)
    for member in (1, 2) if mode == "ALL" else (1,):
        hand.deliver(0, member)
    hand.silence(0)
    hand.part((1, 2, 3, 4))
    _go_on(hand)
    assert hand.channels[3].state.serving, "they wait for ever"
    assert not hand.views(1)[0].first_time


@mutant(
    "However many know of a first view, it counts as active only if somebody was told so.",
    scenario=who_founded_it_is_gone_for_good,
    caught=("scenario",),
    quick=True,
)
def aware_not_counted():
    with _judging(("if aware and len(aware", "if False and len(aware")):
        yield


@mutant(
    "Who founds a cluster and hears of one that may be active gives up, and tells nobody.",
    scenario=who_founded_it_is_gone_for_good,
    caught=("scenario",),
    quick=True,
)
def founded_one_not_gone_on_with():
    with rewritten(
        election.Election,
        "_evaluate_boot",
        ("attempt.boot = False", 'self.fail(now, "there is a cluster")'),
        ("self._evaluate(now, attempt)", "pass"),
    ):
        yield


def one_that_knows_proves_that_its_proposer_does():
    """Two commit an entry: what one of the two members that are left knows is enough."""
    who_founded_it_is_gone_for_good("MAJORITY")


@mutant(
    "The proposer of a first view does not count among those who know of it.",
    scenario=one_that_knows_proves_that_its_proposer_does,
    caught=("scenario",),
    quick=True,
)
def proposer_unaware():
    with _judging(("len(aware | {proposer})", "len(aware)")):
        yield


def the_disk_of_the_proposer_is_slow():
    """A crash would leave a member that knows of the view, and a proposer that does not."""
    hand = slow_proposer()
    assert not hand.waiting(0, 1, Found), "a member that knows proves nothing"
    hand.sync(0)
    assert hand.waiting(0, 1, Found)


@mutant(
    "The proposer of a first view tells the members that it may be active before its disk has that.",
    scenario=the_disk_of_the_proposer_is_slow,
    caught=("scenario",),
    quick=True,
)
def told_before_durable():
    original = installation.Installation._found

    def found(self, now, installing):
        original(self, now, installing)
        self._tell(installing)

    with patched(installation.Installation, "_found", found):
        yield


def a_member_that_knew_of_the_first_view_starts_again():
    """It has said so, and its word counts for as long as it has its disk."""
    first = _first(0, 1, 2)
    remembered = Remembered()
    for record in (Accepted(first), Foreseen(first.number)):
        remembered.apply(record)
    assert DurableLog(remembered).recovered().foreseen, "it would help to found another cluster"
    remembered.apply(Accepted(_first(1, 0, 2, counter=2)))
    assert not DurableLog(remembered).recovered().foreseen, "that was another view"


@mutant(
    "A member forgets with its process that a first view may be active.",
    scenario=a_member_that_knew_of_the_first_view_starts_again,
    caught=("scenario",),
    quick=True,
)
def foreseen_not_remembered():
    original = Remembered.apply

    def apply(self, record):
        if not isinstance(record, Foreseen):
            original(self, record)

    with patched(Remembered, "apply", apply):
        yield


@mutant(
    "What is known of a first view counts for the one after it.",
    scenario=a_member_that_knew_of_the_first_view_starts_again,
    caught=("scenario",),
    quick=True,
)
def foreseen_for_ever():
    original = Remembered.apply

    def apply(self, record):
        before = self.foreseen
        original(self, record)
        self.foreseen = self.foreseen or before

    with patched(Remembered, "apply", apply):
        yield


def the_proposer_is_past_its_first_view():
    """It has not made it active. Two others may yet take it for that, unless one of them is past it, too."""
    first = _first(0, 1, 2)
    alone = _promises(r0=(first, True), r3=(None, False), r4=(None, False))
    assert choice.activation(first, alone) is Activation.OPEN, "the two others go on in it"
    two = _promises(r0=(first, True), r1=(first, True), r3=(None, False))
    assert choice.activation(first, two) is Activation.NEVER, "nothing can come of it, and they wait for ever"


@mutant(
    "A first view that its proposer has not made active never was, whoever else knows of it.",
    scenario=the_proposer_is_past_its_first_view,
    caught=("scenario",),
    quick=True,
)
def proposer_alone_knows():
    with _judging(
        (" and len(view.config) - present({*same, *behind}, view.config) < view.quorum", ""),
    ):
        yield


@mutant(
    "That its proposer has not made a first view active counts for nothing.",
    scenario=the_proposer_is_past_its_first_view,
    caught=("scenario",),
    quick=True,
)
def proposer_not_asked():
    with _judging(("if proposer in same and", "if False and")):
        yield


def two_broken_attempts():
    """The later one was accepted: who proposed it found that the earlier one never was active."""
    first, later = _first(0, 1, 2, k=2), _first(1, 2, 3, counter=2)
    said = _promises(r2=(first, True), r3=(later, False))
    assert choice.activation(first, said) is Activation.NEVER, "they wait for ever"
    later = _first(1, 2, 3, counter=2, again=True)
    said = _promises(r1=(first, False), r3=(later, False))
    assert choice.activation(first, said) is Activation.OPEN, "who proposed the later one did not find that"


@mutant(
    "A first view that was accepted says nothing of those before.",
    scenario=two_broken_attempts,
    caught=("scenario",),
    quick=True,
)
def later_attempt_proves_nothing():
    with rewritten(choice, "_replaces", ("accepted.number > view.number", "False")):
        yield


@mutant(
    "A view that replaces a first one that may have been active proves that it never was.",
    scenario=two_broken_attempts,
    caught=("scenario",),
    quick=True,
)
def unsure_proves_never():
    with rewritten(choice, "_replaces", (" and not accepted.again", "")):
        yield


def two_of_five_are_gone_with_what_they_know():
    """One that may have announced the first view, and one that may know of it."""
    hand = founding(replicas=5)
    for member in (2, 3, 4):
        hand.deliver(0, member)
    hand.silence(0)
    hand.silence(1)
    _go_on(hand)
    assert hand.channels[2].state.serving
    assert not hand.views(2)[0].first_time, "it may have been said before"


@mutant(
    "A view that replaces a first one that may have been announced says first_time, too.",
    scenario=two_of_five_are_gone_with_what_they_know,
    caught=("scenario",),
    quick=True,
)
def first_time_again():
    with rewritten(
        installation.Installation, "on_noted", ("first_time=not view.again and", "first_time=True and")
    ):
        yield


@mutant(
    "That a first view may have been active is forgotten by the view that replaces it.",
    scenario=two_of_five_are_gone_with_what_they_know,
    caught=("scenario",),
    quick=True,
)
def again_forgotten():
    with rewritten(
        election.Election,
        "_install",
        ("first and (source.again or choice.activation is Activation.OPEN)", "False"),
    ):
        yield


def one_accepted_what_replaces_a_first_view_that_may_have_been_active():
    """One of three of five that hold nothing, since it said so. What it accepted never was active."""
    hand = Hand(5, expected=3)
    hand.part((2, 3, 4))
    while not hand.waiting(2, 4, Prepare):
        hand.settle(2, 3)
        hand.deliver(4, 2)
        hand.tick(0.05, 2, 3, 4)
    hand.channels[4].state.accept(_first(0, 1, 4, counter=0, again=True))
    _go_on(hand)
    assert not any(channel.state.serving for channel in hand.channels.values()), "there are two clusters"


@mutant(
    "Who accepted what replaces a first view that may have been active founds another cluster.",
    scenario=one_accepted_what_replaces_a_first_view_that_may_have_been_active,
    caught=("scenario",),
    quick=True,
)
def founded_beside_an_unsure_one():
    with rewritten(election.Election, "_evaluate_boot", ("view.again or not view.boot", "not view.boot")):
        yield
