"""Mutants of a log that takes long: to be fetched by a proposer, to be taken by a member of its view."""

import attrs

from quorate.hachannel import Settings, View, ViewNumber, Voter
from quorate.hachannel.model.messages import Entry, Fetch, NewView, Prepare, Suffix, Yield
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.transfer import donor
from quorate.hachannel.view_change import attempts, election, installation
from quorate.testing import simulate
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.random_schedules import draw, operated

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))
ENTRIES = 8
SOON_S = 15.0
"""A cluster on narrow connections is whole again before that."""


def number(counter: int, replica: int) -> ViewNumber:
    return ViewNumber(counter, replica, replica + 1)


def _orphaned(replicas: int, holder: int, settings: Settings) -> Hand:
    """Only one slave has the last entries of a master that is gone."""
    hand = Hand(replicas, settings)
    hand.form()
    # The proposals of the founding do not count any more.
    hand.tick(0.01)
    hand.settle()
    for count in range(ENTRIES):
        hand.act(0, lambda channel, count=count: channel.submit(hand.now, 0, b"%d" % count))
    hand.deliver(0, holder)
    hand.silence(0)
    return hand


def _interrupt(hand: Hand, counter: int) -> None:
    """Replica 3 proposes while 1 fetches the log of 2, and finds that 1 is to lead."""
    hand.lose(1, 2)
    for replica in (1, 2):
        hand.give(3, replica, Prepare(number(counter, 3), "it takes too long"))
    assert hand.channels[1].phases.change == "idle"
    hand.give(3, 1, Yield(number(counter, 3), "it takes too long"))


def a_proposer_that_is_interrupted_by_every_part():
    """It would never have the whole log if it began from the start each time."""
    hand = _orphaned(4, 2, Settings(part_bytes=40))
    for pair in ((2, 1), (3, 1)):
        hand.deliver(*pair)
    asked: list[int] = []
    for counter in range(9, 9 + 2 * ENTRIES):
        for pair in ((1, 2), (1, 3), (2, 1), (3, 1)):
            hand.deliver(*pair)
        asked += [message.index for message in hand.waiting(1, 2, Fetch)]
        hand.deliver(1, 2)
        hand.deliver(2, 1)
        if hand.channels[1].phases.change == "fetching":
            _interrupt(hand, counter)
        else:
            hand.settle()
    payloads = [b"%d" % count for count in range(ENTRIES)]
    assert hand.payloads(1) == hand.payloads(2) == hand.payloads(3) == payloads, "no view follows"
    assert asked == sorted(set(asked)), "it asks for what it has"


@mutant(
    "A proposer that is interrupted while it fetches the log begins from the start.",
    scenario=a_proposer_that_is_interrupted_by_every_part,
    caught=("scenario",),
    quick=True,
)
def fetched_forgotten():
    with rewritten(attempts.Fetched, "resume", ("if (self.source", "if True or (self.source")):
        yield


def a_log_of_another_view():
    """A proposer is interrupted, and the next view has other entries than those that it has fetched."""
    hand = _orphaned(3, 2, Settings())
    for pair in ((2, 1), (1, 2), (2, 1)):
        hand.deliver(*pair)
    [fetch] = hand.waiting(1, 2, Fetch)
    old, new = number(1, 0), number(8, 1)
    hand.give(2, 1, Suffix(fetch.number, 0, (Entry(old, 1, 0, b"old"),)))
    hand.lose(1, 2)
    view = View(new, VOTERS, VOTERS[1:], 2, 0)
    for replica in (1, 2):
        hand.channels[replica].state.accept(view)
    entries = (Entry(new, 1, 0, b"new"), Entry(new, 2, 0, b"newer"))
    hand.channels[2].state.splice((), 0)
    hand.channels[2].state.splice(entries, 2)
    hand.give(2, 1, Prepare(number(9, 2), "test"))
    hand.give(2, 1, Yield(number(9, 2), "test"))
    hand.settle()
    assert hand.payloads(1) == hand.payloads(2) == [b"new", b"newer"]


@mutant(
    "A proposer takes what it has fetched of one view for the log of another.",
    scenario=a_log_of_another_view,
    caught=("scenario",),
    quick=True,
)
def fetched_of_another_view():
    with rewritten(attempts.Fetched, "resume", ("!= (choice.source.number, base)", "!= (self.source, base)")):
        yield


def a_log_that_comes_slowly():
    """A part takes longer than another replica waits for a view, and all take longer than twice that."""
    hand = _orphaned(3, 2, Settings(part_bytes=40, view_change_s=0.5))
    began = hand.now
    while not hand.payloads(1) and hand.now < began + 9.0:
        hand.deliver(1, 2)
        hand.deliver(2, 1)
        hand.tick(0.3, 1, 2)
    assert not [note for note in hand.notes[1] if "not installed" in note], "it gives up"
    assert len(hand.payloads(1)) == ENTRIES
    assert hand.now - began > 4 * 0.5


@mutant(
    "A proposer gives up fetching a log that comes, because it takes long.",
    scenario=a_log_that_comes_slowly,
    caught=("scenario",),
    quick=True,
)
def long_fetch_given_up():
    with rewritten(election.Election, "tick", ("- attempt.moved > 2", "- attempt.prepared.since > 2")):
        yield


@mutant(
    "Who sends the end of its log to a proposer proposes meanwhile.",
    scenario=a_log_that_comes_slowly,
    caught=("scenario",),
    quick=True,
)
def sender_of_log_proposes():
    with rewritten(election.Election, "on_fetch", ("self.since = max(self.since, state.now)", "pass")):
        yield


def a_member_that_takes_no_log():
    """Its connection is slow, and it lacks much: the others do not wait for ever, and let it join again."""
    for mode in ("ALL", "MAJORITY"):
        hand = _orphaned(3, 1, Settings(mode=mode, view_change_s=0.5))
        began = hand.now
        while hand.channels[1].role != "master" and hand.now < began + 9.0:
            hand.deliver(2, 1)
            for message in hand.lose(1, 2):
                if not isinstance(message, NewView):
                    hand.give(1, 2, message)
            hand.tick(0.05, 1, 2)
        assert hand.channels[1].view.members == VOTERS[1:2], "it is waited for"
        assert len(hand.payloads(1)) == ENTRIES
        for _ in range(20):
            hand.settle()
            hand.tick(0.1, 1, 2)
        assert hand.channels[1].view.members == VOTERS[1:3], "it is never let in again"
        assert len(hand.payloads(2)) == ENTRIES


@mutant(
    "A view waits for ever for a member that does not take its log in time.",
    scenario=a_member_that_takes_no_log,
    caught=("scenario",),
    quick=True,
)
def silent_member_awaited():
    with patched(election, "MAX_SILENT", 1_000_000):
        yield


@mutant(
    "Who once did not take the log of a view in time is left out of all later ones.",
    scenario=a_member_that_takes_no_log,
    caught=("scenario",),
    quick=True,
)
def silence_not_forgiven():
    with rewritten(election.Election, "tick", ("self._silent.clear()", "pass")):
        yield


def parts_that_come_slowly():
    """Each takes several times `retry_s`: what was asked for twice would come twice."""
    hand = _orphaned(3, 2, Settings(part_bytes=40))
    hand.lose(1, 2)
    free, carried = hand.now, 0
    while not hand.payloads(1) and hand.now < 130.0:
        hand.tick(0.05, 1, 2)
        while hand.wires[2, 1] and not (isinstance(hand.wires[2, 1][0], Suffix) and hand.now < free):
            if isinstance(hand.wires[2, 1][0], Suffix):
                free, carried = hand.now + 0.4, carried + 1
            hand.deliver(2, 1, 1)
        hand.deliver(1, 2)
    assert len(hand.payloads(1)) == ENTRIES
    assert carried < 2 * ENTRIES, f"{carried} parts for {ENTRIES}"


@mutant(
    "A proposer asks for the same part of a log again and again at the same pace.",
    scenario=parts_that_come_slowly,
    caught=("scenario",),
    quick=True,
)
def part_asked_for_at_one_pace():
    with rewritten(
        election.Election, "tick", ("min(2 * attempt.fetched.again_s", "min(attempt.fetched.again_s")
    ):
        yield


def a_log_that_is_long_on_its_way():
    """The proposer has all the time it needs, and does not send the log over and over."""
    hand = _orphaned(3, 1, Settings(view_change_s=8.0))
    sent = 0
    for _ in range(150):
        hand.deliver(2, 1)
        for message in hand.lose(1, 2):
            sent += isinstance(message, NewView)
            if not isinstance(message, NewView):
                hand.give(1, 2, message)
        hand.tick(0.05, 1, 2)
    assert hand.channels[1].phases.change == "installing"
    assert 2 < sent < 6, f"{sent} times in 7 s"


@mutant(
    "A proposer sends the whole log of a view again and again at the same pace.",
    scenario=a_log_that_is_long_on_its_way,
    caught=("scenario",),
    quick=True,
)
def log_sent_at_one_pace():
    with rewritten(installation.Installation, "drive", (" * 2**installing.again", "")):
        yield


def three_that_propose_in_turns():
    """On narrow connections no attempt has the time that it needs, unless all have more and more of it."""
    for seed in (384, 73):
        schedule = attrs.evolve(draw(seed, profile="narrow"), deaths="none")
        assert simulate(schedule, seed=seed).healed_s < SOON_S


@mutant(
    "All have the same patience with each view, so those who propose interrupt each other for ever.",
    scenario=three_that_propose_in_turns,
    caught=("scenario",),
)
def patience_stays():
    with patched(election, "MAX_DOUBLINGS", 0), patched(view_triggers, "GIVES_UP", 1):
        yield


def a_laggard_is_left_out():
    """The master goes on without a slave that is too far behind, and whose answer comes last."""
    hand = Hand(settings=Settings(mode="MAJORITY"))
    master = hand.form()
    hand.act(0, lambda channel: channel._election.propose(hand.now, "test", exclude=(VOTERS[2],)))
    for pair in ((0, 1), (1, 0), (0, 1), (1, 0)):
        hand.deliver(*pair)
    assert master.role == "master", "nothing is committed before it has answered"
    assert master.view.members == VOTERS[:2]


@mutant(
    "A master waits for the answer of a slave that it leaves out because it is too far behind.",
    scenario=a_laggard_is_left_out,
    caught=("scenario",),
    quick=True,
)
def laggard_awaited():
    with rewritten(election.Election, "_evaluate", ("voter not in attempt.exclude and self", "self")):
        yield


def a_learner_on_a_narrow_connection():
    """What it lacks takes longer than a view change may, and the others stand still meanwhile."""
    schedule = attrs.evolve(operated(draw(21, disk=True, profile="narrow")), deaths="none")
    assert simulate(schedule, seed=21).healed_s < SOON_S


@mutant(
    "A learner that could not take what it lacked in time is taken in with as much again.",
    scenario=a_learner_on_a_narrow_connection,
    caught=("scenario",),
)
def learner_as_far_behind_again():
    with rewritten(donor.Donor, "on_view", ("self._lending.missed.get(replica, 0) + 1", "0")):
        yield
