"""Links between servers that may lose their state: lives, and what is numbered anew."""

import random

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.agents import AgentId, Note, encode, outside
from quorate.engine import Effects, NetAck, NetInput, NetPeer, Posts, Tick
from quorate.testing.harness import Harness

SERVERS = {"s0": 0, "s1": 1}


@attrs.frozen
class Mark(Notification):
    number: int


@attrs.define
class Book(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def mark(self, ctx: Context, note: Mark) -> None:
        self.numbers.append(note.number)


def marks(*numbers: int, to: str = "book@s1") -> list[Note]:
    return [Note(to, AgentId(0, 0, 1025), Mark.type_name, encode(Mark(number))) for number in numbers]


def numbers(harness: Harness) -> list[int]:
    book = harness.agent("book")
    assert isinstance(book, Book)
    return book.numbers


def sent(effects: Effects) -> list[tuple[int, bytes]]:
    return [(seq, note.payload) for seq, note in effects.network.get(1, [])]


@pytest.fixture
def harness() -> Harness:
    made = Harness(0, SERVERS)
    made.deploy(Book, name="book")
    return made


def test_a_server_is_born_with_its_first_entry_and_keeps_its_birth() -> None:
    harness = Harness(0, SERVERS)
    assert harness.engine.birth == 0
    born = harness.now_ns
    harness.apply(Tick())
    harness.advance(5)
    assert harness.engine.birth == born
    other = Harness(0, SERVERS)
    other.engine.restore(harness.engine.snapshot())
    assert other.engine.birth == born
    assert other.engine.digest() == harness.engine.digest()


def test_the_digest_tells_another_birth_of_a_peer(harness: Harness) -> None:
    other = Harness(0, SERVERS)
    other.deploy(Book, name="book")
    assert other.engine.digest() == harness.engine.digest()
    harness.apply(NetPeer(1, 7))
    other.apply(NetPeer(1, 8))
    assert other.engine.digest() != harness.engine.digest()


def test_a_peer_that_is_met_gets_what_waited_for_it(harness: Harness) -> None:
    harness.apply(Posts(marks(1, 2)))
    effects = harness.apply(NetPeer(1, 7))
    assert effects.births == {1: 7}
    assert effects.reports == []
    assert harness.engine.peer_birth(1) == 7
    first, waiting = harness.engine.pending(1)
    assert (first, len(waiting)) == (1, 2)
    assert harness.apply(NetPeer(1, 7)).births == {}


def test_a_new_life_of_a_peer_gets_what_waits_numbered_from_one(harness: Harness) -> None:
    harness.apply(NetPeer(1, 7))
    harness.apply(Posts(marks(1, 2, 3)))
    harness.apply(NetAck(1, 7, 2))
    effects = harness.apply(NetPeer(1, 8))
    assert effects.births == {1: 8}
    assert "server 1 has begun a new life without its state: the 1 notifications" in effects.reports[0]
    first, waiting = harness.engine.pending(1)
    assert (first, [note.payload for note in waiting]) == (1, [encode(Mark(3))])
    assert sent(harness.apply(Posts(marks(4)))) == [(2, encode(Mark(4)))]


def test_what_a_new_life_sends_from_one_is_not_repeated(harness: Harness) -> None:
    harness.apply(NetInput(1, 7, 1, marks(1, 2, to="book")))
    effects = harness.apply(NetInput(1, 8, 1, marks(10, to="book")))
    assert effects.net_acks == {1: (8, 1)}
    assert effects.births == {1: 8}
    assert numbers(harness) == [1, 2, 10]
    assert (harness.engine.received(1, 7), harness.engine.received(1, 8)) == (0, 1)


def test_no_acknowledgement_of_an_old_life_drops_what_the_new_one_has_not(harness: Harness) -> None:
    harness.apply(NetPeer(1, 7))
    harness.apply(Posts(marks(1, 2, 3)))
    harness.apply(NetPeer(1, 8), NetAck(1, 7, 3))
    assert (harness.engine.pending(1)[0], harness.engine.backlog) == (1, 3)
    harness.apply(NetAck(1, 8, 1))
    assert (harness.engine.pending(1)[0], harness.engine.backlog) == (2, 2)


def test_what_was_numbered_for_the_old_life_in_the_same_entry_does_not_leave(harness: Harness) -> None:
    harness.apply(NetPeer(1, 7))
    harness.apply(Posts(marks(1)))
    harness.apply(NetAck(1, 7, 1))
    effects = harness.apply(Posts(marks(2)), NetPeer(1, 8), Posts(marks(3)))
    assert sent(effects) == [(2, encode(Mark(3)))]
    assert [note.payload for note in harness.engine.pending(1)[1]] == [encode(Mark(2)), encode(Mark(3))]


class Life:
    """A server from its birth until it loses its state."""

    def __init__(self, server: int, now_ns: int) -> None:
        self.harness = Harness(server, SERVERS)
        self.harness.now_ns = now_ns
        self.harness.deploy(Book, name="book")
        self.posted = 0

    @property
    def birth(self) -> int:
        return self.harness.engine.birth

    def got(self, other: "Life") -> list[int]:
        return [number % 1_000_000 for number in numbers(self.harness) if number // 1_000_000 == other.birth]

    def post(self, count: int) -> None:
        for _ in range(count):
            self.posted += 1
            number = self.birth * 1_000_000 + self.posted
            note = Note(
                f"book@s{1 - self.harness.engine.server}",
                outside(self.harness.engine.server),
                Mark.type_name,
                encode(Mark(number)),
            )
            self.harness.post(note)


def exchange(rng: random.Random, sender: Life, receiver: Life) -> None:
    """One connection of the sender: the hello, then some data, of which some is acknowledged."""
    one, other = sender.harness, receiver.harness
    if one.engine.peer_birth(other.engine.server) != receiver.birth:
        one.apply(NetPeer(other.engine.server, receiver.birth))
    first, waiting = one.engine.pending(other.engine.server)
    upto = other.engine.received(one.engine.server, sender.birth)
    assert first - 1 <= upto
    one.apply(NetAck(other.engine.server, receiver.birth, upto))
    first, waiting = one.engine.pending(other.engine.server)
    start = 0
    while start < len(waiting) and rng.random() < 0.8:
        size = rng.randint(1, 5)
        notes = waiting[start : start + size]
        effects = other.apply(NetInput(one.engine.server, sender.birth, first + start, notes))
        start += len(notes)
        birth, upto = effects.net_acks[one.engine.server]
        assert birth == sender.birth
        if rng.random() < 0.7:
            one.apply(NetAck(other.engine.server, receiver.birth, upto))


@pytest.mark.parametrize("seed", range(60))
def test_lives_of_either_side_get_every_notification_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    now_ns = 1
    lives: list[list[Life]] = [[Life(0, 1)], [Life(1, 2)]]
    for _ in range(60):
        now_ns += 1
        side = rng.randrange(2)
        if rng.random() < 0.1:
            lives[side].append(Life(side, now_ns + 2))
            now_ns += 2
        lives[rng.randrange(2)][-1].post(rng.randint(0, 4))
        exchange(rng, lives[side][-1], lives[1 - side][-1])
    while any(lives[side][-1].harness.engine.backlog for side in (0, 1)):
        for side in (0, 1):
            exchange(rng, lives[side][-1], lives[1 - side][-1])
    for side in (0, 1):
        for sender in lives[side]:
            everything: set[int] = set()
            for receiver in lives[1 - side]:
                got = receiver.got(sender)
                if got:
                    assert got == list(range(got[0], got[-1] + 1)), "in order, without repetition or gap"
                    assert everything == set() or got[0] <= max(everything) + 1, "nothing is left out"
                everything.update(got)
            if sender is lives[side][-1]:
                assert everything == set(range(1, sender.posted + 1))
