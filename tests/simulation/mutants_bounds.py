"""Mutants of what bounds what waits and what is under way."""

import attrs

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.replication import forwarding, normal_case
from quorate.hachannel.transfer import chunks, flow_control
from quorate.testing.channel.by_hand import Hand, returning
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script


def _alone_with_a_change(fits, **bounds):
    """A master whose witness is another one now, and whose slave is away: the change holds the log.

    It takes what fits, and goes on when the slave is back.
    """
    script = Script(3, settings=Settings(window=16, keep=0, **bounds), witnesses=1)
    master = script.form()
    slave, witness = script.hosts[1:]
    slave.pause()
    script.until(lambda: len(master.channel.view.members) == 1 and master.channel.can_submit)
    witness.crash()
    witness.start()
    script.until(lambda: master.state.log.reconfig(0) is not None)
    taken = script.submit(master, 1000)
    assert len(taken) > 100
    assert fits(master.state.log)
    script.run(5.0)
    assert not script.submit(master)
    slave.resume()
    assert script.whole() is master
    script.everywhere([*taken, *script.submit(master, 10)])


def a_master_alone_with_a_change_under_way():
    """The entries of its log are as many as there may be."""
    _alone_with_a_change(lambda log: len(log) <= 200, max_log=200)


def a_master_alone_with_a_change_and_few_bytes():
    """The bytes of its log are; the last entry may be a little too much."""
    _alone_with_a_change(lambda log: log.size_bytes < 1010, max_log_bytes=1000)


def _boundless(**bounds):
    """A method of `forward.Forwarding` that takes some settings for others."""

    def weakened(original):
        def call(self, *arguments):
            settings = self._state.settings
            self._state.settings = attrs.evolve(settings, **bounds)
            try:
                return original(self, *arguments)
            finally:
                self._state.settings = settings

        return call

    return weakened


@mutant("A member gives the master payloads whatever their bytes.", caught=("I18",), quick=True)
def forward_bytes_unbounded():
    send = _boundless(forward_window_bytes=1 << 30)(forwarding.Forwarding._send)
    with patched(forwarding.Forwarding, "_send", send):
        yield


@mutant("A member gives the master payloads whatever their number.", caught=("I18",), quick=True)
def forwards_unbounded():
    send = _boundless(forward_window=1 << 20)(forwarding.Forwarding._send)
    with patched(forwarding.Forwarding, "_send", send):
        yield


@mutant("A member takes one payload more than fit.", caught=("I18",), quick=True)
def queue_one_more():
    def room(self):
        settings = self._state.settings
        return (
            not (self._state.leaving or self._state.stopped or self._state.witness)
            and len(self._queue) <= settings.forward_queue
        )

    with patched(forwarding.Forwarding, "room", property(room)):
        yield


@mutant("A master takes one entry more than the window.", caught=("I18",), quick=True)
def window_one_more():
    def room(self):
        state = self._state
        return state.log.last.at - state.commit <= state.settings.window

    with patched(normal_case.Replication, "room", property(room)):
        yield


@mutant("A donor sends one piece more than the window.", caught=("I18",))
def pieces_one_more():
    original = chunks.Outbox.due

    def due(self):
        self.window += 1
        yield from original(self)
        self.window -= 1

    with patched(chunks.Outbox, "due", due):
        yield


@mutant("What is committed counts as in flight for ever: the master takes nothing any more.", caught=("L1",))
def in_flight_for_ever():
    original = normal_case.Replication._advance

    def advance(self):
        before = self._in_flight_bytes
        original(self)
        self._in_flight_bytes = before

    with patched(normal_case.Replication, "_advance", advance):
        yield


@mutant(
    "A master takes payloads though its log is full and a change of the configuration holds it.",
    scenario=a_master_alone_with_a_change_under_way,
    caught=("I18", "scenario"),
)
def full_log_taken():
    with patched(normal_case.Replication, "_log_full", property(lambda _: False)):
        yield


def a_learner_that_stays_behind():
    """Its connection is just as fast as the cluster: it never lacks so little that a view takes it in."""
    hand = Hand(settings=Settings(keep=200, window=16))
    master = hand.form()
    hand.isolate(2)
    hand.settle(0, 1)
    hand.connect(0, 2)
    learner = hand.channels[2]
    hand.tick(0.2, 2)
    hand.deliver(2, 0)
    for _ in range(20):
        hand.deliver(0, 2)
        for _ in range(10):
            for _ in range(10):
                hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
            hand.settle(0, 1)
        hand.tick(0.05)
        hand.deliver(2, 0)
    assert master.phases.giving == "entries"
    assert learner.applied > 1500
    assert len(learner.state.log) < 500, f"it has {len(learner.state.log)} entries in memory"


@mutant(
    "A learner forgets nothing of the log.",
    scenario=a_learner_that_stays_behind,
    caught=("scenario",),
    quick=True,
)
def learner_trims_nothing():
    with rewritten(normal_case.Replication, "on_heartbeat", ("message.master and not state.member", "False")):
        yield


def a_cluster_of_one_goes_on():
    """It takes many times what its log may have."""
    script = Script(1, settings=Settings(window=16, keep=0, max_log=200))
    master = script.form()
    for _ in range(100):
        script.everywhere([*script.submit(master, 5), *script.forward(master, 5)])


@mutant(
    "A cluster of one forgets nothing of the log: it has no heartbeats to do it at.",
    scenario=a_cluster_of_one_goes_on,
    caught=("I18",),
)
def alone_trims_nothing():
    with rewritten(normal_case.Replication, "_append", ("not state.peers.links", "False")):
        yield


def _returning(replicas, **settings):
    return returning(replicas, Settings(keep=0, window=16, transfer_pause_s=60.0, **settings))


def _submit(hand, *replicas):
    """Ten entries, and a heartbeat of each of these replicas, which get all."""
    for _ in range(10):
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
    hand.settle(*replicas)
    hand.tick(0.05, *replicas)
    hand.settle(*replicas)


def _gives(hand, learner, size):
    """The learner takes so many bytes of the state."""
    event = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)][-1]
    applied = hand.channels[0].applied
    hand.act(0, lambda channel: channel.part_ready(hand.now, event.token, bytes(size), applied))
    hand.settle()
    *_, part = [event for event in hand.events[learner] if isinstance(event, InstallPart)]
    hand.act(learner, lambda channel: channel.part_installed(hand.now, part.token, b"marker"))
    hand.settle()


def _taking(size, **bounds):
    """The learner has taken so many bytes of the state: how long does the log become until it is full?"""
    hand = _returning(3, **bounds)
    _gives(hand, 2, size)
    master = hand.channels[0]
    for _ in range(100):
        _submit(hand, 0, 1, 2)
        if not master.can_submit:
            break
    assert master.phases.giving == "state"
    return len(master.state.log)


def a_large_state_takes_long():
    """The log becomes longer than it may, by less than what the learner has taken: it keeps its place."""
    assert _taking(320, max_log_bytes=160) == 480
    assert _taking(320 * 1024, max_log=160) == 480


@mutant(
    "The log that is held for a learner may not be longer for what that has taken.",
    scenario=a_large_state_takes_long,
    caught=("scenario",),
    quick=True,
)
def large_states_begin_anew():
    with rewritten(flow_control.FlowControl, "fill", ("session.outbox.acked_bytes", "0")):
        yield


@mutant(
    "The log that is held for a learner may have more bytes for what that has taken, but no more entries.",
    scenario=a_large_state_takes_long,
    caught=("scenario",),
    quick=True,
)
def large_states_of_few_entries():
    with rewritten(flow_control, "_fill", ("settings.max_log + more // ENTRY_BYTES", "settings.max_log")):
        yield


@mutant(
    "The log that is held for a learner may be of any length.",
    scenario=a_large_state_takes_long,
    caught=("I18", "scenario"),
    quick=True,
)
def learners_hold_any_log():
    with rewritten(flow_control, "_fill", ("return max(", "return 0.1 * max(")):
        yield


def a_slave_lags_while_another_joins():
    """In mode MAJORITY it may lack a little at any time, also when the log is long for a learner."""
    hand = _returning(4, max_log=160, mode="MAJORITY")
    _gives(hand, 3, 320 * 1024)
    master, slave = hand.channels[0], hand.channels[2]
    for _ in range(400):
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1)
        assert slave.last < master.commit
        hand.tick(0.01)
        hand.settle(0, 1, 2)
        assert master.members == (0, 1, 2)
    assert len(master.state.log) > 200
    assert master.phases.giving == "state"


def a_slave_falls_behind_while_another_joins():
    """It is dropped for what it lacks itself, however long the log may be for the learner."""
    hand = _returning(4, max_log=160, mode="MAJORITY")
    _gives(hand, 3, 1 << 20)
    master = hand.channels[0]
    for number in range(800):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        # Of all that it is sent it takes a little, and says that it lives.
        hand.tick(0.005)
        if number % 8 == 0:
            hand.deliver(0, 2, 1)
        hand.deliver(2, 0)
        hand.settle(0, 1, 3)
        if len(master.members) < 3:
            break
    assert master.members == (0, 1)
    assert master.phases.giving == "state"
    assert any("slave 2 is too far behind" in note for note in hand.notes[0])


@mutant(
    "A slave that lacks a little is dropped for the log that is held for a learner.",
    scenario=a_slave_lags_while_another_joins,
    caught=("scenario",),
    quick=True,
)
def slave_blamed_for_a_learner():
    with rewritten(normal_case.Replication, "laggard", ("self._lent and little", "False")):
        yield


@mutant(
    "A slave that falls behind is kept as long as the log is held for a learner.",
    scenario=a_slave_falls_behind_while_another_joins,
    caught=("scenario",),
    quick=True,
)
def slave_hides_behind_a_learner():
    with rewritten(normal_case.Replication, "laggard", ("self._lent and little", "self._lent")):
        yield


def all_wait_for_a_learner_once():
    """In mode ALL, as for a slow slave, while the log is full; not longer than `stall_s`, in vain."""
    hand = _returning(3, max_log=160, stall_s=1.0)
    master = hand.channels[0]
    waited = []
    for _ in range(2):
        assert sum(isinstance(event, ProvideSnapshot) for event in hand.events[0]) == len(waited) + 1
        _gives(hand, 2, 4)
        full = 0
        for _ in range(200):
            _submit(hand, 0, 1, 2)
            full += not master.can_submit
            if master.phases.giving == "nobody":
                break
        assert master.phases.giving == "nobody"
        waited.append(full)
        for _ in range(10):
            hand.tick(0.05)
            hand.settle()
    # Of steps of 0.05 s.
    assert 15 < waited[0] < 25
    assert waited[1] == 0


@mutant(
    "Nobody waits for a learner for which the log is full.",
    scenario=all_wait_for_a_learner_once,
    caught=("scenario",),
    quick=True,
)
def learners_never_awaited():
    with patched(flow_control.FlowControl, "full", lambda *_: False):
        yield


@mutant(
    "All wait for ever for a learner for which the log is full.",
    scenario=all_wait_for_a_learner_once,
    caught=("scenario",),
    quick=True,
)
def learners_awaited_for_ever():
    with rewritten(flow_control.FlowControl, "overflows", ("self._state.settings.stall_s", "1e9")):
        yield


@mutant(
    "All wait again for a learner that did not come further.",
    scenario=all_wait_for_a_learner_once,
    caught=("scenario",),
    quick=True,
)
def learners_awaited_again():
    with rewritten(
        flow_control.FlowControl, "overflows", ("self.in_vain.add(session.voter.replica)", "pass")
    ):
        yield


@mutant(
    "The log is full once it has too many entries, whatever their bytes.",
    scenario=a_master_alone_with_a_change_and_few_bytes,
    caught=("scenario",),
    quick=True,
)
def log_full_by_entries_only():
    with rewritten(
        normal_case.Replication, "_log_full", (" or log.size_bytes >= settings.max_log_bytes", "")
    ):
        yield


def nobody_waits_for_a_learner_by_majority():
    """The log is full: the transfer ends, and begins again."""
    hand = _returning(3, max_log=160, mode="MAJORITY")
    master = hand.channels[0]
    _gives(hand, 2, 4)
    full = 0
    for _ in range(60):
        _submit(hand, 0, 1, 2)
        full += not master.can_submit
    assert full < 3, "all stand still for it"


@mutant(
    "Also in mode MAJORITY all wait for a learner.",
    scenario=nobody_waits_for_a_learner_by_majority,
    caught=("scenario",),
    quick=True,
)
def learners_awaited_by_majority():
    with rewritten(flow_control.FlowControl, "_waits", ('self._state.settings.mode == "ALL" and ', "")):
        yield
