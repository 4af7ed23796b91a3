"""Random faults, by seed: connections break, members are cut off, killed and started again."""

import random
from typing import Any

import attrs
import pytest

from quorate.hachannel.model.messages import Message, decode_message
from quorate.testing.servers.memory_network import MemoryNet

SEEDS = range(8)


class World:
    """Three places for members; at most one of them is in trouble at a time."""

    def __init__(self, net: MemoryNet, new: Any, seed: int) -> None:
        self.net = net
        self.new = new
        self.random = random.Random(seed)
        self.lives = [0, 0, 0]
        self.members = [self.start(me) for me in range(3)]
        self.all = list(self.members)
        self.sent: dict[tuple[int, int], int] = {}

    def start(self, me: int) -> Any:
        self.lives[me] += 1
        member = self.new(self.net, me, 3, incarnation=self.lives[me])
        return member.join()

    def send(self) -> None:
        me = self.random.randrange(3)
        key = (me, self.lives[me])
        for _ in range(self.random.choice((1, 1, 1, 5, 40))):
            self.sent[key] = self.sent.get(key, 0) + 1
            self.members[me].send(b"%d %d %d" % (*key, self.sent[key]))

    def trouble(self) -> None:
        kind = self.random.choice(("break", "cut", "cut one", "kill"))
        victim = self.random.randrange(3)
        other = (victim + self.random.choice((1, 2))) % 3
        pause = self.random.choice((0.02, 0.3, 3.0, 6.0))
        if kind == "break" and self.net.wires:
            self.random.choice(self.net.wires).break_off()
        elif kind == "cut one":
            self.net.cut(f"m{victim}", f"m{other}")
            self.run(pause)
            self.net.heal()
        elif kind == "cut":
            for peer in range(3):
                if peer != victim:
                    self.net.cut(f"m{victim}", f"m{peer}")
            self.run(pause)
            self.net.heal()
        elif kind == "kill":
            self.members[victim].kill()
            self.run(pause)
            self.net.heal()
            self.members[victim] = self.start(victim)
            self.all.append(self.members[victim])
            # Whoever has lost its memory must be back before the next one may lose his.
            self.net.until(lambda: bool(self.members[victim].joined), limit_s=120)

    def run(self, seconds: float) -> None:
        end = self.net.clock.seconds() + seconds
        while self.net.clock.seconds() < end:
            self.send()
            self.net.advance(self.random.uniform(0.001, 0.2), step_s=0.002)

    def settled(self) -> bool:
        positions = {member.group.position for member in self.members}
        waiting = [member for member in self.members if member.group._order.in_flight]
        return len(positions) == 1 and not waiting


@pytest.mark.parametrize("seed", SEEDS)
def test_through_random_faults_there_is_one_order_without_loss(net: MemoryNet, make: Any, seed: int) -> None:
    world = World(net, type(make(0)), seed)
    net.until(lambda: all(member.joined for member in world.members))
    for _ in range(6):
        world.run(0.2)
        world.trouble()
    net.until(world.settled, limit_s=120)
    order = world.members[0].log
    assert [index for index, _, _ in order] == list(range(1, len(order) + 1))
    for member in world.all:
        # Of those who were killed: a part of the same order.
        assert member.log == order[: len(member.log)]
    got: dict[tuple[int, int], list[int]] = {}
    for _, origin, payload in order:
        me, life, number = map(int, payload.split())
        assert me == origin
        got.setdefault((me, life), []).append(number)
    for key, numbers in got.items():
        assert numbers == list(range(1, len(numbers) + 1))
        if world.lives[key[0]] == key[1]:
            assert len(numbers) == world.sent[key]
    for member in world.members:
        indices = [index for index, origin, payload in order if origin == member.me]
        mine = [result for result in member.results if isinstance(result, int)]
        assert mine == indices[len(indices) - len(mine) :]
        assert len(mine) == world.sent.get((member.me, world.lives[member.me]), 0)


def test_a_connection_that_breaks_while_a_message_is_sent_changes_no_order(
    net: MemoryNet, three: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = three[0].group
    assert group.role == "master"
    net.advance(1)
    said: list[Message] = []
    sent: list[Message] = []
    drain, send = group._channel.drain, group._driver.transport.send

    def drain_and_note(**options: Any) -> Any:
        out = drain(**options)
        said.extend(message for peer, message in out.messages if peer == 2)
        return out

    def note_and_send(peers: list[int], bodies: list[bytes]) -> None:
        sent.extend(decode_message(body) for body in bodies if 2 in peers)
        send(peers, bodies)

    monkeypatch.setattr(group._channel, "drain", drain_and_note)
    monkeypatch.setattr(group._driver.transport, "send", note_and_send)
    # Member 1 reads nothing, has no room for what is sent to it, and is known to be gone.
    monkeypatch.setattr(group._driver.transport, "ended", lambda peer: True)
    link = group._driver.transport._peers[1].link
    link._settings = attrs.evolve(link._settings, buffer_bytes=10)
    link.pauseProducing()
    three[0].send(b"x" * 100)
    net.until(lambda: three[0].results == [1])
    assert three[0].group.members[:2] == (0, 2)
    assert sent == said


def test_a_member_that_waits_long_logs_for_whom_and_what_to_do(net: MemoryNet, make: Any) -> None:
    one = make(0).join()
    net.advance(1.5)
    assert not any(line.startswith("waits") for line in one.lines)
    net.advance(30)
    sentence = (
        "waits for the others before the very first start: 1 of 3 expected are here, "
        "this replica hears none; start replicas 1, 2"
    )
    assert one.group.waits_for == sentence
    assert one.lines.count(sentence) == 1
    others = [make(1).join(), make(2).join()]
    net.until(lambda: all(len(member.group.members) == 3 for member in [one, *others]))
    net.advance(1)
    assert [member.group.waits_for for member in [one, *others]] == ["", "", ""]


def test_a_group_without_majority_logs_what_to_do(net: MemoryNet, three: list[Any]) -> None:
    three[1].kill()
    net.until(lambda: three[0].group.members == (0, 2))
    three[0].kill()
    net.advance(30)
    [said] = [line for line in three[2].lines if line.startswith("too few replicas of view 2")]
    assert said.endswith(
        "this one hears none; if replica 0 or 1 still run, let them go on if they are frozen, or mend the "
        "network; if they have ended, what the cluster held is lost: stop all replicas and "
        "start them again, they begin with nothing"
    )
    assert three[2].group.waits_for == said
