"""A state, and entries, on their way to a learner whose connection is slow."""

import pytest

from quorate.hachannel import InstallPart, ProvidePart, ProvideSnapshot, Settings
from quorate.hachannel.model.messages import CatchUp, Chunk
from quorate.hachannel.model.settings import TRIM_STEP
from quorate.testing.channel.manual_cluster import ManualCluster, returning

STEP_S = 0.05
PARTS = 20


class Slow:
    """The replica 2 has lost what it had; its connection with the master carries a piece in `piece_s`."""

    def __init__(self, piece_s: float, **settings) -> None:
        self.cluster = cluster = ManualCluster(settings=Settings(**settings))
        cluster.form()
        self._piece_s = piece_s
        self._next = 0.0
        self._acted = {0: 0, 2: 0}
        self.sent = 0
        self.hangs = False
        """The learner does nothing while it installs the last part."""
        self.installing: InstallPart | None = None
        self._parts = 0
        self.made = 0
        """Parts of the state that were asked for."""
        for _ in range(200):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle()
        for _ in range(3):
            cluster.tick(STEP_S)
            cluster.settle()
        cluster.silence(2)
        cluster.settle()
        cluster.start(2, 3, 9)
        for other in (0, 1):
            cluster.connect(other, 2)

    def go(self) -> None:
        """The learner has installed the last part of the state."""
        event, self.installing, self.hangs = self.installing, None, False
        self._do(event)

    def step(self) -> None:
        """Time passes."""
        cluster = self.cluster
        cluster.tick(STEP_S, *(replica for replica in cluster.channels if self._runs(replica)))
        wire = cluster.wires[0, 2]
        while wire and self._runs(2):
            if isinstance(wire[0], Chunk | CatchUp):
                if cluster.now < self._next:
                    break
                self._next = cluster.now + self._piece_s
                self.sent += 1
            cluster.deliver(0, 2, 1)
        for pair in list(cluster.wires):
            if pair != (0, 2) and self._runs(pair[1]):
                cluster.deliver(*pair)
        for replica, done in self._acted.items():
            if not self._runs(replica):
                continue
            self._acted[replica] = len(cluster.events[replica])
            for event in cluster.events[replica][done:]:
                self._do(event)

    def _do(self, event) -> None:
        cluster = self.cluster
        if isinstance(event, ProvideSnapshot):
            parts = self._make_parts()
            cluster.act(
                0, lambda channel: channel.snapshot_ready(cluster.now, event.token, event.index, parts)
            )
        elif isinstance(event, InstallPart):
            self._parts += 1
            if self.hangs and self._parts == PARTS:
                self.installing = event
                return
            cluster.act(2, lambda channel: channel.part_installed(cluster.now, event.token, b"marker"))

    def _make_parts(self):
        for _ in range(PARTS):
            self.made += 1
            yield b"part"

    def _runs(self, replica: int) -> bool:
        return replica != 2 or self.installing is None

    def waiting(self) -> int:
        """How many pieces are on their way."""
        return len(self.cluster.waiting(0, 2, Chunk)) + len(self.cluster.waiting(0, 2, CatchUp))


@pytest.mark.parametrize("piece_s", [0.9, 1.2, 1.8])
def test_a_slow_connection_carries_each_piece_of_a_state_about_once(piece_s):
    slow = Slow(piece_s, keep=0)
    most = 0
    for _ in range(round(60 * piece_s / STEP_S)):
        slow.step()
        most = max(most, slow.waiting())
        if len(slow.cluster.channels[0].members) == 3:
            break
    assert len(slow.cluster.channels[0].members) == 3
    assert slow.sent < 45
    assert most <= 12


def test_the_parts_of_a_state_are_made_as_they_are_sent():
    """A large state made all at once would take memory for all of it, and the master's time."""
    slow = Slow(0.9, keep=0)
    while slow.made < PARTS:
        slow.step()
        assert slow.made <= slow.sent + Settings().transfer_window + 1


@pytest.mark.parametrize("good", [0, 1, 7, PARTS - 1])
def test_a_state_of_which_a_part_cannot_be_made_is_not_taken_for_whole(good):
    """There was no memory for it, say. The learner begins again."""
    slow = Slow(0.01, keep=0)
    make, failed = slow._make_parts, []

    def fail():
        failed.append(good)
        slow._make_parts = make
        yield from [b"part"] * good
        raise MemoryError

    slow._make_parts = fail
    while len(slow.cluster.channels[0].members) < 3:
        slow.step()
    assert failed
    assert any("not available: MemoryError()" in note for note in slow.cluster.notes[0])
    installed = [event for event in slow.cluster.events[2] if isinstance(event, InstallPart)]
    assert [event.number for event in installed if event.index is not None] == [PARTS - 1]


def test_a_list_of_parts_may_be_used_again_at_once():
    slow = Slow(0.01, keep=0)
    parts = [b"part"] * PARTS
    slow._make_parts = lambda: parts
    do = slow._do

    def act(event):
        do(event)
        if isinstance(event, ProvideSnapshot):
            parts.clear()

    slow._do = act
    while len(slow.cluster.channels[0].members) < 3:
        slow.step()
    installed = [event for event in slow.cluster.events[2] if isinstance(event, InstallPart)]
    assert len(installed) == PARTS


@pytest.mark.parametrize(("seconds", "transfers"), [(6.0, 1), (25.0, 2)])
def test_a_learner_that_takes_long_to_install_the_state_keeps_its_place(seconds, transfers):
    """It says nothing for longer than `suspect_s`; without its place it would begin again, for ever."""
    slow = Slow(0.01, keep=0)
    cluster = slow.cluster
    slow.hangs = True
    while slow.installing is None:
        slow.step()
    ends = cluster.now + seconds
    while cluster.now < ends:
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"y"))
        slow.step()
    slow.go()
    for _ in range(200):
        slow.step()
    assert len(cluster.channels[0].members) == 3
    begun = [note for note in cluster.notes[0] if "joins: sends the state" in note]
    assert len(begun) == transfers


@pytest.mark.parametrize("keep", [0, 100])
def test_a_learner_that_stays_behind_forgets_what_all_members_have(keep):
    """As much is submitted as comes here: it never gets near enough to be taken in, for days perhaps."""
    slow = Slow(STEP_S, keep=keep, part_bytes=8, transfer_window=64)
    cluster = slow.cluster
    longest = 0
    for number in range(1000):
        for _ in range(8 if number < 60 else 1):
            cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"y"))
        slow.step()
        longest = max(longest, len(cluster.channels[2].state.log))
    assert cluster.channels[0].members == (0, 1)
    assert cluster.channels[2].state.replicated.applied > 1000
    assert longest <= keep + TRIM_STEP


@pytest.mark.parametrize(("entries", "rest_s"), [(100, 1.6), (150, 1.6), (175, 0.8), (200, 0.0)])
def test_a_transfer_rests_less_once_the_log_that_it_holds_is_nearly_full(entries, rest_s):
    cluster = returning(3, Settings(keep=0, window=16, transfer_window=1, transfer_pause_s=1.6, max_log=200))
    master = cluster.channels[0]

    def asked() -> list[int]:
        return [
            event.token for event in cluster.events[0] if isinstance(event, ProvideSnapshot | ProvidePart)
        ]

    cluster.act(0, lambda channel: channel.part_ready(cluster.now, asked()[-1], b"x", channel.applied))
    cluster.settle()
    while len(master.state.log) < entries:
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle()
    *_, part = [event for event in cluster.events[2] if isinstance(event, InstallPart)]
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, part.token, b"marker"))
    began, before = cluster.now, len(asked())
    cluster.settle()
    while len(asked()) == before:
        cluster.tick(STEP_S)
        cluster.settle()
        assert cluster.now < began + 10
    assert cluster.now - began == pytest.approx(rest_s, abs=2 * STEP_S)
