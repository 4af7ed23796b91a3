"""Servers in different domains, joined by a router: s0 and s2 have only s1 in common."""

import attrs
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, UnknownAgent, reacts
from quorate.agents import Note, encode, outside
from quorate.engine import Effects, EngineSettings, NetAck, NetInput, NetPeer, Tick
from quorate.testing.harness import Harness

SERVERS = {"s0": 0, "s1": 1, "s2": 2, "s3": 3}
ROUTES = {0: {1: 1, 2: 1}, 1: {0: 0, 2: 2}, 2: {0: 1, 1: 1}}


@attrs.frozen
class Call(Notification):
    number: int


@attrs.define
class Echo(Agent):
    """Answers who calls, and keeps the failures that it is told."""

    numbers: list[int] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)
    to: str = ""

    @reacts
    def call(self, ctx: Context, note: Call) -> None:
        self.numbers.append(note.number)
        ctx.send(self.to or ctx.sender, note)

    @reacts
    def failed(self, ctx: Context, note: UnknownAgent | ExceptionNotification) -> None:
        self.failures.append(note.agent if isinstance(note, UnknownAgent) else note.error)


class World:
    """Three servers, and what one has for another is carried there at once."""

    def __init__(self) -> None:
        self.replies: list[Note] = []
        self.servers = {server: Harness(server, SERVERS, None, routes) for server, routes in ROUTES.items()}
        for harness in self.servers.values():
            harness.apply(Tick())
        for source, target in ((0, 1), (1, 0), (1, 2), (2, 1)):
            self.servers[source].apply(NetPeer(target, self.servers[target].engine.birth))

    def post(self, server: int, *notes: Note) -> None:
        self.carry(server, self.servers[server].post(*notes))

    def carry(self, source: int, effects: Effects) -> None:
        """Carry notifications, and what follows from them."""
        self.replies += effects.replies
        one = self.servers[source]
        for target, items in effects.network.items():
            other = self.servers[target]
            theirs = other.apply(NetInput(source, one.engine.birth, items[0][0], [note for _, note in items]))
            one.apply(NetAck(target, other.engine.birth, theirs.net_acks[source][1]))
            self.carry(target, theirs)


@pytest.fixture
def world() -> World:
    made = World()
    made.servers[0].deploy(Echo, name="near")
    made.servers[2].deploy(Echo, name="far")
    return made


def call(number: int, to: str = "far@s2", request: int = 0) -> Note:
    return Note(to, outside(0), Call.type_name, encode(Call(number)), request)


def echo(world: World, server: int, name: str) -> Echo:
    agent = world.servers[server].agent(name)
    assert isinstance(agent, Echo)
    return agent


@pytest.mark.parametrize("to", ["far@s2", "far@2", "#2.2.1025"])
def test_a_notification_goes_through_the_router_and_the_answer_comes_back(world: World, to: str) -> None:
    for number in range(3):
        world.post(0, call(number, to, request=number + 1))
    assert echo(world, 2, "far").numbers == [0, 1, 2]
    assert [note.request for note in world.replies] == [1, 2, 3]
    assert world.servers[1].engine.peers() == [0, 2]
    assert world.servers[0].engine.peers() == [1]


def test_only_the_last_link_carries_a_name_without_its_server() -> None:
    sender, router = Harness(0, SERVERS, None, ROUTES[0]), Harness(1, SERVERS, None, ROUTES[1])
    ((_, note),) = sender.post(call(1)).network[1]
    assert note.to == "far@s2"
    ((_, note),) = router.apply(NetInput(0, 5, 1, [note])).network[2]
    assert note.to == "far"
    ((_, note),) = sender.post(call(1, "someone@s1")).network[1]
    assert note.to == "someone"


@pytest.mark.parametrize("to", ["nobody", "nobody@s2", "nobody@s1", "#2.2.9999", "far@s3", "#3.3.1025"])
def test_what_cannot_be_delivered_comes_back_to_its_sender(world: World, to: str) -> None:
    echo(world, 0, "near").to = to
    world.post(0, call(1, "near"))
    assert echo(world, 0, "near").failures == [to]
    assert sum(harness.engine.dead_letters for harness in world.servers.values()) == 1


def test_a_router_that_has_no_way_on_tells_the_sender() -> None:
    router = Harness(1, SERVERS, None, ROUTES[1])
    (answer,) = router.apply(NetInput(0, 5, 1, [call(1, "far@s3", request=9)])).network[0]
    assert (answer[1].to, answer[1].type, answer[1].request) == (outside(0), UnknownAgent.type_name, 9)
    assert router.engine.dead_letters == 1


def test_a_full_router_refuses_to_the_sender() -> None:
    router = Harness(1, SERVERS, EngineSettings(max_waiting=2), ROUTES[1])
    effects = router.apply(NetInput(0, 5, 1, [call(number) for number in range(3)]))
    assert len(effects.network[2]) == 2
    ((_, answer),) = effects.network[0]
    assert answer.type == ExceptionNotification.type_name


def test_a_failure_that_reaches_nobody_is_not_answered() -> None:
    router = Harness(1, SERVERS, None, ROUTES[1])
    lost = Note("far@s3", outside(0), UnknownAgent.type_name, encode(UnknownAgent("x", "y")))
    assert router.apply(NetInput(0, 5, 1, [lost])).network == {}
    assert router.engine.dead_letters == 1
