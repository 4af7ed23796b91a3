"""Mutants of the gate: when a slave may propose."""

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import Ack, Exit, Heartbeat
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.hachannel.protocol import decision_loop, heartbeats, view_triggers
from quorate.hachannel.replication import normal_case, peers
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script


@mutant("One EXIT opens the gate.", caught=("gate",), quick=True)
def one_exit_opens():
    def opened(self, view):
        return self.exit

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("One EXIT less than a majority opens the gate.", caught=("gate",))
def gate_one_short():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            if voter == self._state.me:
                exits += self.exit
            elif link is not None and not link.suspected:
                exits += link.exit or link.leaving
        return exits >= view.quorum - 1

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("Voters that are suspected count as if they had said EXIT.", caught=("gate",))
def silence_counts_as_exit():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            exits += self.exit if voter == self._state.me else link is None or link.suspected or link.exit
        return exits >= view.quorum

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("An EXIT counts for ever, also in later views.", caught=("gate",))
def old_exits_count():
    original = heartbeats.Heartbeats.on_heartbeat
    ever = set()

    def on_heartbeat(self, now, link, voter, message):
        if message.exit:
            ever.add((id(self._gate), voter))
        original(self, now, link, voter, message)

    def opened(self, view):
        exits = 0
        for voter in view.config:
            exits += self.exit if voter == self._state.me else (id(self), voter) in ever
        return exits >= view.quorum

    with (
        patched(heartbeats.Heartbeats, "on_heartbeat", on_heartbeat),
        patched(view_triggers.ViewTriggers, "_gate_open", opened),
    ):
        yield


@mutant(
    "An EXIT that was said of an older view counts in the next one.",
    caught=("gate",),
    seeds=0,
    explore="gate",
    budget={"tick": 0, "apart": 1},
)
def late_exit_counts():
    with patched(heartbeats.Heartbeats, "_of_before", lambda *_: False):
        yield


def the_next_master_is_lost_at_once():
    """All have left the master of before. One loses the new one before it hears that others follow it."""
    hand = Hand(5)
    hand.form()
    for one in (1, 2, 3, 4):
        hand.act(one, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    slave = hand.channels[2]
    while slave.members != (1, 2, 3, 4) or slave.role != "slave":
        hand.settle(1, 2, 3, 4)
        hand.tick(0.01, 1)
    for other in (1, 3, 4):
        hand.lose(other, 2)
    hand.act(2, lambda channel: channel.disconnected(hand.now, 1, ended=True))
    hand.tick(0.01, 2)
    assert not slave.proposing, "those whom it counts have left the master of an older view"


@mutant(
    "What was heard of a voter in an older view counts until it says something else.",
    scenario=the_next_master_is_lost_at_once,
    caught=("scenario", "gate"),
    quick=True,
)
def exit_outlives_its_view():
    original = peers.Link.__setattr__
    during = []

    def set_but_not_then(self, name, value):
        if not (name == "exit" and value is False and during):
            original(self, name, value)

    follow_up = decision_loop.DecisionLoop._follow_up

    def forgetting_nothing(self, now):
        during.append(now)
        try:
            follow_up(self, now)
        finally:
            during.pop()

    with (
        patched(peers.Link, "__setattr__", set_but_not_then),
        patched(decision_loop.DecisionLoop, "_follow_up", forgetting_nothing),
    ):
        yield


def a_member_wants_another_view_and_nobody_submits():
    """It lost patience with a view that is active since. The others have granted, and follow the master."""
    hand = Hand()
    hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.act(1, lambda channel: channel.lease.release(Voter(0, 1)))
    hand.act(1, lambda channel: channel._election.propose(hand.now, "not installed in time"))
    for _ in range(100):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[1].role == "slave", "nobody takes it back as long as no entry is appended"


@mutant(
    "A member that proposes a view says that it follows the master of the active one.",
    scenario=a_member_wants_another_view_and_nobody_submits,
    caught=("scenario", "L1"),
    quick=True,
)
def own_proposal_followed():
    original = view_triggers.ViewTriggers.follows

    def follows(self, now):
        known, self._state.known_active = self._state.known_active, False
        try:
            return original(self, now)
        finally:
            self._state.known_active = known

    with patched(view_triggers.ViewTriggers, "follows", follows):
        yield


def a_slave_does_not_hear_its_master():
    """Its master hears it, nobody submits anything, and the others are content."""
    script = Script(3)
    master = script.form()
    script.cut((master.replica, 1))
    script.until(lambda: master.channel.members == (0, 2))
    script.mend()
    script.whole()


@mutant(
    "A master keeps a slave that does not hear it.",
    scenario=a_slave_does_not_hear_its_master,
    caught=("scenario",),
    quick=True,
)
def deaf_slave_kept():
    with rewritten(view_triggers.ViewTriggers, "_consider_members", ("and link.exit\n", "and False\n")):
        yield


def _without_acknowledgements(hand, seconds):
    """Time passes; of what the last replica says nothing arrives that acknowledges entries."""
    for _ in range(round(seconds / 0.05)):
        hand.settle(0, 1)
        hand.deliver(0, 2)
        for there in (0, 1):
            for message in hand.lose(2, there):
                if not isinstance(message, Ack):
                    hand.give(2, there, message)
        hand.tick(0.05)


def a_slave_acknowledges_nothing():
    """It says that it follows the master, and holds up all the others."""
    hand = Hand()
    first = hand.form().view
    assert first is not None
    hand.act(0, lambda channel: channel.submit(hand.now, 1, b"x"))
    _without_acknowledgements(hand, Settings().stall_s + 1.0)
    assert hand.channels[0].state.promised > first.number, "nothing is committed any more"


@mutant(
    "A master waits for ever for a slave that acknowledges nothing.",
    scenario=a_slave_acknowledges_nothing,
    caught=("scenario",),
    quick=True,
)
def stalled_slave_kept():
    with rewritten(view_triggers.ViewTriggers, "_consider_members", ("if stalled is not None:", "if False:")):
        yield


def _drops_who_is_behind(payload, **bounds):
    """The others commit without it, and what it lacks fills the memory of the master."""
    hand = Hand(settings=Settings(mode="MAJORITY", stall_s=60.0, keep=0, window=40, **bounds))
    master = hand.form()
    for _ in range(30):
        for _ in range(10):
            if master.can_submit:
                hand.act(0, lambda channel: channel.submit(hand.now, 1, payload))
            hand.settle(0, 1)
        _without_acknowledgements(hand, 0.05)
        if master.members == (0, 1):
            return
    log = master.state.log
    raise AssertionError(f"{master.members} with {len(log)} entries, {log.size_bytes} bytes in memory")


def a_slave_is_too_far_behind():
    """What it lacks are many entries."""
    _drops_who_is_behind(b"x", max_log=250)


def a_slave_is_too_many_bytes_behind():
    """What it lacks are few entries, and large."""
    _drops_who_is_behind(bytes(100), max_log_bytes=25_000)


@mutant(
    "A master keeps a slave for which the log becomes too long.",
    scenario=a_slave_is_too_far_behind,
    caught=("scenario",),
    quick=True,
)
def laggard_kept():
    with rewritten(view_triggers.ViewTriggers, "_consider_members", ("if laggard is not None:", "if False:")):
        yield


@mutant(
    "A slave that lacks few entries, and large ones, is never too far behind.",
    scenario=a_slave_is_too_many_bytes_behind,
    caught=("scenario",),
    quick=True,
)
def laggard_by_entries_only():
    with rewritten(
        normal_case.Replication, "laggard", (" and log.size_bytes <= settings.max_log_bytes:", ":")
    ):
        yield


@mutant(
    "A slave for which the log becomes too long is asked to be in the next view as well.",
    scenario=a_slave_is_too_far_behind,
    caught=("scenario",),
    quick=True,
)
def laggard_not_excluded():
    with rewritten(
        view_triggers.ViewTriggers, "_consider_members", ("() if laggard is None else (laggard,)", "()")
    ):
        yield


def a_witness_has_promised_a_view_of_one_that_is_dead():
    """The master serves alone, with the witness, which grants it nothing as long as that view is promised."""
    script = Script(3, witnesses=1)
    master, other, witness = script.form(), *script.hosts[1:]
    script.split([0], [1])
    script.until(lambda: master.channel.members == (0,) and master.channel.can_submit)
    script.split([0], [2])
    script.until(lambda: witness.state.promised.replica == 1)
    other.crash()
    script.mend()
    script.until(lambda: master.channel.role == "master" and master.channel.lease.held)


@mutant(
    "A master without the lease waits for a voter that has promised another view.",
    scenario=a_witness_has_promised_a_view_of_one_that_is_dead,
    caught=("scenario",),
    quick=True,
)
def ignored_master_waits():
    with rewritten(
        view_triggers.ViewTriggers, "_consider_members", ("if self._ignored(now, view):", "if False:")
    ):
        yield


def a_slave_is_back_before_its_master_has_spoken():
    """It is connected with all; on a slow network what the master says takes its time."""
    voters = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
    number = ViewNumber(3, 0, 7)
    log = DurableLog(Remembered(number, View(number, voters, voters, 3, 0), True))
    channel = Channel(2, range(3), incarnation=9, cluster="c", expected=3, log=log)
    channel.start(98.0)
    for step in range(1, 40):
        # What the process before may have granted is over.
        channel.tick(98.0 + step * 0.05)
    channel.connected(100.0, 0, 7)
    channel.connected(100.0, 1, 8)
    master = Heartbeat(number, number, True, True, True, True, False, 0, 0, 0, 0, 0)
    for step in range(1, 9):
        channel.tick(100.0 + step * 0.05)
        assert not channel.proposing, "it interrupts a view into which it would come back"
    channel.receive(100.45, 0, master)
    assert channel.role == "slave"


@mutant(
    "A slave that is connected with its master proposes before it has heard where that stands.",
    scenario=a_slave_is_back_before_its_master_has_spoken,
    caught=("scenario",),
    quick=True,
)
def proposed_before_it_is_told():
    with rewritten(
        view_triggers.ViewTriggers,
        "_consider_master",
        ("max(start, now + settings.heartbeat_s)", "min(start, now + settings.heartbeat_s)"),
    ):
        yield


def a_slave_loses_its_master_for_a_moment():
    """It says so, and follows again: the view has lasted longer than that is borne."""
    hand = Hand()
    view = hand.form().view
    assert view is not None
    for _ in range(100):
        hand.tick(0.05)
        hand.settle()
    hand.give(1, 0, Exit(view.number, False, "the master is suspected"))
    for _ in range(10):
        hand.tick(0.05, 0)
        assert not hand.channels[0].proposing, "all stand still for what is over in a moment"
    hand.settle()
    assert hand.channels[0].view.number == view.number


@mutant(
    "A slave that does not hear its master is left out the sooner the longer the view has lasted.",
    scenario=a_slave_loses_its_master_for_a_moment,
    caught=("scenario",),
    quick=True,
)
def left_out_for_a_moment():
    with rewritten(
        view_triggers.ViewTriggers,
        "_consider_members",
        ("max(link.exit_since, state.active_since)", "min(link.exit_since, state.active_since)"),
    ):
        yield
