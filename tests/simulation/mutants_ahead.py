"""Mutants of what goes beside a state: which entries, how many, and when they count."""

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings, ahead, donor, learner
from quorate.hachannel.messages import Ahead, CatchUp
from quorate.testing.channel_hand import Hand, returning
from quorate.testing.channel_script import Script
from quorate.testing.mutation import mutant, patched, rewritten


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
    hand = _giving()
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
    script = Script(3, settings=Settings(keep=0, window=16), chunk=1, parts=False, disk=True)
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


@mutant("Entries go beside the state that are not committed.", quick=True)
def uncommitted_ahead():
    with rewritten(donor.Donor, "_push_ahead", ("state.commit", "state.log.last.at")):
        yield


@mutant("The log is not kept for what is on its way beside the state.")
def ahead_not_kept():
    with rewritten(donor.Donor, "on_chunk_ack", ("now, lead.acked\n", "now, self._state.applied\n")):
        yield


@mutant("The log is kept for all that goes beside the state.", scenario=a_large_state_takes_long_to_install)
def ahead_kept():
    with rewritten(
        donor.Donor, "on_chunk_ack", ("session.came, session.hold = now, lead.acked", "session.came = now")
    ):
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
    with rewritten(ahead.Lead, "due", ("< self._window", "<= self._window")):
        yield


@mutant("What went beside the state and was lost does not go again.", scenario=some_of_it_is_lost, quick=True)
def ahead_once():
    with patched(ahead.Lead, "again", lambda *_: None):
        yield


@mutant("What a learner holds may begin anywhere.", scenario=some_of_it_is_lost, quick=True)
def ahead_from_anywhere():
    with rewritten(ahead.Held, "add", ("at != message.start or ", "")):
        yield


@mutant("What a learner holds may have gaps.", scenario=some_of_it_is_lost, quick=True)
def ahead_with_gaps():
    with rewritten(
        ahead.Held,
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
