"""Mutants of forwarding: payloads of any member, the table of submitters, and what all members hold."""

import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.model import submitters
from quorate.hachannel.model.messages import Forward
from quorate.hachannel.model.submitters import Source, Submitters
from quorate.hachannel.replication import forwarding, normal_case, replica_state, replicated_log
from quorate.hachannel.transfer import learner
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def the_first_of_two_is_lost():
    """The second one waits for it."""
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.net.muted = Forward
    first = cluster.forward(cluster.hosts[1])
    cluster.net.muted = None
    second = cluster.forward(cluster.hosts[1])
    cluster.everywhere(first + second)
    assert cluster.deliveries[0] == first + second


def back_by_a_snapshot():
    """What a member had forwarded is ordered while it hears nothing, and part of the state that it gets."""
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5, keep=0))
    cluster.form()
    cluster.cut((0, 2))
    own = cluster.forward(cluster.hosts[2], 3)
    cluster.run(0.05)
    assert cluster.hosts[0].channel.last == 3
    cluster.split([2], [0, 1])
    master = cluster.whole(but=[2])
    later = cluster.forward(cluster.hosts[2], 2)
    for _ in range(30):
        cluster.submit(master, 10)
        cluster.run(0.05)
    assert cluster.deliveries[0][:3] == own
    assert cluster.hosts[2].channel.forwarding == 5
    cluster.mend()
    cluster.whole()
    assert cluster.counts["snapshots"] == 1
    cluster.everywhere(own + later)
    assert cluster.hosts[2].channel.forwarding == 0
    assert [payload for payload in cluster.deliveries[0] if payload in {*own, *later}] == own + later


@mutant(
    "A master admits a forwarded payload although the one before is missing.",
    caught=("I7",),
    scenario=the_first_of_two_is_lost,
    explore="forward",
    budget={"crash": 0, "tick": 0},
)
def gaps_admitted():
    def admit_one(original, self, replica, stamp_ns):
        held = self._held.get(replica)
        if held is not None and held.payloads:
            number = min(held.payloads)
            row = Source(replica, held.incarnation, held.boot, number - 1)
            if number > 1 and self._admitted.expected(row) < number:
                self._admitted.add(row)
        return original(self, replica, stamp_ns)

    with wrapped(forwarding.Forwarding, "_admit_one", admit_one):
        yield


@mutant("A new master forgets the table of submitters and believes the first number that it hears.")
def table_forgotten_at_failover():
    begin, on_forward = forwarding.Forwarding.begin, forwarding.Forwarding.on_forward

    def forgetful(self, now, view):
        begin(self, now, view)
        self._admitted = Submitters(
            row for row in self._admitted.rows if row.replica == self._state.me.replica
        )

    def believing(self, now, voter, message):
        source = Source(voter.replica, voter.incarnation, message.boot, message.oseq - 1)
        if self._admitted.last(*source[:3]) == 0 and message.oseq > 1:
            self._admitted.add(source)
        on_forward(self, now, voter, message)

    with (
        patched(forwarding.Forwarding, "begin", forgetful),
        patched(forwarding.Forwarding, "on_forward", believing),
    ):
        yield


@mutant("A snapshot comes without the table of submitters.", caught=("I7",), quick=True)
def table_missing_in_snapshot():
    with patched(replicated_log.ReplicatedLog, "submitters_at", lambda self, index: ()):
        yield


@mutant("A snapshot comes with the table of submitters of a later index.", caught=("I7",))
def table_ahead_of_snapshot():
    with patched(replicated_log.ReplicatedLog, "submitters_at", lambda self, index: self.submitters.rows):
        yield


@mutant("A learner keeps its own table of submitters when it installs a snapshot.", caught=("I7",))
def table_not_installed():
    def reset(original, self, base, rows):
        original(self, base, self.submitters.rows)

    with wrapped(replicated_log.ReplicatedLog, "reset", reset):
        yield


@mutant("After a view change a member sends its oldest payload after the newer ones.")
def sent_again_after_new_ones():
    def begin(original, self, now, view):
        original(self, now, view)
        self._queue.rotate(-1)

    with wrapped(forwarding.Forwarding, "begin", begin):
        yield


@mutant("A master admits a payload that it has admitted before.", caught=("I7",))
def duplicates_admitted():
    def on_forward(original, self, now, voter, message):
        original(self, now, voter, message)
        held = self._held.get(voter.replica)
        if held is not None and held.repeated and self._state.leading and self._replication.room:
            source = Source(voter.replica, voter.incarnation, message.boot, message.oseq)
            self._replication.admit(self._state.now, source, 0, message.payload)

    with wrapped(forwarding.Forwarding, "on_forward", on_forward):
        yield


@mutant("A member forgets the payloads that it has sent to the master.", caught=("I7",))
def origin_forgets_what_it_sent():
    def again(original, self, now):
        while self._queue and self._first <= self._given:
            self._queue_bytes -= len(self._queue.popleft())
            self._first += 1
        original(self, now)

    with wrapped(forwarding.Forwarding, "_again", again):
        yield


@mutant("A master continues the numbers of an earlier process of a replica for the next one.", caught=("I7",))
def processes_not_distinguished():
    def expected(self, source):
        row = self._rows.get(source.replica)
        return 1 if row is None else row.oseq + 1

    with patched(submitters.Submitters, "expected", expected):
        yield


@mutant("All processes that share a disk number their payloads as if they were one process.")
def processes_of_a_life_not_counted():
    def init(original, self, *arguments):
        original(self, *arguments)
        self.boot = 1

    with wrapped(replica_state.ReplicaState, "__init__", init):
        yield


@mutant(
    "A learner sends its own payloads again although the installed snapshot has them.",
    caught=("I15",),
    scenario=back_by_a_snapshot,
)
def snapshot_counts_nothing_of_its_receiver():
    class Forgetful(Submitters):
        def last(self, *_):
            return 0

    with patched(learner, "Submitters", Forgetful):
        yield


@mutant("A master reports an entry as held by all members as soon as it is committed.", caught=("I10",))
def stable_at_commit():
    def advance(original, self):
        original(self)
        self._state.replicated.stable_to(self._state.replicated.commit)

    with wrapped(normal_case.Replication, "_advance", advance):
        yield


@mutant("A master takes a member that was told of a commit to hold the entry.")
def stable_by_told():
    def advance(original, self):
        original(self)
        if self._state.leading and self._slaves:
            self._state.replicated.stable_to(
                min(
                    self._state.replicated.commit,
                    *[max(slave.match, slave.announced_commit) for slave in self._slaves.values()],
                )
            )

    with wrapped(normal_case.Replication, "_advance", advance):
        yield


def an_origin_comes_back_within_the_view():
    """With its disk, before anybody misses it: it numbers anew, under another number of its process."""
    cluster = ScriptedCluster(3, disk=True, shared_host=False, settings=Settings(verify_s=1.0))
    master = cluster.form()
    cluster.run(1.0)
    slave = next(host for host in cluster.hosts if host is not master)
    view = master.channel.view.number
    before = cluster.forward(slave, 3)
    cluster.run(1.0)
    slave.crash()
    cluster.run(0.2)
    slave.start()
    cluster.run(1.5)
    assert master.channel.view.number == view
    after = cluster.forward(slave, 5)
    cluster.run(8.0)
    assert cluster.deliveries[master.replica] == before + after


@mutant(
    "A master adds payloads of a new process to those that it holds of the earlier one.",
    scenario=an_origin_comes_back_within_the_view,
    caught=("I7", "scenario"),
)
def held_of_the_process_before():
    def on_forward(original, self, now, voter, message):
        held = self._held.get(voter.replica)
        if held is not None and message.boot > held.boot:
            message = msgspec.structs.replace(message, boot=held.boot)
        original(self, now, voter, message)

    with wrapped(forwarding.Forwarding, "on_forward", on_forward):
        yield


def a_member_without_a_master_has_two_payloads():
    """They are delivered in the next view, though nothing follows them."""
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[0].crash()
    cluster.until(lambda: not cluster.hosts[2].state.serving)
    cluster.forward(cluster.hosts[2], 2)
    cluster.hosts[0].start()
    cluster.whole()
    cluster.run(1.0)
    cluster.ended(cluster.hosts)


@mutant(
    "A member forgets the newest payload that it has not sent yet when a view begins.",
    scenario=a_member_without_a_master_has_two_payloads,
    caught=("I7",),
)
def newest_forgotten():
    def begin(original, self, now, view):
        if self._given < self._first + len(self._queue) - 1:
            self._queue_bytes -= len(self._queue.pop())
        original(self, now, view)

    with wrapped(forwarding.Forwarding, "begin", begin):
        yield


@mutant(
    "In mode MAJORITY the application does not hear what all members hold.",
    caught=("I10",),
)
def stable_not_reported():
    def stable_to(self, index):
        self.stable = max(self.stable, index)

    with patched(replicated_log.ReplicatedLog, "stable_to", stable_to):
        yield
