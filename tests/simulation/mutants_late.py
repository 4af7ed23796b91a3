"""Mutants of what comes late: to a learner that is elsewhere, or to a voter that has promised or granted."""

from quorate.hachannel import Channel, InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import CatchUp, Chunk, ChunkAck, Heartbeat, Join, Recorded
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.transfer import donor, learner
from quorate.hachannel.view_change import election, installation
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.script import Script

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))
OLD, NEW = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)


def a_state_older_than_what_a_learner_has():
    """A transfer took so long that the learner has come further meanwhile."""
    remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True, 5, Tag(OLD, 5), 5)
    channel = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered))
    channel.start(0.0)
    channel.connected(0.0, 0, 1)
    channel.receive(0.0, 0, Heartbeat(NEW, NEW, True, True, True, True, False, 0, 9, 0, 0, 0))
    channel.receive(0.0, 0, Chunk(1 << 40, 0, b"state", False, Tag(OLD, 3)))
    assert not any(isinstance(event, InstallPart) for event in channel.take().events), "it would go back"
    assert channel.applied == 5
    channel.tick(1.0)
    joins = [message for _, message in channel.take().messages if isinstance(message, Join)]
    assert joins[-1].refused == 0, "it has what was to be sent, and asks for another state"


@mutant(
    "A learner installs a state older than the one it has.",
    scenario=a_state_older_than_what_a_learner_has,
    caught=("scenario",),
    quick=True,
)
def older_state_installed():
    with rewritten(learner.Learner, "_give", ("at is not None and self._has(at)", "False")):
        yield


def a_part_of_an_earlier_transfer():
    """It comes late, from who was master before."""
    hand = Hand()
    hand.form()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.connect(1, 2)
    hand.give(0, 2, Chunk(9, 0, b"new", False, None))
    hand.give(1, 2, Chunk(5, 0, b"old", False, None))
    parts = [event.data for event in hand.events[2] if isinstance(event, InstallPart)]
    assert parts == [b"new"], "the earlier transfer takes the place of the present one"


@mutant(
    "A learner goes back to an earlier transfer.",
    scenario=a_part_of_an_earlier_transfer,
    caught=("scenario",),
    quick=True,
)
def earlier_transfer_taken():
    with rewritten(learner.Learner, "_follows", ("token > learning.token", "token != learning.token")):
        yield


def a_part_of_a_transfer_that_was_refused():
    """What the learner had of it is gone."""
    hand = Hand()
    hand.form()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.give(0, 2, Chunk(9, 0, b"useless", False, None))
    hand.act(2, lambda channel: channel.part_refused(hand.now, 9, "test"))
    hand.give(0, 2, Chunk(9, 0, b"useless", False, None))
    assert len([event for event in hand.events[2] if isinstance(event, InstallPart)]) == 1
    hand.tick(2.0, 2)
    join = hand.waiting(2, 0, Join)[-1]
    assert (join.refused, join.fresh, join.marker) == (9, True, b"")


@mutant(
    "A learner takes parts of a transfer that it has refused.",
    scenario=a_part_of_a_transfer_that_was_refused,
    caught=("scenario",),
    quick=True,
)
def refused_transfer_taken():
    with rewritten(learner.Learner, "_follows", (" or token <= self._refused", "")):
        yield


@mutant(
    "A learner that has refused a transfer asks for what it lacks, not for everything.",
    scenario=a_part_of_a_transfer_that_was_refused,
    caught=("scenario",),
    quick=True,
)
def refused_and_not_fresh():
    with rewritten(learner.Learner, "_give_up", ("self.fresh = True", "pass")):
        yield


def a_learner_wants_the_state():
    """Its state was found to differ from the others', or is lost. The log has all that it lacks."""
    hand = Hand()
    master = hand.form()
    hand.silence(2)
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    state = hand.channels[2].state
    hand.give(2, 0, Join("c", False, state.log.tag(0), 0, 0, b"", True, 0, state.birth))
    assert master.role == "master"
    assert not hand.waiting(0, 2, CatchUp), "entries do not mend its state"
    asked = [event.have for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked == [0], "it is not given all of the state"


@mutant(
    "A learner that wants the whole state gets entries if the log has them.",
    scenario=a_learner_wants_the_state,
    caught=("scenario",),
    quick=True,
)
def whole_state_not_given():
    with rewritten(donor.Donor, "_open", ("if not message.fresh and log.base.at", "if log.base.at")):
        yield


def a_learner_is_removed():
    """It is about to be a voter when an operator removes it."""
    script = Script(4, settings=Settings(keep=0, window=16), snapshot_s=1.0, chunk=1)
    script.form()
    for _ in range(60):
        script.submit(script.master(), 4)
        script.run(0.02)
    script.run(0.2)
    script.hosts[3].crash()
    master = script.whole(but=[3])
    script.hosts[3].start()
    channel = master.channel
    script.until(
        lambda: channel.phases.giving == "state" and len(channel.view.config) == 3 and channel.can_submit
    )
    assert master.state.pending is None
    master.channel.remove(script.world.now, 3)
    master.settle()
    script.until(lambda: len(master.channel.view.seats) == 3 and master.channel.can_submit)
    script.run(3.0)
    assert master.channel.phases.giving == "nobody", "it is let in again"


@mutant(
    "A transfer to a replica that is removed goes on.",
    scenario=a_learner_is_removed,
    caught=("scenario", "I12"),
    quick=True,
)
def removed_learner_kept():
    with rewritten(donor.Donor, "on_view", ("elif not view.lists(session.voter.replica):", "elif False:")):
        yield


def recorded_in_an_earlier_attempt():
    """A view of the master alone needs another voter that knows it. One knows that of the first attempt."""
    hand = Hand()
    view = hand.form().view
    assert view is not None
    for attempt in (1, 2):
        for other in (1, 2):
            hand.lose(0, other)
            hand.lose(other, 0)
        hand.act(
            0,
            lambda channel, attempt=attempt: channel._election.propose(
                hand.now, f"{attempt}", view.members[1:]
            ),
        )
        number = hand.channels[0].state.promised
        for other in (1, 2):
            hand.deliver(0, other, 1)
            hand.deliver(other, 0)
            hand.lose(0, other)
        if attempt == 1:
            first = number
    assert hand.channels[0].installing is not None
    assert hand.channels[0].installing.view.replicas() == (0,)
    hand.give(1, 0, Recorded(first))
    assert hand.channels[0].role != "master", "the view is active, and nobody knows it"


@mutant(
    "A voter that recorded an earlier attempt counts as if it had recorded this one.",
    scenario=recorded_in_an_earlier_attempt,
    caught=("scenario",),
    quick=True,
)
def earlier_record_counted():
    with rewritten(
        installation.Installation, "on_recorded", (" and message.number == installing.view.number", "")
    ):
        yield


@mutant("A member makes a view active although it has promised a later one.", quick=True)
def activated_against_a_promise():
    with rewritten(installation.Installation, "activate", ("or state.promised != view.number\n", "\n")):
        yield


@mutant("A voter proposes a view of its own although it has granted.", caught=("I11",), quick=True)
def proposed_within_its_grant():
    with (
        rewritten(election.Election, "propose", ("if self._lease.blocks(now, state.me):", "if False:")),
        rewritten(
            view_triggers.ViewTriggers, "_consider_master", ("start = max(start, self._lease.until)", "pass")
        ),
    ):
        yield


@mutant("A proposer that promises a higher view goes on with its own.", caught=("I3",), quick=True)
def proposal_survives_a_promise():
    with rewritten(election.Election, "on_prepare", ("self.abandon(now)", "pass")):
        yield


@mutant("The log that a view starts from is not taken for committed.", quick=True)
def start_not_committed():
    with rewritten(installation.Installation, "_begin", ("state.commit_to(view.start)", "pass")):
        yield


def another_process_of_a_learner_comes():
    """It is back before anybody noticed, and has nothing of what the one before had."""
    for taken, marker in ((1, b""), (0, b"some")):
        hand = Hand()
        hand.form()
        hand.silence(2)
        hand.settle()
        hand.start(2, 3, 9)
        hand.connect(0, 2)
        for way in ((0, 2), (2, 0)):
            hand.lose(*way)
        birth = hand.channels[2].state.birth
        hand.give(2, 0, Join("c", False, NO_TAG, 0, 0, marker, True, 0, birth))
        (asked,) = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
        assert asked.marker == marker
        hand.channels[0].part_ready(hand.now, asked.token, b"part")
        hand.flush(0)
        hand.give(2, 0, ChunkAck(asked.token, taken, False))
        hand.give(2, 0, Join("c", False, NO_TAG, 0, 0, b"", True, 0, birth))
        again = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
        assert [event.marker for event in again] == [marker, b""], "it never gets what it lacks"


@mutant(
    "A donor goes on with a learner that has lost the pieces it had taken.",
    scenario=another_process_of_a_learner_comes,
    caught=("scenario",),
    quick=True,
)
def lost_pieces_not_noticed():
    with rewritten(
        donor.Donor, "_lost", ("chunks < (session.kept if same else session.outbox.acked)", "False")
    ):
        yield


@mutant(
    "A donor goes on with a learner that has lost what it had of earlier transfers.",
    scenario=another_process_of_a_learner_comes,
    caught=("scenario",),
    quick=True,
)
def lost_marker_not_noticed():
    with rewritten(donor.Donor, "_lost", ("or (chunks == 0 and message.marker != session.marker)", "")):
        yield
