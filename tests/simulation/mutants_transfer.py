"""Mutants of state transfers: what is sent, as of which entry, and what a learner keeps."""

import attrs
import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import ChunkAck
from quorate.hachannel.replication import normal_case
from quorate.hachannel.transfer import catch_up, chunks, donor, learner, log_tail, state_sender
from quorate.hachannel.transfer.transfer import CompleteState
from quorate.testing import Crash, Schedule, Shape, Submit, simulate
from quorate.testing.channel import application
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def joined_under_load():
    """A replica gets the state in small parts while every cell changes all the time."""
    cluster = ScriptedCluster(3, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.5)
    cluster.form()
    for number in range(600):
        if number == 60:
            cluster.hosts[2].crash()
        if number == 90:
            cluster.hosts[2].start()
        master = cluster.world.master()
        if master is not None:
            cluster.submit(master, 4)
        cluster.run(0.01)
    cluster.whole()


def away_while_trimmed():
    """A replica comes back with an old state, after the log was trimmed."""
    cluster = ScriptedCluster(3, settings=Settings(keep=0, window=16), chunk=1)
    cluster.form()
    for number in range(90):
        if number == 60:
            cluster.hosts[2].pause()
            cluster.whole(but=[2])
        cluster.submit(cluster.master(), 4)
        cluster.run(0.02)
    cluster.run(1.0)
    cluster.hosts[2].resume()
    master = cluster.whole()
    cluster.everywhere(cluster.submit(master, 30))


@mutant("A cell that changes during a transfer is not marked as dirty.", caught=("I15",))
def dirty_mark_lost():
    def deliver(original, self, event):
        passes, self._passes = self._passes, None
        original(self, event)
        self._passes = passes

    with wrapped(application.App, "deliver", deliver):
        yield


@mutant("The mark of a cell is removed after the cell was read instead of before.", caught=("I15",))
def mark_taken_off_late():
    original = application.App.next

    def advance(self, token, index, cells):
        given = original(self, token, index, cells)
        if self._passes is not None and given is not None:
            self._late = dict(self._passes.marks)
        return given

    original_deliver = application.App.deliver

    def deliver(self, event):
        original_deliver(self, event)
        if self._passes is not None and getattr(self, "_late", None) is not None:
            self._passes.marks.clear()
            self._late = None

    with patched(application.App, "next", advance), patched(application.App, "deliver", deliver):
        yield


@mutant(
    "The last parts of a state are read when they are sent, instead of all at one entry.",
    caught=("I15",),
    scenario=joined_under_load,
)
def rest_not_as_of_one_entry():
    def advance(original, self, token, index, cells):
        if self._rest:
            self._rest = type(self._rest)(
                (key, self.cells[key]) for key, _ in self._rest if key in self.cells
            )
        return original(self, token, index, cells)

    with wrapped(application.App, "next", advance):
        yield


@mutant("A donor labels the end of a state with the next entry.")
def end_mislabelled():
    def freeze(original, self, transfer, phase, index, *, last):
        if last and index is not None:
            index = min(index + 1, self._state.replicated.applied)
        return original(self, transfer, phase, index, last=last)

    with wrapped(state_sender.StateSender, "_freeze", freeze):
        yield


@mutant("A donor does not send the first entry after a state.")
def entry_after_state_skipped():
    original = catch_up.CatchUpSender.begin

    def begin(self, now, transfer, after):
        original(self, now, transfer, min(after + 1, self._state.log.last.at))

    def on_catch_up(self, now, voter, message):
        log = self._state.log
        if message.base.at == log.last.at + 1:
            log.reset(message.base)
            self._state.replicated.commit = self._state.replicated.applied = message.base.at
        original_catch_up(self, now, voter, message)

    original_catch_up = learner.Learner.on_catch_up
    with (
        patched(catch_up.CatchUpSender, "begin", begin),
        patched(learner.Learner, "on_catch_up", on_catch_up),
    ):
        yield


@mutant(
    "A piece of a state counts as an acknowledgement of its entries.",
    explore="transfer",
    budget={"crash": 0, "tick": 0},
)
def pieces_counted():
    original_ack = donor.Donor.on_chunk_ack

    def on_chunk_ack(self, now, voter, message):
        if self._state.leading:
            self._replication.learner = self._state.log.last.at
        original_ack(self, now, voter, message)

    def held(self, view):
        matches = [self._synced, *[slave.match for slave in self._slaves.values()]]
        return sorted([*matches, getattr(self, "learner", 0)], reverse=True)[view.k - 1]

    with (
        patched(donor.Donor, "on_chunk_ack", on_chunk_ack),
        patched(normal_case.Replication, "held", held),
    ):
        yield


@mutant(
    "A learner that resumes a transfer keeps parts that have changed since.",
    caught=("I15",),
    scenario=away_while_trimmed,
)
def stale_parts_trusted():
    original = application.App.begin

    def begin(self, event):
        original(self, event)
        start = self._passes._start
        if start.whole or start.place is not None or start.have:
            self._passes._start = msgspec.structs.replace(
                start, floor=self.index, have=start.have and self.index
            )

    original_install = application.App.install

    def install(self, event):
        # What would be noticed at once: that it has never had a cell.
        part = msgspec.msgpack.decode(event.data, type=application.Part)
        had = {**self.cells, **self._earlier, **self._staged}
        part = msgspec.structs.replace(part, kept=[key for key in part.kept if key in had])
        return original_install(self, attrs.evolve(event, data=msgspec.msgpack.encode(part)))

    with patched(application.App, "begin", begin), patched(application.App, "install", install):
        yield


@mutant("A learner keeps cells that were deleted meanwhile.", caught=("I15",), scenario=away_while_trimmed)
def gone_parts_kept():
    def install(original, self, event):
        if event.index is not None:
            kept = {**self._earlier, **self.cells}
            marker = original(self, event)
            self.cells = {**kept, **self.cells}
            return marker
        return original(self, event)

    with wrapped(application.App, "install", install):
        yield


@mutant("A learner acknowledges a state before its application has installed it.")
def caught_up_before_installed():
    def give(original, self, learning):
        original(self, learning)
        if learning.at is not None and not learning.installed:
            self._state.output.send(
                learning.donor, ChunkAck(learning.token, learning.chunks.confirmed + 1, True)
            )
            at = learning.at
            self.part_installed(learning.token, b"")
            assert learning.installed
            assert self._state.replicated.applied == at.at

    with wrapped(learner.Learner, "_install_part", give):
        yield


@mutant("A donor gives a state of an uncommitted entry.")
def state_above_commit():
    def freeze(original, self, transfer, phase, index, *, last):
        if index is not None:
            phase.frozen = True
            transfer.hold = index
            if last:
                tail = log_tail.TailSender(self._state.now, transfer.token, 1, index)
                phase.complete = CompleteState(self._state.log.last, (), tail)
            return True
        return original(self, transfer, phase, index, last=last)

    with wrapped(state_sender.StateSender, "_freeze", freeze):
        yield


@mutant("A learner takes a duplicate piece twice.", caught=("raised",), quick=True)
def piece_taken_twice():
    def add(self, piece):
        if piece.number >= self.confirmed + self._unconfirmed - 1:
            self._waiting.append(piece)

    with patched(chunks.IncomingChunks, "add", add):
        yield


@mutant("A donor sends uncommitted entries beside a state.")
def uncommitted_ahead():
    def push(original, self, now, transfer, phase):
        with patched(self._state.replicated, "commit", self._state.log.last.at):
            original(self, now, transfer, phase)

    with wrapped(state_sender.StateSender, "_push_tail", push):
        yield


@mutant("A donor does not hold the log for the entries that it sends beside a state.")
def ahead_not_kept():
    def on_chunk_ack(original, self, now, voter, message):
        original(self, now, voter, message)
        if self.transfer is not None and getattr(self.transfer.phase, "tail", None) is not None:
            self.transfer.hold = self._state.replicated.applied

    with wrapped(donor.Donor, "on_chunk_ack", on_chunk_ack):
        yield


@mutant("A donor sends one message more beside a state than the window allows.", caught=("I18",))
def ahead_one_more():
    def wants(original, self, upto):
        with patched(self, "_window", self._window + 1):
            return original(self, upto)

    with wrapped(log_tail.TailSender, "wants", wants):
        yield


def one_that_wants_the_state_is_back_and_nothing_was_committed_meanwhile():
    """It was found to differ, say: by its log it lacks nothing, and what it holds is of no use."""
    schedule = Schedule(
        shape=Shape(disk=True, fresh=True),
        faults=[Submit(at=1.5, count=30), Crash(who=2, at=3.0, back_s=0.5)],
        seconds=6.0,
        load=0.0,
    )
    assert simulate(schedule, seed=1).snapshots


@mutant(
    "A learner that wants a whole state keeps its own one if nothing was committed after that.",
    scenario=one_that_wants_the_state_is_back_and_nothing_was_committed_meanwhile,
    caught=("I15",),
    quick=True,
)
def fresh_keeps_state():
    def has(original, self, at):
        self.fresh = False
        return original(self, at)

    with wrapped(learner.Learner, "_has", has):
        yield


def a_master_of_before_with_an_end_of_its_own():
    """It is back once nobody has the log any more that the others made in the place of that end."""
    cluster = ScriptedCluster(3, settings=Settings(keep=0, window=16), chunk=1)
    first = cluster.form()
    for _ in range(50):
        cluster.everywhere(cluster.submit(first))
    cluster.run(0.5)
    cluster.split([0], [1, 2])
    cluster.submit(first, 10)
    end = first.state.log.last.at
    assert first.state.replicated.commit == end - 10
    second = cluster.hosts[1]
    cluster.until(lambda: second.channel.members == (1, 2) and second.channel.can_submit)
    while second.state.log.base.at <= end:
        cluster.submit(second)
        cluster.run(0.02)
    cluster.mend()
    cluster.everywhere(cluster.submit(cluster.whole(), 30))
    assert first.channel._learner._refused == 0, "what has changed since its last entry is of no use to it"


@mutant(
    "A learner claims its whole log instead of its committed part.",
    scenario=a_master_of_before_with_an_end_of_its_own,
    caught=("I15", "scenario"),
)
def own_end_claimed():
    def join(original, self):
        return msgspec.structs.replace(original(self), commit=self._state.log.last)

    with wrapped(learner.Learner, "join", join):
        yield
