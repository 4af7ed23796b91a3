"""A state, and entries, on their way to a learner whose connection is slow."""

import pytest

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.messages import CatchUp, Chunk
from quorate.testing.channel_hand import Hand

STEP_S = 0.05


class Slow:
    """The replica 2 has lost what it had; its connection with the master carries a piece in `piece_s`."""

    def __init__(self, piece_s: float, **settings) -> None:
        self.hand = hand = Hand(settings=Settings(**settings))
        hand.form()
        self._piece_s = piece_s
        self._next = 0.0
        self._acted = {0: 0, 2: 0}
        self.sent = 0
        for _ in range(200):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle()
        for _ in range(3):
            hand.tick(STEP_S)
            hand.settle()
        hand.silence(2)
        hand.settle()
        hand.start(2, 3, 9)
        for other in (0, 1):
            hand.connect(other, 2)

    def step(self) -> None:
        """Time passes."""
        hand = self.hand
        hand.tick(STEP_S)
        wire = hand.wires[0, 2]
        while wire:
            if isinstance(wire[0], Chunk | CatchUp):
                if hand.now < self._next:
                    break
                self._next = hand.now + self._piece_s
                self.sent += 1
            hand.deliver(0, 2, 1)
        for pair in list(hand.wires):
            if pair != (0, 2):
                hand.deliver(*pair)
        for replica, done in self._acted.items():
            self._acted[replica] = len(hand.events[replica])
            for event in hand.events[replica][done:]:
                self._do(event)

    def _do(self, event) -> None:
        hand = self.hand
        if isinstance(event, ProvideSnapshot):
            parts = [b"part"] * 20
            hand.act(0, lambda channel: channel.snapshot_ready(hand.now, event.token, event.index, parts))
        elif isinstance(event, InstallPart):
            hand.act(2, lambda channel: channel.part_installed(hand.now, event.token, b"marker"))

    def waiting(self) -> int:
        """How many pieces are on their way."""
        return len(self.hand.waiting(0, 2, Chunk)) + len(self.hand.waiting(0, 2, CatchUp))


@pytest.mark.parametrize("piece_s", [0.9, 1.2, 1.8])
def test_a_slow_connection_carries_each_piece_of_a_state_about_once(piece_s):
    slow = Slow(piece_s, keep=0)
    most = 0
    for _ in range(round(60 * piece_s / STEP_S)):
        slow.step()
        most = max(most, slow.waiting())
        if len(slow.hand.channels[0].members) == 3:
            break
    assert len(slow.hand.channels[0].members) == 3
    assert slow.sent < 45
    assert most <= 12
