"""Mutants of the normal case and of what logs may forget."""

from quorate.hachannel import election, installation, replication, state
from quorate.hachannel.messages import Ack
from quorate.testing.channel_script import Script
from quorate.testing.mutation import mutant, patched


@mutant(
    "A voter that has promised a new view goes on acknowledging the old one.",
    quick=True,
    explore="two-proposers",
    budget={"tick": 1, "late": 0},
)
def old_views_acknowledged():
    original = state.State.promise

    def promise(self, number):
        serving = self.serving
        original(self, number)
        self.serving = serving and not self.leading

    with (
        patched(state.State, "promise", promise),
        patched(replication.Replication, "may_ack", lambda *_: True),
    ):
        yield


@mutant("An entry is committed with one acknowledgement less.", quick=True)
def one_ack_short():
    def held(self, current):
        matches = sorted((slave.match for slave in self._slaves.values()), reverse=True)
        others = max(current.k - 2, 0)
        return min(self._synced, matches[others - 1]) if others else self._synced

    with patched(replication.Replication, "held", held):
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
    original = state.State.splice

    def splice(self, entries, end):
        return original(self, entries, None)

    with patched(state.State, "splice", splice):
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
    original = replication.Replication.on_data

    def on_data(self, now, voter, message):
        original(self, now, voter, message)
        if self._state.serving:
            self._state.commit_to(self._state.log.last.at)

    with patched(replication.Replication, "on_data", on_data):
        yield


@mutant("The master trims what it has applied itself, whatever the slaves have.", quick=True)
def trimmed_too_far():
    def bound(self, hold):
        self._trim = self._state.applied
        self.trim(self._trim)

    with patched(replication.Replication, "bound", bound):
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
    original = replication.Replication.stalled

    def stalled(self, now):
        if original(self, now) is not None:
            self._state.commit_to(self._state.log.last.at)

    with patched(replication.Replication, "stalled", stalled):
        yield


@mutant("A slave acknowledges an entry although it lacks the one before.", caught=("I13", "I10"), quick=True)
def gap_acknowledged():
    original = replication.Replication.on_data

    def on_data(self, now, voter, message):
        state = self._state
        if message.entry.index > state.log.last.at + 1 and state.serving:
            state.send(voter.replica, Ack(message.entry.view, message.entry.index))
        original(self, now, voter, message)

    with patched(replication.Replication, "on_data", on_data):
        yield


@mutant("A slave takes the commit index from whoever says one, of whatever view.")
def stale_commits_taken():
    original = replication.Replication.on_heartbeat

    def on_heartbeat(self, now, voter, message):
        original(self, now, voter, message)
        self._state.commit_to(min(message.last, self._state.log.last.at))

    with patched(replication.Replication, "on_heartbeat", on_heartbeat):
        yield


@mutant("A member keeps its own entries where the log of the new view differs.")
def conflicts_kept():
    original = state.State.splice

    def splice(self, entries, end):
        last = self.log.last.at
        mine = [self.log.get(e.index) if self.log.base.at < e.index <= last else e for e in entries]
        return original(self, mine, end)

    with patched(state.State, "splice", splice):
        yield


@mutant("What was delivered is delivered again when a view begins.", quick=True)
def delivered_again():
    original = replication.Replication.begin

    def begin(self, now, view):
        original(self, now, view)
        self._state.applied = max(self._state.applied - 1, self._state.log.base.at)
        self._state.deliver()

    with patched(replication.Replication, "begin", begin):
        yield
