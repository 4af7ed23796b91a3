"""Mutants of the normal case: acknowledgements, commits, deliveries and the bounds of the log."""

import attrs
import msgspec

from quorate.hachannel import Settings, ViewEvent
from quorate.hachannel.model import log
from quorate.hachannel.model.messages import Ack
from quorate.hachannel.model.view import NO_VIEW
from quorate.hachannel.replication import (
    durable_output,
    forwarding,
    normal_case,
    replica_state,
    replicated_log,
)
from quorate.hachannel.transfer import chunks
from quorate.hachannel.view_change import election, installation
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.scripted_cluster import ScriptedCluster, alone_with_a_change


@mutant("A voter goes on acknowledging entries of the old view after it promised a new one.", caught=("I3",))
def old_views_acknowledged():
    original = replica_state.ReplicaState.promise

    def promise(self, number):
        status = self.status
        original(self, number)
        if status.serving and not status.leading:
            self.status = status

    with (
        patched(replica_state.ReplicaState, "promise", promise),
        patched(normal_case.Replication, "may_ack", lambda *_: True),
    ):
        yield


@mutant("One acknowledgement less than needed commits an entry.", caught=("I13",), quick=True)
def one_ack_short():
    def held(self, current):
        matches = sorted([self._synced, *[slave.match for slave in self._slaves.values()]], reverse=True)
        return matches[max(current.k - 2, 0)]

    with patched(normal_case.Replication, "held", held):
        yield


@mutant("In mode ALL a master does not wait for its slowest slave.", caught=("I10",))
def one_slave_short():
    def held(original, self, current):
        matches = sorted((slave.match for slave in self._slaves.values()), reverse=True)
        if self._state.settings.mode == "MAJORITY" or len(matches) < 2:
            return original(self, current)
        return min(self._synced, matches[-2])

    with wrapped(normal_case.Replication, "held", held):
        yield


def a_master_comes_back_with_an_entry_of_its_own():
    """The others went on without a new entry, so nothing they send contradicts it."""
    cluster = ScriptedCluster(3)
    old = cluster.form()
    cluster.everywhere(cluster.submit(old))
    cluster.split([0], [1, 2])
    cluster.submit(old)
    cluster.until(lambda: cluster.hosts[1].channel.role == "master")
    cluster.mend()
    cluster.whole()
    cluster.everywhere(cluster.submit(cluster.master(), 3))


@mutant(
    "A member keeps its own entries beyond the end of the adopted log.",
    scenario=a_master_comes_back_with_an_entry_of_its_own,
    caught=("I4",),
    quick=True,
)
def tail_not_truncated():
    def splice(original, self, entries, end):
        return original(self, entries, None)

    with wrapped(replicated_log.ReplicatedLog, "splice", splice):
        yield


@mutant("A member of a new view truncates its log below the commit index.", caught=("I17",), quick=True)
def truncated_below_commit():
    def adopt(original, self, new, staged):
        self._state.log.truncate(max(staged.base.at - 1, self._state.log.base.at))
        return original(self, new, staged)

    with wrapped(installation.Installation, "_adopt", adopt):
        yield


@mutant("A slave delivers entries when they arrive.")
def delivered_before_commit():
    def on_data(original, self, now, voter, message):
        original(self, now, voter, message)
        if self._state.serving:
            self._state.replicated.commit_to(self._state.log.last.at)

    with wrapped(normal_case.Replication, "on_data", on_data):
        yield


@mutant("A master trims what it has applied itself, even if slaves lack it.")
def trimmed_too_far():
    def bound(self, hold):
        self._trim = self._state.replicated.applied
        self.trim(self._trim)

    with patched(normal_case.Replication, "bound", bound):
        yield


def a_member_comes_back_after_a_few_large_entries():
    """What all have is trimmed, though it is less than a step: else the log were too long to let it in."""
    cluster = ScriptedCluster(3, settings=Settings(max_log_bytes=8000, window_bytes=2000))
    master = cluster.form()
    for number in range(30):
        payload = bytes([number]) * 500
        cluster.submitted.add(payload)
        assert master.submit(payload)
        cluster.run(0.2)
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    cluster.hosts[2].start()
    cluster.whole()
    cluster.everywhere(cluster.submit(cluster.master(), 3))


@mutant(
    "A log is trimmed in steps of many entries even if the entries are large.",
    scenario=a_member_comes_back_after_a_few_large_entries,
    caught=("scenario", "I18"),
)
def large_entries_kept():
    def trim(original, self, index):
        if min(index, self._state.replicated.applied) - self._state.log.base.at >= normal_case.TRIM_STEP:
            original(self, index)

    with wrapped(normal_case.Replication, "trim", trim):
        yield


def _without_size(original, self, index):
    """The log changes, and its size stays what it was."""
    size = self.size_bytes
    original(self, index)
    self.size_bytes = size


@mutant("A log still counts the bytes of the entries that it trimmed.", caught=("I18",))
def trimmed_bytes_counted():
    with wrapped(log.MemoryLog, "trim", _without_size):
        yield


@mutant("A log still counts the bytes of the entries that it truncated.", caught=("I18",))
def cut_bytes_counted():
    with wrapped(log.MemoryLog, "truncate", _without_size):
        yield


@mutant("A log still counts the bytes of the entries that a state replaced.", caught=("I18",))
def reset_bytes_counted():
    with wrapped(log.MemoryLog, "reset", _without_size):
        yield


@mutant("An Ack of a slave counts for all entries that the slave was sent.")
def sent_counts_as_acknowledged():
    def on_ack(original, self, now, voter, message):
        slave = self._slaves.get(voter)
        if slave is not None:
            message = msgspec.structs.replace(message, index=max(message.index, slave.sent))
        original(self, now, voter, message)

    with wrapped(normal_case.Replication, "on_ack", on_ack):
        yield


@mutant("A majority of the members commits in mode ALL, too.", caught=("I13", "I10"))
def all_by_majority():
    def majority(mode, members, min_copies=1):
        del mode, min_copies
        return len(members) // 2 + 1

    with patched(election, "required", majority):
        yield


@mutant("After a timeout the master commits without the missing acknowledgements.", caught=("I13", "I10"))
def timeout_commits():
    def stalled(original, self, now):
        if original(self, now) is not None:
            self._state.replicated.commit_to(self._state.log.last.at)

    with wrapped(normal_case.Replication, "stalled", stalled):
        yield


@mutant("A slave acknowledges an entry although it lacks an earlier one.", caught=("I13", "I10"))
def gap_acknowledged():
    def on_data(original, self, now, voter, message):
        state = self._state
        if message.entry.index > state.log.last.at + 1 and state.serving:
            state.output.send(voter.replica, Ack(message.entry.view, message.entry.index))
        original(self, now, voter, message)

    with wrapped(normal_case.Replication, "on_data", on_data):
        yield


@mutant("A slave commits what any heartbeat says, of whatever view.")
def stale_commits_taken():
    def on_heartbeat(original, self, now, voter, message):
        original(self, now, voter, message)
        self._state.replicated.commit_to(min(message.last, self._state.log.last.at))

    with wrapped(normal_case.Replication, "on_heartbeat", on_heartbeat):
        yield


@mutant("A member keeps its own entries where they differ from the adopted log.", caught=("I6",), quick=True)
def conflicts_kept():
    def splice(original, self, entries, end):
        last = self._log.last.at
        mine = [self._log.get(e.index) if self._log.base.at < e.index <= last else e for e in entries]
        return original(self, mine, end)

    with wrapped(replicated_log.ReplicatedLog, "splice", splice):
        yield


@mutant("A replica delivers its last entry again when a view begins.", caught=("I8",), quick=True)
def delivered_again():
    def begin(original, self, now, view):
        original(self, now, view)
        self._state.replicated.applied = max(self._state.replicated.applied - 1, self._state.log.base.at)
        self._state.replicated.deliver()

    with wrapped(normal_case.Replication, "begin", begin):
        yield


def a_master_alone_with_a_change_under_way():
    """The entries of its log are as many as there may be."""
    alone_with_a_change(lambda log: len(log) <= 200, Settings(window=16, keep=0, max_log=200))


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


@mutant("A member sends forwarded payloads beyond the window in bytes.", caught=("I18",))
def forward_bytes_unbounded():
    send = _boundless(forward_window_bytes=1 << 30)(forwarding.Forwarding._send)
    with patched(forwarding.Forwarding, "_send", send):
        yield


@mutant("A member sends forwarded payloads beyond the window.", caught=("I18",))
def forwards_unbounded():
    send = _boundless(forward_window=1 << 20)(forwarding.Forwarding._send)
    with patched(forwarding.Forwarding, "_send", send):
        yield


@mutant("A member queues one forwarded payload more than fits.", caught=("I18",))
def queue_one_more():
    def room(self):
        settings = self._state.settings
        return (
            not (self._state.leaving or self._state.stopped or self._state.seats.witness)
            and len(self._queue) <= settings.forward_queue
        )

    with patched(forwarding.Forwarding, "room", property(room)):
        yield


@mutant("A master has one entry more in flight than the window.", caught=("I18",), quick=True)
def window_one_more():
    def room(self):
        state = self._state
        return state.log.last.at - state.replicated.commit <= state.settings.window

    with patched(normal_case.Replication, "room", property(room)):
        yield


@mutant("A donor has one piece more in flight than the window.", caught=("I18",))
def pieces_one_more():
    def due(original, self):
        self.window += 1
        yield from original(self)
        self.window -= 1

    with wrapped(chunks.OutgoingChunks, "due", due):
        yield


@mutant("Committed entries count as in flight, until the master takes nothing more.", caught=("L1",))
def in_flight_for_ever():
    def advance(original, self):
        before = self._in_flight_bytes
        original(self)
        self._in_flight_bytes = before

    with wrapped(normal_case.Replication, "_advance", advance):
        yield


@mutant(
    "A master takes payloads although a pending change holds its log and the log is full.",
    scenario=a_master_alone_with_a_change_under_way,
    caught=("I18", "scenario"),
)
def full_log_taken():
    with patched(normal_case.Replication, "_log_full", property(lambda _: False)):
        yield


def a_cluster_of_one_goes_on():
    """It takes many times what its log may have."""
    cluster = ScriptedCluster(1, settings=Settings(window=16, keep=0, max_log=200))
    master = cluster.form()
    for _ in range(100):
        cluster.everywhere([*cluster.submit(master, 5), *cluster.forward(master, 5)])


@mutant("A cluster of one replica never trims its log.", scenario=a_cluster_of_one_goes_on, caught=("I18",))
def alone_trims_nothing():
    def bound(original, self, hold):
        if self._state.peers.links:
            original(self, hold)

    with wrapped(normal_case.Replication, "bound", bound):
        yield


def a_slave_that_took_entries_of_a_later_view_and_dies():
    """It is of the view before, and hears its master only: behind those entries it must not append others."""
    cluster = ScriptedCluster(5, disk=True)
    cluster.form()
    old, new, slave = cluster.hosts[0], cluster.hosts[1], cluster.hosts[4]
    cluster.everywhere(cluster.submit(old, 10))
    cluster.split([0, 4], [1, 2, 3])
    cluster.submit(old, 3)
    cluster.until(lambda: new.channel.role == "master", 20)
    cluster.submit(new, 5)
    cluster.until(lambda: new.channel.commit == new.channel.last)
    for way in ((1, 4), (4, 1)):
        cluster.net.mend(way)
    cluster.until(lambda: slave.channel.last == new.channel.last and not slave.disk.waiting, 1.4)
    cluster.split([4], [1, 2, 3])
    slave.crash(0)
    slave.start()
    cluster.run(3)
    cluster.forward(old, 4)
    cluster.run(2)
    cluster.mend()
    cluster.whole(seconds=60)


@mutant(
    "A restarted replica goes on in an earlier view although its log has entries of a later one.",
    scenario=a_slave_that_took_entries_of_a_later_view_and_dies,
    caught=("I4",),
)
def later_view_forgotten():
    def init(original, self, *arguments):
        original(self, *arguments)
        self.newer = NO_VIEW

    with wrapped(replica_state.ReplicaState, "__init__", init):
        yield


@mutant("The adopted log of a new view does not count as committed.", caught=("I10",), quick=True)
def start_not_committed():
    def begin(original, self, now, view, *, first_time):
        with patched(replicated_log.ReplicatedLog, "commit_to", lambda *_: None):
            original(self, now, view, first_time=first_time)

    with wrapped(installation.Installation, "_begin", begin):
        yield


@mutant("The master changes the payload that it appends.", caught=("I9",), quick=True)
def payload_changed():
    def append(original, self, now, stamp_ns, payload, kind, source=None):
        return original(self, now, stamp_ns, payload + b"!", kind, source)

    with wrapped(normal_case.Replication, "_append", append):
        yield


@mutant("A slave announces a view one entry later than it begins.", caught=("I14",), quick=True)
def view_announced_later():
    def event(original, self, event):
        if isinstance(event, ViewEvent) and event.master != self._me:
            event = attrs.evolve(event, index=event.index + 1)
        original(self, event)

    with wrapped(durable_output.DurableOutput, "emit", event):
        yield


@mutant("A replica delivers its whole log whenever it delivers something.", caught=("I16",), quick=True)
def delivered_beyond_commit():
    def deliver(original, self):
        with patched(self, "commit", self._log.last.at):
            original(self)

    with wrapped(replicated_log.ReplicatedLog, "deliver", deliver):
        yield
