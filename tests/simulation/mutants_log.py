"""Mutants of the normal case and of what logs may forget."""

from quorate.hachannel import Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model import log
from quorate.hachannel.model.messages import Ack, Data, Grant, Prepare, Promise, Repair
from quorate.hachannel.model.view import ViewNumber
from quorate.hachannel.replication import normal_case, peers, replica_state
from quorate.hachannel.transfer import donor
from quorate.hachannel.view_change import election, installation
from quorate.testing.channel.by_hand import Hand, returning
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script


@mutant(
    "A voter that has promised a new view goes on acknowledging the old one.",
    caught=("I3",),
    quick=True,
)
def old_views_acknowledged():
    original = replica_state.ReplicaState.promise

    def promise(self, number):
        serving = self.serving
        original(self, number)
        self.serving = serving and not self.leading

    with (
        patched(replica_state.ReplicaState, "promise", promise),
        patched(normal_case.Replication, "may_ack", lambda *_: True),
    ):
        yield


def an_entry_and_a_proposal_come_together():
    """What the master of the next view has not heard of must not be committed in the one before."""
    hand = Hand()
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    [data] = hand.waiting(0, 2, Data)
    slave, number = hand.channels[2], ViewNumber(9, 1, 2)
    slave.receive(hand.now, 0, data)
    slave.receive(hand.now, 1, Prepare(number, "test"))
    said = [message for _, message in slave.take().messages]
    assert any(isinstance(message, Promise) for message in said)
    assert not any(isinstance(message, Ack) for message in said), "it has promised not to"


@mutant(
    "A slave that promises another view in the step in which entries came acknowledges them all the same.",
    scenario=an_entry_and_a_proposal_come_together,
    caught=("scenario", "I3"),
    quick=True,
)
def acknowledged_beside_a_promise():
    with rewritten(normal_case.Replication, "flush", (" and self.may_ack(view)", "")):
        yield


@mutant("An entry is committed with one acknowledgement less.", quick=True)
def one_ack_short():
    def held(self, current):
        matches = sorted((slave.match for slave in self._slaves.values()), reverse=True)
        others = max(current.k - 2, 0)
        return min(self._synced, matches[others - 1]) if others else self._synced

    with patched(normal_case.Replication, "held", held):
        yield


def a_master_comes_back_with_an_entry_of_its_own():
    """The others went on without a new entry, so nothing they send contradicts it."""
    script = Script(3)
    old = script.form()
    script.everywhere(script.submit(old))
    script.split([0], [1, 2])
    script.submit(old)
    script.until(lambda: script.hosts[1].channel.role == "master")
    script.mend()
    script.whole()
    script.everywhere(script.submit(script.master(), 3))


@mutant(
    "A member keeps entries of its own beyond the log of the new view.",
    quick=True,
    scenario=a_master_comes_back_with_an_entry_of_its_own,
)
def tail_not_truncated():
    original = replica_state.ReplicaState.splice

    def splice(self, entries, end):
        return original(self, entries, None)

    with patched(replica_state.ReplicaState, "splice", splice):
        yield


@mutant(
    "A member of a new view cuts its log below what is committed.",
    quick=True,
)
def truncated_below_commit():
    original = installation.Installation._adopt

    def adopt(self, new, staged):
        self._state.log.truncate(max(staged.base.at - 1, self._state.log.base.at))
        return original(self, new, staged)

    with patched(installation.Installation, "_adopt", adopt):
        yield


@mutant("A slave delivers what it receives.", quick=True)
def delivered_before_commit():
    original = normal_case.Replication.on_data

    def on_data(self, now, voter, message):
        original(self, now, voter, message)
        if self._state.serving:
            self._state.commit_to(self._state.log.last.at)

    with patched(normal_case.Replication, "on_data", on_data):
        yield


@mutant("The master trims what it has applied itself, whatever the slaves have.", quick=True)
def trimmed_too_far():
    def bound(self, hold):
        self._trim = self._state.applied
        self.trim(self._trim)

    with patched(normal_case.Replication, "bound", bound):
        yield


def a_slave_lags_behind_its_window():
    """Of two entries that the others commit it takes one: it asks for nothing that is on its way."""
    hand = Hand(settings=Settings(mode="MAJORITY", window=16, stall_s=60.0))
    hand.form()
    for step in range(200):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1)
        if step % 10 == 0:
            hand.tick(0.05, 0)
        taken = 0
        while step % 2 and hand.wires[0, 2] and not taken:
            taken += isinstance(hand.wires[0, 2][0], Data)
            hand.deliver(0, 2, 1)
        hand.deliver(2, 0)
        assert len(hand.waiting(0, 2, Data)) <= 16, "entries are sent again that are on their way"


@mutant(
    "A slave that lags hears of the end of the log, and takes what its window holds back for lost.",
    scenario=a_slave_lags_behind_its_window,
    caught=("scenario",),
    quick=True,
)
def laggard_hears_of_the_end():
    with patched(normal_case.Replication, "end_for", lambda self, _: self._state.log.last.at):
        yield


def a_slave_lags_with_large_entries():
    """The others commit without it; what is on its way to it is a window of bytes, not of entries."""
    hand = Hand(settings=Settings(mode="MAJORITY", window=64, window_bytes=1000, stall_s=60.0))
    hand.form()
    for _ in range(40):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, bytes(300)))
        hand.settle(0, 1)
    for _ in range(36):
        assert len(hand.waiting(0, 2, Data)) <= 4, "more bytes are on their way than the window takes"
        hand.deliver(0, 2, 1)
        hand.deliver(2, 0)


@mutant(
    "A slave that lags is sent a window of entries, whatever their bytes.",
    scenario=a_slave_lags_with_large_entries,
    caught=("scenario",),
    quick=True,
)
def slave_bytes_unbounded():
    with rewritten(
        normal_case.Replication,
        "_may_send",
        (" and slave.flight_bytes < settings.window_bytes", ""),
    ):
        yield


def a_slave_delivers_what_it_does_not_acknowledge():
    """Its disk is slow, and the others commit by majority. What it may need again is kept for it."""
    hand = Hand(settings=Settings(mode="MAJORITY", keep=0, window=500, stall_s=60.0))
    master = hand.form()
    for _ in range(150):
        hand.act(0, lambda channel: channel.submit(hand.now, 1, b"x"))
        hand.settle(0, 1)
        hand.deliver(0, 2)
        for message in hand.lose(2, 0):
            if not isinstance(message, Ack):
                hand.give(2, 0, message)
        hand.tick(0.05)
    assert hand.channels[2].applied > 100
    assert not master.state.log.base.at, "the slave has acknowledged nothing: it may have to be sent again"


@mutant(
    "The master trims what all members have applied, whether they have acknowledged it or not.",
    scenario=a_slave_delivers_what_it_does_not_acknowledge,
    caught=("scenario", "I18"),
    quick=True,
)
def trimmed_unacknowledged():
    with rewritten(
        normal_case.Replication, "bound", ("min(slave.applied, slave.match) for", "slave.applied for")
    ):
        yield


def a_member_comes_back_after_a_few_large_entries():
    """What all have is trimmed, though it is less than a step: else the log were too long to let it in."""
    script = Script(3, settings=Settings(max_log_bytes=8000, window_bytes=2000))
    master = script.form()
    for number in range(30):
        payload = bytes([number]) * 500
        script.submitted.add(payload)
        assert master.submit(payload)
        script.run(0.2)
    script.hosts[2].crash()
    script.whole(but=[2])
    script.hosts[2].start()
    script.whole()
    script.everywhere(script.submit(script.master(), 3))


@mutant(
    "A log is trimmed in steps of entries, however large these are.",
    scenario=a_member_comes_back_after_a_few_large_entries,
    caught=("scenario", "I18"),
    quick=True,
)
def large_entries_kept():
    with rewritten(normal_case.Replication, "trim", ("(1 if heavy else TRIM_STEP)", "TRIM_STEP")):
        yield


def silence_with_the_fewest_heartbeats():
    """As few as the settings allow: a quarter of `suspect_s` lies between two of them."""
    script = Script(3, settings=Settings(heartbeat_s=0.5, suspect_s=2.0))
    script.form()
    script.run(3.0)
    script.split([0], [1, 2])
    script.until(lambda: script.hosts[1].channel.role == "master", 6.0)
    script.mend()
    script.whole()


@mutant(
    "A replica takes the time between two heartbeats for a pause of its own.",
    scenario=silence_with_the_fewest_heartbeats,
    caught=("scenario",),
    quick=True,
)
def heartbeats_are_pauses():
    with rewritten(
        peers.Peers,
        "__init__",
        ("max(settings.suspect_s / 4, 2 * settings.heartbeat_s)", "settings.suspect_s / 4"),
    ):
        yield


def a_master_is_silent_after_a_pause_of_the_others():
    """They hear it once more when they run again; from then on it is silent, and not for the time before."""
    hand = Hand()
    hand.form()
    hand.tick(0.05)
    hand.now += 60.0
    for replica in (1, 2):
        hand.deliver(0, replica)
    seconds = 0.0
    while hand.channels[1].master == 0:
        hand.tick(0.05, 1, 2)
        hand.settle(1, 2)
        seconds += 0.05
        assert seconds < 3.0, "the silence of the master is not suspected"


@mutant(
    "Who speaks to a replica that has been stopped counts as heard after that.",
    scenario=a_master_is_silent_after_a_pause_of_the_others,
    caught=("scenario",),
    quick=True,
)
def heard_in_the_future():
    with rewritten(peers.Peers, "paused", ("min(link.heard + gap, now)", "link.heard + gap")):
        yield


def a_master_does_not_run_for_a_while():
    """A slave has something to acknowledge, one waits for the state. Later one is silent, and is cut off."""
    hand = returning(4, Settings(keep=0))
    master = hand.channels[0]
    while master.phases.giving != "state":
        hand.tick(0.05)
        hand.settle()
    view, opened = master.view, master._donor.session.opened
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    hand.tick(0.01, 0)
    hand.now += 60.0
    hand.act(0, lambda channel: channel.tick(hand.now))
    hand.settle()
    hand.tick(0.05)
    hand.settle()
    assert master.view == view, hand.notes[0][-1]
    assert master._donor.session is not None, hand.notes[0][-1]
    assert master._donor.session.opened == opened
    while not master.state.peers.link(hand.channels[2].state.me).suspected:
        hand.tick(0.05, 0, 1, 3)
        hand.settle(0, 1, 3)
    lives = hand.notes[0].count("replica 2: alive")
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
    hand.tick(0.01, 0)
    assert hand.notes[0].count("replica 2: alive") == lives


@mutant(
    "A master blames slaves for the time in which it did not run.",
    scenario=a_master_does_not_run_for_a_while,
    caught=("scenario",),
    quick=True,
)
def slaves_blamed_for_a_pause():
    with patched(normal_case.Replication, "paused", lambda *_: None):
        yield


@mutant(
    "A master blames a learner for the time in which it did not run.",
    scenario=a_master_does_not_run_for_a_while,
    caught=("scenario",),
    quick=True,
)
def learner_blamed_for_a_pause():
    with patched(donor.Donor, "paused", lambda *_: None):
        yield


@mutant(
    "A silent replica counts as alive once its connection is closed.",
    scenario=a_master_does_not_run_for_a_while,
    caught=("scenario",),
    quick=True,
)
def silence_ends_with_the_connection():
    with rewritten(peers.Peers, "review", ("link.suspected or link.foreign", "link.foreign")):
        yield


def a_disk_hangs_while_a_voter_is_asked_again_and_again():
    """It answers once the disk has what it promised: with the promise, and the newest of its grants."""
    hand = Hand(logs=[DurableLog(Remembered()) for _ in range(3)])

    def sync(*replicas):
        for replica in replicas:
            token = hand.tokens[replica]
            hand.act(replica, lambda channel, token=token: channel.persisted(hand.now, token))

    for _ in range(40):
        hand.settle()
        sync(0, 1, 2)
        hand.tick(0.01)
    hand.settle()
    sync(0, 1, 2)
    for _ in range(100):
        hand.give(0, 1, Prepare(ViewNumber(5, 0, 1), "test"))
        hand.tick(0.05, 0)
        hand.deliver(0, 1)
    assert not hand.waiting(1, 0, Promise)
    assert not hand.waiting(1, 0, Grant)
    sync(1)
    assert [grant.mark for grant in hand.waiting(1, 0, Grant)] == [hand.now], "old grants waited, too"
    assert len(hand.waiting(1, 0, Promise)) == 1, "a promise waited each time it was asked for"


@mutant(
    "Of what is repeated while a disk hangs everything waits for it.",
    scenario=a_disk_hangs_while_a_voter_is_asked_again_and_again,
    caught=("scenario",),
    quick=True,
)
def repetitions_held():
    with rewritten(replica_state.ReplicaState, "_hold", ("del held[place]", "pass")):
        yield


@mutant("The bytes of what is trimmed are counted on.", caught=("I18",), quick=True)
def trimmed_bytes_counted():
    with rewritten(
        log.MemoryLog, "trim", ("self.size_bytes -= len(self._entries[position].payload)", "pass")
    ):
        yield


@mutant("The bytes of what is cut are counted on.", caught=("I18",), quick=True)
def cut_bytes_counted():
    with patched(log.MemoryLog, "truncate", _without_size(log.MemoryLog.truncate)):
        yield


@mutant("The bytes of a log that is given up for a state are counted on.", caught=("I18",))
def reset_bytes_counted():
    with patched(log.MemoryLog, "reset", _without_size(log.MemoryLog.reset)):
        yield


def _without_size(original):
    def call(self, index):
        size = self.size_bytes
        original(self, index)
        self.size_bytes = size

    return call


@mutant("What a slave was sent counts as acknowledged with the next acknowledgement.", quick=True)
def sent_counts_as_acknowledged():
    with rewritten(
        normal_case.Replication, "on_ack", ("slave.match = index", "slave.match = max(index, slave.sent)")
    ):
        yield


@mutant("k is a majority of the members in the mode ALL, too.", caught=("I13", "I10"), quick=True)
def all_by_majority():
    def majority(mode, members, min_copies=1):
        del mode, min_copies
        return len(members) // 2 + 1

    with patched(election, "required", majority):
        yield


@mutant("A timeout stands for the acknowledgements that are missing.", caught=("I13", "I10"))
def timeout_commits():
    original = normal_case.Replication.stalled

    def stalled(self, now):
        if original(self, now) is not None:
            self._state.commit_to(self._state.log.last.at)

    with patched(normal_case.Replication, "stalled", stalled):
        yield


@mutant("A slave acknowledges an entry although it lacks the one before.", caught=("I13", "I10"), quick=True)
def gap_acknowledged():
    original = normal_case.Replication.on_data

    def on_data(self, now, voter, message):
        state = self._state
        if message.entry.index > state.log.last.at + 1 and state.serving:
            state.send(voter.replica, Ack(message.entry.view, message.entry.index))
        original(self, now, voter, message)

    with patched(normal_case.Replication, "on_data", on_data):
        yield


@mutant("A slave takes the commit index from whoever says one, of whatever view.")
def stale_commits_taken():
    original = normal_case.Replication.on_heartbeat

    def on_heartbeat(self, now, voter, message):
        original(self, now, voter, message)
        self._state.commit_to(min(message.last, self._state.log.last.at))

    with patched(normal_case.Replication, "on_heartbeat", on_heartbeat):
        yield


@mutant("A member keeps its own entries where the log of the new view differs.")
def conflicts_kept():
    original = replica_state.ReplicaState.splice

    def splice(self, entries, end):
        last = self.log.last.at
        mine = [self.log.get(e.index) if self.log.base.at < e.index <= last else e for e in entries]
        return original(self, mine, end)

    with patched(replica_state.ReplicaState, "splice", splice):
        yield


@mutant("What was delivered is delivered again when a view begins.", quick=True)
def delivered_again():
    original = normal_case.Replication.begin

    def begin(self, now, view):
        original(self, now, view)
        self._state.applied = max(self._state.applied - 1, self._state.log.base.at)
        self._state.deliver()

    with patched(normal_case.Replication, "begin", begin):
        yield


def a_slave_asks_late_for_what_it_has():
    """It has acknowledged that since. A little later the master will have trimmed it."""
    hand = Hand()
    master = hand.form()
    view = master.view
    assert view is not None
    for _ in range(20):
        for _ in range(10):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle()
        hand.tick(0.05)
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    hand.lose(0, 1)
    hand.give(1, 0, Repair(view.number, 100))
    assert hand.waiting(0, 1) == []
    for _ in range(40):
        hand.settle()
        hand.tick(0.05)
    assert hand.payloads(1) == hand.payloads(0) == [b"x"] * 201


@mutant(
    "A slave that asks late is sent again what it has acknowledged.",
    scenario=a_slave_asks_late_for_what_it_has,
    caught=("scenario",),
    quick=True,
)
def stale_repair_answered():
    with rewritten(
        normal_case.Replication, "on_repair", ("slave.match <= message.index <", "message.index <")
    ):
        yield
