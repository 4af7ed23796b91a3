"""Mutants of what replicas with disks write, and what waits for it."""

import contextlib
from collections import deque

import attrs

from quorate.hachannel import Settings
from quorate.hachannel.journal import durable_log
from quorate.hachannel.model.log import Accepted, Committed, Promised, Reset, Truncated
from quorate.hachannel.model.messages import Ack
from quorate.hachannel.model.settings import TRIM_STEP
from quorate.hachannel.model.view import NO_VIEW
from quorate.hachannel.replication import durable_output, normal_case, replicated_log
from quorate.hachannel.view_change import election, installation
from quorate.testing import Pause, Schedule, Shape, Weather
from quorate.testing.channel import machine
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.random_schedules import draw
from quorate.testing.schedules.scripted_cluster import ScriptedCluster
from quorate.testing.schedules.simulation import simulate


def with_disks(seed):
    return draw(seed, disk=True)


def with_tails(seed):
    return draw(seed, disk=True, profile="tails")


@contextlib.contextmanager
def _unwritten(kind):
    """Records of this kind do not reach the disk."""

    def record(original, self, what):
        return 0 if isinstance(what, kind) else original(self, what)

    with wrapped(durable_output.DurableOutput, "record", record):
        yield


@mutant("The disk does not learn of a promise.", caught=("I3",), schedule=with_disks, quick=True)
def promise_not_written():
    with _unwritten(Promised):
        yield


@mutant("The disk does not learn of an accepted view.", caught=("I3", "raised"), schedule=with_disks)
def acceptance_not_written():
    with _unwritten(Accepted):
        yield


@mutant("The disk of a slave does not get its entries.", schedule=with_disks)
def entries_not_written():
    def on_data(original, self, now, voter, message):
        with patched(durable_output.DurableOutput, "record_entry", lambda *_: None):
            original(self, now, voter, message)

    with wrapped(normal_case.Replication, "on_data", on_data):
        yield


@mutant("The disk does not learn that the log was truncated.", caught=("I17",), schedule=with_tails)
def cut_not_written():
    with _unwritten(Truncated):
        yield


@mutant("Promises and acknowledgements leave before the disk has them.", caught=("I3",), schedule=with_disks)
def said_before_synced():
    def send_after_sync(self, replica, message):
        if replica == self._me:
            self.loopback(message)
        else:
            self.send(replica, message)

    with patched(durable_output.DurableOutput, "send_after_sync", send_after_sync):
        yield


@mutant(
    "The master counts its own entries before its disk has them.",
    caught=("I13", "I10"),
    schedule=with_disks,
    explore="disks",
    budget={"tick": 0, "stay": 1},
)
def own_entries_counted_unsynced():
    def send_after_sync(original, self, replica, message):
        if replica == self._me and isinstance(message, Ack):
            self.loopback(message)
        else:
            original(self, replica, message)

    with wrapped(durable_output.DurableOutput, "send_after_sync", send_after_sync):
        yield


@mutant(
    "A proposer asks for promises before its disk has the number.", caught=("I3", "I1"), schedule=with_disks
)
def number_not_durable():
    def send_after_sync(original, self, replica, message):
        if isinstance(message, election.Prepare):
            self.send(replica, message)
        else:
            original(self, replica, message)

    with wrapped(durable_output.DurableOutput, "send_after_sync", send_after_sync):
        yield


@mutant("A restarted replica treats its whole log as committed.", schedule=with_disks)
def all_committed_after_a_restart():
    def apply(original, self, record):
        original(self, record)
        self.commit = self.last

    with wrapped(durable_log.Remembered, "apply", apply):
        yield


@mutant("A restarted replica has forgotten its promise.", caught=("I3", "I1"), schedule=with_disks)
def promise_lost_in_a_restart():
    def recovered(original, self):
        kept = original(self)
        number = kept.accepted.number if kept.accepted is not None else NO_VIEW
        return attrs.evolve(kept, promised=number)

    with wrapped(durable_log.DurableLog, "recovered", recovered):
        yield


@mutant("A replica that lost its disk comes back as the same voter.", schedule=with_disks)
def voter_without_its_disk():
    def replace_disk(self):
        self.disk = machine.Disk(self.host.incarnation)
        return self.disk

    with patched(machine.Machine, "replace_disk", replace_disk):
        yield


def a_slave_that_stops_while_it_syncs():
    """When it goes on, it promises another view and gets the state before that sync has ended."""
    settings = Settings(
        heartbeat_s=0.05,
        suspect_s=0.6,
        verify_s=0.03,
        view_change_s=0.6,
        stall_s=1.5,
        boot_wait_s=0.2,
        retry_s=0.05,
        lease_s=0.183,
        drift=0.0,
        forward_window=3,
        part_bytes=40,
        window=16,
        keep=64,
        max_log=400,
    )
    weather = Weather(delay_s=0.001, slow_s=0.02, duplicate_chance=0.05, notice_s=0.1, reconnect_s=0.1)
    shape = Shape(
        settings=settings, weather=weather, chunk=1, snapshot_s=0.0, witnesses=1, disk=True, sync_s=0.02
    )
    for seed in range(5, 31):
        stop = Pause(at=0.6 + 0.005 * seed, who="slave", for_s=2.45)
        simulate(Schedule(shape=shape, faults=[stop], seconds=4.0, load=30.0), seed=seed)


@mutant(
    "An Ack that waits for the disk is sent although a higher view has been promised meanwhile.",
    scenario=a_slave_that_stops_while_it_syncs,
    caught=("I3",),
)
def acknowledged_after_a_promise():
    def retract_below(original, self, number):
        acks = [held for held in self._waiting if isinstance(held[2], Ack)]
        original(self, number)
        self._waiting = deque(sorted([*self._waiting, *acks], key=lambda held: held[0]))

    with wrapped(durable_output.DurableOutput, "retract_below", retract_below):
        yield


@mutant("The disk does not learn that the log begins anew after an installed state.", caught=("I17",))
def reset_not_written():
    with _unwritten(Reset):
        yield


@mutant("The disk stores the commit index with the table of submitters of an earlier index.", caught=("I7",))
def submitters_written_too_early():
    def commit_to(original, self, index):
        rows = self.submitters.rows

        def record(write, state, what):
            return write(state, attrs.evolve(what, submitters=rows) if isinstance(what, Committed) else what)

        with wrapped(durable_output.DurableOutput, "record", record):
            original(self, index)

    with wrapped(replicated_log.ReplicatedLog, "commit_to", commit_to):
        yield


@mutant(
    "A proposer begins its view before its own disk has it.",
    caught=("I20",),
    schedule=with_disks,
)
def own_acceptance_counted_unsynced():
    def accept_own(original, self):
        output = self._state.output
        with patched(output, "send_after_sync", lambda _replica, message: output.loopback(message)):
            original(self)

    with wrapped(installation.Installation, "_accept_own", accept_own):
        yield


def a_slave_applies_entries_that_its_disk_does_not_have_yet():
    """The other two commit them; the master keeps what the slow slave has not acknowledged."""
    cluster = ScriptedCluster(3, disk=True, settings=Settings(mode="MAJORITY", keep=0))
    master = cluster.form()
    slave = cluster.hosts[2]
    synced, slave.machine.sync_later = slave.machine.sync_later, lambda: None
    for _ in range(8):
        cluster.submit(master, 16)
        cluster.run(0.05)
    assert slave.channel.applied > TRIM_STEP
    assert slave.disk.waiting
    slave.machine.sync_later = synced
    synced()
    cluster.everywhere(cluster.submit(master))


@mutant(
    "A master trims what a member has applied, although its disk may not have it.",
    scenario=a_slave_applies_entries_that_its_disk_does_not_have_yet,
    caught=("I18",),
)
def trimmed_before_acknowledged():
    def bound(original, self, hold):
        slaves = self._slaves.values()
        matches = [slave.match for slave in slaves]
        for slave in slaves:
            slave.match = max(slave.match, slave.applied)
        original(self, hold)
        for slave, match in zip(slaves, matches, strict=True):
            slave.match = match

    with wrapped(normal_case.Replication, "bound", bound):
        yield
