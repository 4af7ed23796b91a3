"""Causal order in a domain: what is held back, for how long, and what a lost state changes."""

import random
from collections import deque

import pytest

from quorate.agents import Create, Note, agent_spec, encode, factory, outside
from quorate.engine import (
    CausalInput,
    Effects,
    Engine,
    Item,
    NetAck,
    NetPeer,
    Posts,
    StampedNote,
    causal_order,
    encode_batch,
)
from quorate.testing.servers.delivery_checks import Courier, Dispatch

NAMES = {f"s{id}": id for id in range(4)}
Wire = deque[tuple[int, Note]]


class Site:
    """A server without replicas and network: `wires` hold what it has sent."""

    def __init__(self, id: int, birth: int = 1, *, causal: bool = True) -> None:
        self.id = id
        self.engine = Engine(id, NAMES, causal=[range(4)] if causal else [])
        self.wires: dict[int, Wire] = {other: deque() for other in range(4) if other != id}
        self.acks: dict[int, int] = {}
        self.now = birth
        name = f"{Courier.__module__}:{Courier.__qualname__}"
        create = Create(name, "courier", agent_spec(Courier).save(Courier()), None, "courier")
        self.apply(Posts([Note(factory(id), outside(id), Create.type_name, encode(create))]))

    def apply(self, item: Item) -> Effects:
        self.now += 1
        effects = self.engine.apply(self.engine.applied + 1, self.now, encode_batch([item]))
        for peer in effects.births:
            first, notes = self.engine.pending(peer)
            self.wires[peer] = deque((first + at, note) for at, note in enumerate(notes))
        for peer, items in effects.network.items():
            self.wires[peer] += items
        self.acks |= {peer: upto for peer, (_, upto) in effects.net_acks.items()}
        return effects

    def send(self, *path: int) -> None:
        """Send a parcel along a path."""
        note = encode(Dispatch(0, list(path)))
        self.apply(Posts([Note("courier", outside(self.id), Dispatch.type_name, note)]))

    @property
    def received(self) -> int:
        """How many parcels the courier has got."""
        cell = self.engine.find("courier")
        assert cell is not None
        assert isinstance(cell.agent, Courier)
        return cell.agent.received


def meet(*sites: Site) -> None:
    for one in sites:
        for other in sites:
            if one is not other and one.engine.peer_birth(other.id) != other.engine.birth:
                one.apply(NetPeer(other.id, other.engine.birth))


def carry(source: Site, target: Site, count: int = 100) -> Effects:
    """Let the next notifications of a wire arrive."""
    wire = source.wires[target.id]
    items = [wire.popleft() for _ in range(min(count, len(wire)))]
    first = items[0][0] if items else source.engine.link_numbers(target.id).sent + 1
    notes = [note for _, note in items if isinstance(note, StampedNote)]
    settled = source.engine.settled(target.id)
    return target.apply(CausalInput(source.id, source.engine.birth, first, settled, notes))


def acknowledge(source: Site, target: Site) -> None:
    """Let the acknowledgement of what `source` has sent arrive there."""
    source.apply(NetAck(target.id, target.engine.birth, target.acks.get(source.id, 0)))


@pytest.fixture
def sites() -> list[Site]:
    made = [Site(id, 10 + id) for id in range(4)]
    meet(*made)
    return made


def overtake(a: Site, b: Site, c: Site) -> None:
    """Let `a` send to `c`, and then to `b`, which sends to `c`; that one arrives first."""
    a.send(c.id)
    a.send(b.id, c.id)
    carry(a, b)
    carry(b, c)


def test_a_notification_waits_for_an_earlier_one_on_another_way(sites: list[Site]) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    assert (c.received, c.acks[1]) == (0, 0)
    held, awaited = c.engine.awaited(1)
    assert held == 1
    assert awaited is not None
    assert (awaited.source, awaited.count) == (0, 1)
    carry(a, c)
    assert (c.received, c.acks) == (2, {0: 1, 1: 1})
    assert c.engine.awaited(1) == (0, None)


def test_a_notification_of_a_server_not_met_yet_is_waited_for() -> None:
    a, b, c = [Site(id, 10 + id) for id in range(3)]
    meet(a, b)
    meet(b, c)
    overtake(a, b, c)
    assert c.received == 0
    meet(a, c)
    carry(a, c)
    assert c.received == 2


def test_what_is_held_back_survives_in_the_state(sites: list[Site]) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    other = Engine(2, NAMES, causal=[range(4)])
    other.restore(c.engine.snapshot())
    assert other.digest() == c.engine.digest()
    c.engine = other
    carry(a, c)
    assert c.received == 2


def test_a_resent_notification_is_held_back_once(sites: list[Site]) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    first, notes = b.engine.pending(2)
    b.wires[2] = deque((first + at, note) for at, note in enumerate(notes))
    carry(b, c)
    carry(a, c)
    assert c.received == 2


def test_a_server_that_has_lost_its_state_is_not_waited_for(sites: list[Site]) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    again = Site(0, 50)
    meet(again, c)
    assert c.received == 1
    again.send(2)
    carry(again, c)
    assert c.received == 2


def test_what_a_lost_life_has_sent_and_is_held_back_is_lost_with_it(sites: list[Site]) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    again = Site(1, 50)
    lines = c.apply(NetPeer(1, again.engine.birth)).reports
    assert any("1 notifications of the former life of server 1" in line for line in lines)
    carry(a, c)
    again.send(2)
    carry(again, c)
    assert c.received == 2


def test_the_next_life_of_a_receiver_waits_for_what_the_former_had_not_acknowledged(
    sites: list[Site],
) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    carry(a, c)
    acknowledge(b, c)
    b.send(2)
    # Server 0 has no acknowledgement: it sends again, and the others must not overtake it.
    again = Site(2, 50)
    meet(a, b, again)
    carry(b, again)
    assert again.received == 0
    carry(a, again)
    assert again.received == 2


def test_the_next_life_of_a_receiver_does_not_wait_for_what_was_acknowledged(sites: list[Site]) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    carry(a, c)
    acknowledge(a, c)
    again = Site(2, 50)
    meet(a, b, again)
    carry(b, again)
    assert again.received == 0
    carry(a, again)  # It has nothing to send, and says so.
    assert again.received == 1


def test_more_than_may_be_held_back_is_refused_and_comes_again(
    sites: list[Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causal_order, "MAX_HELD", 2)
    a, b, c, _ = sites
    a.send(2)
    a.send(1, 2)
    carry(a, b)
    for _ in range(3):
        b.send(2)
    assert carry(b, c).overfull == {1}
    assert c.engine.awaited(1)[0] == 2
    carry(a, c)
    first, notes = b.engine.pending(2)
    b.wires[2] = deque((first + at, note) for at, note in enumerate(notes))
    assert not carry(b, c).overfull
    assert c.received == 5


def test_without_causal_order_notifications_have_no_place_and_what_was_held_back_is_delivered(
    sites: list[Site],
) -> None:
    a, b, c, _ = sites
    overtake(a, b, c)
    c.send(3)
    plain = Site(2, causal=False)
    capture = c.engine.capture()
    capture.step()
    plain.engine.load(capture.header, capture.agents)
    plain.apply(Posts([]))
    assert plain.received == 1
    assert plain.acks == {1: 1}
    plain.send(3)
    assert {type(note) for note in plain.engine.pending(3)[1]} == {Note}


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_delivered_in_any_order_of_arrival(seed: int, sites: list[Site]) -> None:
    rng = random.Random(seed)
    total = 0
    for _ in range(200):
        site = rng.choice(sites)
        if rng.random() < 0.3:
            path = [rng.choice([id for id in range(4) if id != site.id])]
            path += [id for id in [rng.randrange(4)] if id != path[-1]]
            total += len(path)
            site.send(*path)
        else:
            target = rng.choice([each for each in sites if each is not site])
            carry(site, target, rng.randint(0, 2))
            acknowledge(site, target)
    for _ in range(10):
        for site in sites:
            for target in sites:
                if site is not target:
                    carry(site, target)
                    acknowledge(site, target)
    assert sum(site.received for site in sites) == total
    assert not any(site.engine.backlog for site in sites)
