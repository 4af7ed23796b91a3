"""Mutants of state transfer: what is sent, as of which entry, and who goes on from where."""

import attrs
import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import CaughtUp, Chunk, ChunkAck
from quorate.hachannel.replication import normal_case
from quorate.hachannel.transfer import chunks, donor, learner
from quorate.testing.channel import application
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script


def joined_under_load():
    """A replica gets the state in small parts while every cell changes all the time."""
    script = Script(3, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.5)
    script.form()
    for number in range(600):
        if number == 60:
            script.hosts[2].crash()
        if number == 90:
            script.hosts[2].start()
        master = script.world.master()
        if master is not None:
            script.submit(master, 4)
        script.run(0.01)
    script.whole()


def away_while_trimmed():
    """A replica comes back with an old state, after the log was trimmed."""
    script = Script(3, settings=Settings(keep=0, window=16), chunk=1)
    script.form()
    for number in range(90):
        if number == 60:
            script.hosts[2].pause()
            script.whole(but=[2])
        script.submit(script.master(), 4)
        script.run(0.02)
    script.run(1.0)
    script.hosts[2].resume()
    master = script.whole()
    script.everywhere(script.submit(master, 30))


@mutant("What changes while the state is sent is not marked.", caught=("I15",), quick=True)
def dirty_mark_lost():
    original = application.App.deliver

    def deliver(self, event):
        passes, self._passes = self._passes, None
        original(self, event)
        self._passes = passes

    with patched(application.App, "deliver", deliver):
        yield


@mutant("A part that is sent again is taken off the marks only after it was read.", caught=("I15",))
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
    "The last parts are of the time when they go, not all as of one entry.",
    caught=("I15",),
    scenario=joined_under_load,
)
def rest_not_as_of_one_entry():
    original = application.App.next

    def advance(self, token, index, cells):
        if self._rest:
            self._rest = type(self._rest)(
                (key, self.cells[key]) for key, _ in self._rest if key in self.cells
            )
        return original(self, token, index, cells)

    with patched(application.App, "next", advance):
        yield


@mutant("The end of the state is said to be an entry later than it is.")
def end_mislabelled():
    original = donor.Donor._freeze

    def freeze(self, session, index, *, last):
        if last and index is not None:
            index = min(index + 1, self._state.applied)
        return original(self, session, index, last=last)

    with patched(donor.Donor, "_freeze", freeze):
        yield


@mutant("The first entry after the state is not sent.")
def entry_after_state_skipped():
    original = donor.Donor._begin_entries

    def begin(self, now, session, after):
        original(self, now, session, min(after + 1, self._state.log.last.at))

    def on_catch_up(self, voter, message):
        log = self._state.log
        if message.base.at == log.last.at + 1:
            log.reset(message.base)
            self._state.commit = self._state.applied = message.base.at
        original_catch_up(self, voter, message)

    original_catch_up = learner.Learner.on_catch_up
    with (
        patched(donor.Donor, "_begin_entries", begin),
        patched(learner.Learner, "on_catch_up", on_catch_up),
    ):
        yield


@mutant(
    "A piece counts as an acknowledgement of the entries that the state has.",
    explore="transfer",
    budget={"crash": 0, "tick": 0},
)
def pieces_counted():
    original_ack = donor.Donor.on_chunk_ack
    original_held = normal_case.Replication.held

    def on_chunk_ack(self, now, voter, message):
        if self._state.leading:
            self._replication.learner = self._state.log.last.at
        original_ack(self, now, voter, message)

    def held(self, view):
        matches = [slave.match for slave in self._slaves.values()]
        matches = sorted([*matches, getattr(self, "learner", 0)], reverse=True)
        if view.k == 1:
            return self._synced
        return max(original_held(self, view), min(self._synced, matches[view.k - 2]))

    with (
        patched(donor.Donor, "on_chunk_ack", on_chunk_ack),
        patched(normal_case.Replication, "held", held),
    ):
        yield


@mutant(
    "A learner that resumes keeps what it has, changed since or not.",
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

    original_take = application.App.take

    def take(self, event):
        # What would be noticed at once: that it has never had a cell.
        part = msgspec.msgpack.decode(event.data, type=application.Part)
        had = {**self.cells, **self._earlier, **self._staged}
        part = msgspec.structs.replace(part, kept=[key for key in part.kept if key in had])
        return original_take(self, attrs.evolve(event, data=msgspec.msgpack.encode(part)))

    with patched(application.App, "begin", begin), patched(application.App, "take", take):
        yield


@mutant(
    "What the learner had of cells that are gone since stays in its state.",
    caught=("I15",),
    scenario=away_while_trimmed,
)
def gone_parts_kept():
    original = application.App.take

    def take(self, event):
        if event.index is not None:
            kept = {**self._earlier, **self.cells}
            marker = original(self, event)
            self.cells = {**kept, **self.cells}
            return marker
        return original(self, event)

    with patched(application.App, "take", take):
        yield


@mutant("The learner says that it has the state before the application has installed it.")
def caught_up_before_installed():
    original = learner.Learner._give

    def give(self, learning):
        original(self, learning)
        if learning.at is not None and not learning.installed:
            self._state.send(learning.donor, ChunkAck(learning.token, learning.inbox.taken + 1, True))
            at = learning.at
            self.part_installed(learning.token, b"")
            assert learning.installed
            assert self._state.applied == at.at

    with patched(learner.Learner, "_give", give):
        yield


@mutant("The state is given as of an entry that is not committed.")
def state_above_commit():
    original = donor.Donor._freeze

    def freeze(self, session, index, *, last):
        if index is not None:
            session.frozen = True
            session.hold = index
            if last:
                session.at = self._state.log.last
            return True
        return original(self, session, index, last=last)

    with patched(donor.Donor, "_freeze", freeze):
        yield


@mutant("A piece that comes twice is taken twice.")
def piece_taken_twice():
    def add(self, piece):
        if piece.number >= self.taken + self._given - 1:
            self._waiting.append(piece)

    with patched(chunks.Inbox, "add", add):
        yield


def one_hangs_and_one_waits():
    """The application of a learner takes a part of the state and never answers; another one is back.

    It goes on to announce itself.
    """
    script = Script(5, settings=Settings(keep=0, suspect_s=0.5, stall_s=0.3))
    master = script.form()
    for replica in (3, 2):
        script.hosts[replica].crash()
        master = script.whole(but={replica, 3})
        for _ in range(10):
            script.submit(master, 40)
            script.run(0.05)
    hangs, waits = script.hosts[3], script.hosts[2]
    hangs._install = lambda event: None
    hangs.start()
    script.until(lambda: hangs.channel.phases.learning == "state")
    waits.start()
    master = script.whole(but=[3])
    assert sorted(master.channel.members) == [0, 1, 2, 4]
    del hangs._install
    hangs.crash()
    hangs.start()
    script.everywhere(script.submit(script.whole(), 3))


@mutant(
    "A learner keeps its place for as long as it announces itself, whoever waits.",
    scenario=one_hangs_and_one_waits,
    caught=("scenario",),
    quick=True,
)
def place_kept_for_ever():
    with patched(donor.Donor, "_stuck", lambda *_: False):
        yield


def a_disk_hangs():
    """That of a slave: it announces itself and lacks nothing, but can promise nothing."""
    script = Script(3, settings=Settings(suspect_s=0.5, stall_s=0.3), disk=True)
    script.form()
    hangs = script.hosts[2]
    hangs._sync_later = lambda: None
    script.submit(script.master(), 1)
    master = script.whole(but=[2])
    before = master.channel.view
    script.run(5.0)
    assert master.channel.view == before
    hangs.crash()
    del hangs._sync_later
    hangs.start()
    script.everywhere(script.submit(script.whole(), 3))


@mutant(
    "Who lacks nothing is taken in without having shown that it can answer.",
    scenario=a_disk_hangs,
    caught=("scenario",),
    quick=True,
)
def taken_in_unasked():
    def proved(_self, _now, session):
        session.proved = True
        return True

    with patched(donor.Donor, "_proved", proved):
        yield


def slow_learner():
    """That of a learner takes longer for a sync than a view change may; else there is nothing to do."""
    script = Script(3, disk=True)
    master = script.form()
    script.everywhere(script.submit(master, 20))
    late = script.hosts[2]
    late.crash()
    before = script.whole(but=[2]).channel.view
    sync_later = late._sync_later

    def later():
        life = late.life
        script.world.at(script.world.now + 1.5, lambda: late._synced(life))

    late._sync_later = later
    late.start()
    script.run(30.0)
    assert master.channel.view == before, "the others stood still for it"
    late._sync_later = sync_later
    script.everywhere(script.submit(script.whole(), 3))


@mutant(
    "A learner that has nothing to write answers without its disk.",
    scenario=slow_learner,
    caught=("scenario",),
    quick=True,
)
def answered_without_disk():
    change = ("self._shown = state.mark(Truncated(last))", "pass")
    with rewritten(learner.Learner, "on_catch_up", change):
        yield


def a_learner_with_a_hung_disk():
    """Nobody else waits for the place: it is asked for as long as the disk hangs."""
    script = Script(3, disk=True)
    script.everywhere(script.submit(script.form(), 10))
    hung = script.hosts[2]
    hung.crash(0)
    script.whole(but=[2])
    hung._sync_later = lambda: None
    hung.start()
    script.run(120.0)
    assert len(hung.disk.waiting) < 10, "each question makes a write that waits"


@mutant(
    "Each answer of a learner waits for a write of its own.",
    scenario=a_learner_with_a_hung_disk,
    caught=("scenario",),
)
def written_for_each_question():
    with rewritten(learner.Learner, "on_catch_up", (" and state.is_durable(self._shown)", "")):
        yield


def more_than_is_sent_again():
    """What a learner said came twice and late; what it says now is above all that a window has sent again."""
    hand = Hand(settings=Settings(part_bytes=1, transfer_window=2, window=16))
    hand.form()
    hand.isolate(2)
    for _ in range(10):
        for _ in range(10):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1)
    hand.connect(0, 2)
    learner = hand.channels[2]
    while learner.commit < 8:
        hand.tick(0.05)
        hand.settle(0, 1)
        hand.deliver(2, 0)
        hand.deliver(0, 2)
    [*_, answer] = hand.waiting(2, 0, CaughtUp)
    hand.give(2, 0, CaughtUp(answer.token, 2, 2, True))
    for _ in range(100):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[0].members == (0, 1, 2)


@mutant(
    "What a learner has beyond what was sent again is not believed.",
    scenario=more_than_is_sent_again,
    caught=("scenario",),
    quick=True,
)
def ahead_of_what_was_sent_again():
    change = ("message.index <= state.log.last.at", "message.index <= session.sent")
    with rewritten(donor.Donor, "on_caught_up", change):
        yield


def one_answers_late_and_one_waits():
    """Of two learners one says after more than a second what it has, though entries come all the time."""
    hand = Hand(5, Settings(stall_s=1.5))
    hand.form()
    hand.isolate(3, 4)
    master = hand.channels[0]
    hand.connect(0, 3)
    hand.tick(0.2, 3)
    hand.deliver(3, 0)
    hand.connect(0, 4)
    late = []
    for _ in range(400):
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
        hand.tick(0.05)
        hand.deliver(0, 3)
        for message in hand.lose(3, 0):
            late.append((hand.now + 1.5 * isinstance(message, CaughtUp), message))
        for due, message in list(late):
            if hand.now >= due:
                late.remove((due, message))
                hand.give(3, 0, message)
        hand.settle(0, 1, 2, 4)
    assert master.members == (0, 1, 2, 4), "a view waited for it, or the other one still waits"


@mutant(
    "A learner keeps its place although it never answers in time.",
    scenario=one_answers_late_and_one_waits,
    caught=("scenario",),
    quick=True,
)
def late_answers_forgiven():
    with rewritten(donor.Donor, "_proved", ("min(session.doubted, now)", "now")):
        yield


@mutant(
    "What a learner says of messages before the question counts as the answer to it.",
    scenario=one_answers_late_and_one_waits,
    caught=("scenario",),
    quick=True,
)
def earlier_answer_counts():
    with rewritten(donor.Donor, "_proved", ("session.token = self._token_above(session.token)", "pass")):
        yield


def pieces_take_their_time():
    """The connection from the donor carries one in more than a second, and everything in its order."""
    script = Script(3, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.1)
    script.form()
    for number in range(90):
        if number == 60:
            script.hosts[2].crash()
            script.whole(but=[2])
        script.submit(script.master(), 4)
        script.run(0.02)
    learner = script.hosts[2]
    deliver, free, carried = learner.deliver, [0.0], [0]

    def carry(peer, message):
        if peer:
            deliver(peer, message)
            return
        is_piece = isinstance(message, Chunk)
        carried[0] += is_piece
        free[0] = max(free[0], script.world.now) + (1.2 if is_piece else 0.0)
        script.world.at(free[0], lambda: deliver(peer, message))

    learner.deliver = carry
    learner.start()
    script.until(lambda: learner.channel.phases.learning == "entries", 90.0)
    assert carried[0] < 60, "pieces that are on their way are sent again and again"


@mutant(
    "A donor sends what is not acknowledged again and again, however slow the connection is.",
    scenario=pieces_take_their_time,
    caught=("scenario",),
)
def again_and_again():
    with rewritten(
        donor.Donor,
        "on_join",
        ("min(2 * session.again_s, MAX_AGAIN * state.settings.stall_s)", "session.again_s"),
    ):
        yield
