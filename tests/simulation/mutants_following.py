"""Mutants of how much a learner that follows may lack, and how long all wait for it."""

from collections import deque

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import CatchUp, CaughtUp
from quorate.hachannel.transfer import flow_control
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, rewritten

LOG = {"keep": 100, "window": 16, "max_log": 400}
TICK_S = 0.05


class Following:
    """Replica 2 is back, and gets entries from two others, four messages each time that it answers."""

    def __init__(self, size: int = 50, part_bytes: int = 32, **settings) -> None:
        self.size = size
        self.hand = Hand(settings=Settings(part_bytes=part_bytes, **settings))
        self.master = self.hand.form()
        self.hand.isolate(2)
        self.hand.connect(0, 2)
        self.submitted = 0

    def submits(self, count: int) -> int:
        """The master takes so many entries, or what it can; says how many."""
        before = self.submitted
        for _ in range(count):
            if self.master.can_submit:
                self.hand.act(0, lambda channel: channel.submit(self.hand.now, 0, bytes(self.size)))
                self.submitted += 1
            self.hand.settle(0, 1)
        return self.submitted - before

    def passes(self, *, takes: bool = True, answer=None) -> None:
        """Time passes; the learner takes what is on its way, but entries only if told so."""
        hand = self.hand
        hand.tick(TICK_S)
        hand.settle(0, 1)
        for message in hand.lose(0, 2):
            if takes or not isinstance(message, CatchUp):
                hand.give(0, 2, message)
        for message in hand.lose(2, 0):
            hand.give(2, 0, answer(message) if answer and isinstance(message, CaughtUp) else message)
        hand.settle(0, 1)

    @property
    def lacks(self) -> int:
        """How many entries the learner lacks."""
        return self.master.state.log.last.at - self.hand.channels[2].last

    def begins(self) -> None:
        """The learner follows, and lacks ninety entries."""
        self.submits(90)
        while self.master.phases.giving != "entries":
            self.passes(takes=False)


def a_learner_as_fast_as_its_master():
    """The master takes ever more, as a group under full load does. Only the log stops it, far behind."""
    for size, settings in ((50, LOG), (500, {"max_log_bytes": 120_000, "window_bytes": 8_000})):
        following = Following(size, **settings)
        following.begins()
        for _ in range(300):
            following.submits(40)
            following.passes()
            if following.master.members == (0, 1, 2):
                break
        assert following.master.members == (0, 1, 2), f"with {size} bytes each it is never taken in"


@mutant(
    "A learner that follows may lack as many entries as ever, however long it follows.",
    scenario=a_learner_as_fast_as_its_master,
    caught=("scenario",),
    quick=True,
)
def as_far_as_ever():
    with rewritten(flow_control.FlowControl, "far", ("count * closer > settings.max_log)", "False)")):
        yield


@mutant(
    "A learner that follows may lack as many bytes as ever, however long it follows.",
    scenario=a_learner_as_fast_as_its_master,
    caught=("scenario",),
    quick=True,
)
def as_far_in_bytes_as_ever():
    with rewritten(flow_control.FlowControl, "far", ("size > most_bytes and", "False and")):
        yield


def a_learner_that_cannot_be_taken_in():
    """It lacks next to nothing, and says for long that a grant binds it. Nobody waits for it."""
    following = Following(part_bytes=1000, **LOG)
    following.begins()

    def bound(said):
        return CaughtUp(said.token, said.index, said.commit, said.reset, 1.0)

    while following.lacks:
        following.passes(answer=bound)
    for _ in range(600):
        assert following.submits(20) == 20, "all wait for one that could be taken in"
        following.passes(answer=bound)
    assert following.master.members == (0, 1)


@mutant(
    "All wait for a learner that lacks no more than a view would give it.",
    scenario=a_learner_that_cannot_be_taken_in,
    caught=("scenario",),
    quick=True,
)
def nearer_than_near():
    with rewritten(flow_control.FlowControl, "far", ("count > most and ", "")):
        yield


def a_learner_that_hangs_while_all_wait():
    """They wait for `stall_s`, and no longer."""
    following = Following(stall_s=1.0, **LOG)
    following.begins()
    for _ in range(40):
        following.submits(4)
        following.passes()
    assert following.submits(120) < 120
    assert not following.master.can_submit
    assert len(following.master.state.log) < LOG["max_log"]
    for _ in range(30):
        following.passes(takes=False)
    assert following.master.can_submit, "they wait for ever"


@mutant(
    "All wait for ever for a learner that hangs while it lacks too much.",
    scenario=a_learner_that_hangs_while_all_wait,
    caught=("scenario",),
    quick=True,
)
def hanging_learner_awaited():
    with rewritten(flow_control.FlowControl, "overflows", ("not (waits and self.far(session))", "True")):
        yield


def a_learner_stays_far_behind_by_majority():
    """Nobody waits for it, and the log is not full: it goes on."""
    following = Following(mode="MAJORITY", **LOG)
    following.begins()
    for _ in range(200):
        following.submits(4)
        following.passes()
        assert following.master.phases.giving == "entries", "it begins anew"
    assert following.lacks > 64


@mutant(
    "In mode MAJORITY a learner that stays behind begins anew before the log is full.",
    scenario=a_learner_stays_far_behind_by_majority,
    caught=("scenario",),
    quick=True,
)
def behind_by_majority():
    with rewritten(
        flow_control.FlowControl, "overflows", ("(waits and self.far(session))", "self.far(session)")
    ):
        yield


def a_learner_that_answers_late():
    """Whoever asks it gets no answer within `view_change_s`, however near it is: it is not let in."""
    following = Following(part_bytes=4000, **(LOG | {"max_log": 4000}))
    following.begins()
    hand = following.hand
    late = deque()
    waited = 0
    for number in range(800):
        if following.submits(4) < 4:
            waited = number
        hand.tick(TICK_S)
        hand.settle(0, 1)
        hand.deliver(0, 2)
        for message in hand.lose(2, 0):
            if isinstance(message, CaughtUp):
                late.append((hand.now + 1.5, message))
            else:
                hand.give(2, 0, message)
        while late and late[0][0] <= hand.now:
            hand.give(2, 0, late.popleft()[1])
        hand.settle(0, 1)
    assert following.master.phases.giving == "entries"
    assert waited < 600, "all wait for one that is not let in"


@mutant(
    "All wait for a learner that does not answer in time.",
    scenario=a_learner_that_answers_late,
    caught=("scenario",),
    quick=True,
)
def late_learner_awaited():
    with rewritten(flow_control.FlowControl, "far", (" or silent", "")):
        yield


def a_learner_that_missed_a_view():
    """It was near enough once, and took so long that the view went on without it."""
    following = Following(**LOG)
    following.begins()
    following.master._donor._lending.missed[2] = 1
    for _ in range(40):
        following.submits(4)
        following.passes()
    assert following.submits(120) == 120, "all wait for it, and it will miss the next one, too"


@mutant(
    "All wait for a learner that has missed a view.",
    scenario=a_learner_that_missed_a_view,
    caught=("scenario",),
    quick=True,
)
def missing_learner_awaited():
    with rewritten(flow_control.FlowControl, "far", (" or self.missed.get(session.voter.replica)", "")):
        yield
