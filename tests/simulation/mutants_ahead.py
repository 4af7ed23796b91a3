"""Mutants of what goes beside a state: which entries, how many, and when they count."""

from msgspec.structs import replace

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.model.messages import Ahead, CatchUp, Join
from quorate.hachannel.transfer import donor, learner, log_tail
from quorate.testing.channel.by_hand import Hand, returning
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script


def _giving(**settings) -> Hand:
    """The last of three replicas is back; the state is on its way in one piece, which is not installed."""
    hand = returning(3, Settings(keep=0, window=16, **settings))
    *_, event = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    applied = hand.channels[0].applied
    hand.act(0, lambda channel: channel.snapshot_ready(hand.now, event.token, applied, [b"state"]))
    hand.settle()
    return hand


def _submit(hand: Hand) -> None:
    """Ten entries more, if there is room; they go to the learner, and are on their way."""
    for _ in range(10):
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
    hand.settle(0, 1)
    hand.tick(0.05, 0, 1)
    hand.settle(0, 1)


def _install(hand: Hand) -> None:
    *_, part = [event for event in hand.events[2] if isinstance(event, InstallPart)]
    hand.act(2, lambda channel: channel.part_installed(hand.now, part.token, b""))


def some_of_it_is_lost():
    """What the master has after that is what the learner does not have yet, and no more."""
    for lost in range(3):
        hand = _giving()
        for number in range(3):
            _submit(hand)
            if number == lost:
                assert any(isinstance(message, Ahead) for message in hand.lose(0, 2))
            hand.settle()
        for _ in range(100):
            hand.tick(0.05)
            hand.settle()
        assert hand.channels[2].ahead == 30
        _install(hand)
        for _ in range(3):
            hand.tick(0.0, 2)
        assert hand.channels[2].applied == hand.channels[0].applied


def a_large_state_takes_long_to_install():
    """Under load, the learner holds as much as it may, and the rest is in the log of the master."""
    hand = _giving(max_log=160)
    for _ in range(15):
        _submit(hand)
        hand.settle()
    held = hand.channels[2].ahead
    for _ in range(20):
        _submit(hand)
        hand.settle()
    assert held == 150
    assert 160 <= hand.channels[2].ahead <= 160 + 10 * hand.settings.transfer_window
    assert not hand.channels[0].can_submit
    _install(hand)
    for _ in range(60):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[0].members == (0, 1, 2)


def all_of_it_is_there():
    """Once it is installed, the state and what came beside it are enough, though the log was trimmed."""
    hand = _giving(part_bytes=400)
    for _ in range(60):
        _submit(hand)
        hand.settle()
    assert hand.channels[2].ahead == 600
    assert hand.channels[0].state.log.base.at > 600
    _install(hand)
    again = 0
    for _ in range(100):
        for here, there in list(hand.wires):
            again += sum(len(message.entries) for message in hand.waiting(here, there, CatchUp))
            hand.deliver(here, there)
        hand.tick(0.01)
    assert again < 10, "entries come twice"
    assert hand.channels[0].members == (0, 1, 2)
    assert sum("joins: sends" in note for note in hand.notes[0]) == 1


def the_disk_of_a_learner_hangs():
    """That of one that has the state, and much beside it."""
    settings = Settings(keep=0, window=16, part_bytes=200)
    script = Script(3, settings=settings, chunk=1, parts=False, disk=True)
    script.form()
    learner = script.hosts[2]
    learner.crash()
    learner.lose_disk()
    script.whole(but=[2])
    for _ in range(30):
        script.submit(script.master(), 4)
        script.run(0.05)
    parts = []
    learner._install = parts.append
    learner.start()
    for _ in range(30):
        script.submit(script.master(), 4)
        script.run(0.05)
    held = learner.channel.ahead
    assert held > 40
    del learner._install
    learner._sync_later = lambda: None
    for part in parts:
        learner._act(lambda part=part: learner._install(part))
    script.run(0.3)
    assert learner.channel.phases.learning == "state"
    assert 0 < held - learner.channel.ahead < 20, "its log has what its disk does not take"
    del learner._sync_later
    learner._sync_later()
    script.everywhere(script.submit(script.whole(), 3))


def _break(hand: Hand) -> None:
    """The connection between the donor and the learner breaks, and they have another one."""
    for here, there in ((0, 2), (2, 0)):
        hand.act(here, lambda channel, there=there: channel.disconnected(hand.now, there))
    hand.connect(0, 2)


def the_last_word_is_lost():
    """That of a learner that has the state, and what came beside it, in its log."""
    for lost in range(4):
        hand = _giving(part_bytes=400)
        for _ in range(3):
            _submit(hand)
            hand.settle()
        _install(hand)
        for count in range(200):
            hand.tick(0.05)
            if count == lost:
                _break(hand)
            hand.settle()
        assert hand.channels[0].members == (0, 1, 2)
        assert sum("joins: sends" in note for note in hand.notes[0]) == 1


def a_learner_whose_application_hangs():
    """It holds what comes beside the state, for as long as it is given more; another one waits."""
    hand = Hand(5, Settings(keep=0, window=16, stall_s=1.0))
    master = hand.form()
    hand.isolate(3, 4)
    for _ in range(30):
        for _ in range(10):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1, 2)
        hand.tick(0.05, 0, 1, 2)
    for late in (3, 4):
        for other in (0, 1, 2):
            hand.connect(other, late)
    served = []
    for _ in range(400):
        hand.tick(0.05)
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
        hand.settle()
        for event in hand.events[0]:
            if isinstance(event, ProvideSnapshot) and event.token not in served:
                served.append(event.token)
                hand.act(
                    0,
                    lambda channel, event=event: channel.snapshot_ready(
                        hand.now, event.token, channel.applied, [b"state"]
                    ),
                )
        if len(served) == 2:
            break
    assert len(served) == 2, "it keeps its place"
    assert master.phases.giving == "state"


def a_learner_with_a_slow_disk():
    """Each write takes as long as a heartbeat, and entries go beside the state one by one."""
    hand = _giving()
    learner = hand.channels[2]
    for _ in range(200):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1)
        hand.tick(0.05, 0, 1)
        hand.settle()
    assert learner.ahead == 200
    _install(hand)
    hand.tick(0.0, 2)
    assert learner.ahead == 0, "they are taken one by one"


def entries_beside_a_state_gather():
    """However fast the learner answers, they go as often as the settings say; not with heartbeats only."""
    hand = _giving(transfer_pause_s=0.02)
    messages = entries = 0
    for _ in range(1000):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1)
        hand.deliver(2, 0)
        hand.now += 0.001
        if hand.channels[0].deadline <= hand.now:
            hand.tick(0.0, 0)
        sent = hand.waiting(0, 2, Ahead)
        messages, entries = messages + len(sent), entries + sum(len(message.entries) for message in sent)
        hand.deliver(0, 2)
    assert entries > 950
    assert 40 < messages < 60


def another_process_of_the_same_voter():
    """It is back before anybody noticed, and has nothing of what went beside the state."""
    hand = _giving()
    for _ in range(10):
        _submit(hand)
        hand.settle()
    voter = hand.channels[2].state.me
    join = [message for message in hand.lose(2, 0) if isinstance(message, Join)]
    while not join:
        hand.tick(0.05, 2)
        join = [message for message in hand.lose(2, 0) if isinstance(message, Join)]
    asked = sum(isinstance(event, ProvideSnapshot) for event in hand.events[0])
    assert hand.channels[0]._donor.session.voter == voter
    hand.give(2, 0, replace(join[0], token=0, chunks=0, refused=0))
    assert sum(isinstance(event, ProvideSnapshot) for event in hand.events[0]) == asked + 1


@mutant("Entries go beside the state that are not committed.", quick=True)
def uncommitted_ahead():
    with rewritten(donor.Donor, "_push_ahead", ("state.commit", "state.log.last.at")):
        yield


@mutant("The log is not kept for what is on its way beside the state.")
def ahead_not_kept():
    with rewritten(
        donor.Donor, "on_chunk_ack", ("session.hold = lead.acked", "session.hold = self._state.applied")
    ):
        yield


@mutant("The log is kept for all that goes beside the state.", scenario=a_large_state_takes_long_to_install)
def ahead_kept():
    with rewritten(donor.Donor, "on_chunk_ack", ("session.hold = lead.acked", "pass")):
        yield


@mutant(
    "The learner says that it has what came beside the state before that is in its log.",
    scenario=all_of_it_is_there,
    quick=True,
)
def ahead_said_early():
    with patched(learner.Learning, "ready", property(lambda self: self.installed)):
        yield


@mutant(
    "The master goes on with the entries after the state, whatever went beside it.",
    scenario=all_of_it_is_there,
    quick=True,
)
def ahead_forgotten():
    with rewritten(
        donor.Donor,
        "on_chunk_ack",
        ("self._begin_entries(now, session, lead.acked)", "self._begin_entries(now, session, lead._start)"),
    ):
        yield


@mutant(
    "A learner takes of what goes beside the state whatever comes.",
    scenario=a_large_state_takes_long_to_install,
    quick=True,
)
def ahead_unbounded():
    with patched(learner, "ahead_fill", lambda *_: 0.0):
        yield


@mutant("A donor sends one message more beside the state than the window.", caught=("I18",))
def ahead_one_more():
    with rewritten(log_tail.Lead, "wants", ("< self._window", "<= self._window")):
        yield


@mutant("What went beside the state and was lost does not go again.", scenario=some_of_it_is_lost, quick=True)
def ahead_once():
    with patched(log_tail.Lead, "again", lambda *_: None):
        yield


@mutant("What a learner holds may begin anywhere.", scenario=some_of_it_is_lost, quick=True)
def ahead_from_anywhere():
    with rewritten(log_tail.Held, "add", ("at != message.start or ", "")):
        yield


@mutant("What a learner holds may have gaps.", scenario=some_of_it_is_lost, quick=True)
def ahead_with_gaps():
    with rewritten(
        log_tail.Held,
        "add",
        ("not 0 <= known < len(entries)", "not known < len(entries)"),
        ("entries[known:]", "entries[max(known, 0):]"),
        ("self.last + place for", "entries[0].index + place - 1 for"),
        ("self.last += len(entries)", "self.last = entries[-1].index"),
    ):
        yield


@mutant(
    "A learner puts what it holds into its log, whether its disk has what was put there before or not.",
    scenario=the_disk_of_a_learner_hangs,
)
def bites_without_end():
    with rewritten(learner.Learner, "_may_bite", ("state.is_durable(learning.bite)", "True")):
        yield


@mutant(
    "The last piece of a state is acknowledged before all is in the log: the word that says that comes once.",
    scenario=the_last_word_is_lost,
    quick=True,
)
def last_word_once():
    with rewritten(learner.Learner, "_answer", ("inbox.taken - bites", "inbox.taken")):
        yield


@mutant(
    "What comes beside a state counts as progress of its learner.",
    scenario=a_learner_whose_application_hangs,
    caught=("scenario",),
    quick=True,
)
def ahead_is_progress():
    with rewritten(
        donor.Donor,
        "on_chunk_ack",
        ("session.hold = lead.acked", "session.came = now; session.hold = lead.acked"),
    ):
        yield


@mutant(
    "A learner takes what it holds a message at a time, however small.",
    scenario=a_learner_with_a_slow_disk,
    caught=("scenario",),
    quick=True,
)
def small_bites():
    with rewritten(learner.Learner, "_bite", ("state.settings.part_bytes", "0")):
        yield


@mutant(
    "Entries go beside a state as fast as the learner answers.",
    scenario=entries_beside_a_state_gather,
    caught=("scenario",),
    quick=True,
)
def ahead_at_once():
    with rewritten(donor.Donor, "on_chunk_ack", (" and now >= session.ahead_after", "")):
        yield


@mutant(
    "Entries go beside a state with heartbeats only.",
    scenario=entries_beside_a_state_gather,
    caught=("scenario",),
    quick=True,
)
def ahead_with_heartbeats():
    with rewritten(donor.Donor, "wake", ("session.lead is not None", "False")):
        yield


@mutant(
    "A learner that lost what it held beside a state goes on with the same transfer.",
    scenario=another_process_of_the_same_voter,
    caught=("scenario",),
    quick=True,
)
def lost_ahead_not_noticed():
    with rewritten(donor.Donor, "_lost", ("len(session.lead) > 0", "False")):
        yield
