"""Mutants of the normal case and of what logs may forget."""

from quorate.hachannel import Settings
from quorate.hachannel.model import log
from quorate.hachannel.model.messages import Ack
from quorate.hachannel.replication import normal_case, replica_state
from quorate.hachannel.view_change import election, installation
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


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
    script = ScriptedCluster(3)
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


def a_member_comes_back_after_a_few_large_entries():
    """What all have is trimmed, though it is less than a step: else the log were too long to let it in."""
    script = ScriptedCluster(3, settings=Settings(max_log_bytes=8000, window_bytes=2000))
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
