from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from quorate.hachannel import Group, GroupLimits, Settings
from quorate.hachannel.model.events import ViewEvent
from quorate.testing.servers.memory_network import MemoryNet


class Member:
    """A member whose state is the list of everything delivered."""

    def __init__(self, net: MemoryNet, me: int, size: int, *, host: str = "", **options: Any) -> None:
        self.net = net
        self.me = me
        self.size = size
        self.log: list[tuple[int, int, bytes]] = []
        self.views: list[ViewEvent] = []
        self.lines: list[str] = []
        self.results: list[Any] = []
        self.received = 0
        usual: dict[str, Any] = {
            "name": "test",
            "addresses": {id: (f"m{id}", 100) for id in range(size)},
            "incarnation": 1,
        }
        given = {**usual, **options}
        reactor = net.machine(host or f"m{me}")
        self.group = Group(me=me, handler=self, reactor=reactor, log=self.lines.append, **given)
        self.joined: list[Any] = []

    def kill(self) -> None:
        """The process dies: nobody hears of it again, and its connections break."""
        for other in range(self.size):
            if other != self.me:
                self.net.cut(f"m{self.me}", f"m{other}")
        self.net.crash(f"m{self.me}")
        self.group.stopped.addErrback(lambda failure: None)
        self.group._finish(None)

    def join(self) -> "Member":
        self.group.join().addBoth(self.joined.append)
        return self

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.group.multicast(payload).addBoth(self.results.append)

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        self.log.append((index, origin, payload))

    def view_changed(self, view: ViewEvent) -> None:
        self.views.append(view)

    def provide_state(self) -> list[bytes]:
        return [b"%d %d %s" % row for row in self.log]

    def receive_state(self, chunks: list[bytes]) -> None:
        self.received += 1
        self.log = []
        for chunk in chunks:
            index, origin, payload = chunk.split(b" ", 2)
            self.log.append((int(index), int(origin), payload))


@pytest.fixture
def net() -> MemoryNet:
    return MemoryNet()


@pytest.fixture
def make(net: MemoryNet) -> Callable[..., Member]:
    """Make a member that has not joined: its id, the number of members, options of Group."""

    def build(me: int, size: int = 3, **options: Any) -> Member:
        return Member(net, me, size, **options)

    return build


@pytest.fixture
def again(net: MemoryNet, make: Callable[..., Member]) -> Callable[..., Member]:
    """Start a killed member again, each time as another incarnation."""
    incarnations = count(2)

    def start(me: int, size: int = 3, **options: Any) -> Member:
        net.cuts = {pair for pair in net.cuts if f"m{me}" not in pair}
        return make(me, size, incarnation=next(incarnations), **options).join()

    return start


@pytest.fixture
def three(net: MemoryNet, make: Callable[..., Member]) -> list[Member]:
    """Three members in one view."""
    members = [make(me).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    return members


@pytest.fixture
def past(net: MemoryNet, make: Callable[..., Member]) -> list[Member]:
    """Three members, of which two have joined and sent more than their log keeps; the last has not."""
    options = {"settings": Settings(keep=0, window=16), "limits": GroupLimits(pack_messages=1), "expected": 2}
    members = [make(me, **options) for me in range(3)]
    for member in members[:2]:
        member.join()
    net.until(lambda: all(member.group.members for member in members[:2]))
    members[0].send(*(b"0:%d" % number for number in range(1, 151)))
    members[1].send(*(b"1:%d" % number for number in range(1, 51)))
    net.until(lambda: len(members[1].log) == 200)
    net.advance(0.5)
    return members
