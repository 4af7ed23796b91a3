"""Two servers whose agents send to each other, and their traces."""

from pathlib import Path

import attrs
import msgspec

from quorate import Agent, Context, Notification, reacts
from quorate.agents import AgentId, Create, Note, agent_spec, connection_manager, encode, factory, outside
from quorate.agents.manager import ConnectionManagerAgent, Open, Opened
from quorate.agents.proxy import CLIENT_INPUT, ClientInput, ClientNote
from quorate.engine import Effects, EngineSettings, Item, NetAck, NetInput, NetPeer, Reaction
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter
from quorate.testing.harness import Harness

SERVERS = {"s0": 0, "s1": 1}
TOURS = 20
Rows = dict[str, list[Reaction]]


@attrs.frozen
class Tour(Notification):
    way: list[str]


@attrs.define
class Station(Agent):
    @reacts
    def tour(self, ctx: Context, note: Tour) -> None:
        if note.way:
            ctx.send(note.way[0], Tour(note.way[1:]))


@attrs.frozen
class Look(Notification):
    times: int


@attrs.define
class Mirror(Agent):
    @reacts
    def look(self, ctx: Context, note: Look) -> None:
        for _ in range(note.times):
            ctx.send(ctx.sender, note)


@attrs.define
class Restless(Agent):
    @reacts
    def tour(self, ctx: Context, note: Tour) -> None:
        ctx.send(ctx.agent, note)
        ctx.send(ctx.agent, note)


class Traced(Harness):
    """A server whose reactions are kept."""

    def __init__(self, server: int) -> None:
        self.rows: list[Reaction] = []
        super().__init__(server, SERVERS, EngineSettings(max_turn=50))

    def apply(self, *items: Item) -> Effects:
        effects = super().apply(*items)
        self.rows += effects.trace
        return effects


class World:
    """Two servers. Twenty notifications have gone from s0 to s1, from agent to agent there, and back."""

    def __init__(self) -> None:
        self.near, self.far = Traced(0), Traced(1)
        self.near.deploy(Station, name="near")
        self.near.deploy(Restless, name="restless")
        self.far.deploy(Station, name="far")
        self.near.apply(NetPeer(1, self.far.engine.birth))
        self.far.apply(NetPeer(0, self.near.engine.birth))
        for _ in range(TOURS):
            self.post("near", "far@s1", "far", "near@s0")

    def post(self, to: str, *way: str) -> None:
        tour = Tour(list(way))
        effects = self.near.post(Note(to, outside(0), tour.type_name, encode(tour)))
        source, target = self.near, self.far
        while effects.network:
            items = next(iter(effects.network.values()))
            numbered = [note for _, note in items]
            own = source.engine
            effects = target.apply(NetInput(own.server, own.birth, items[0][0], numbered))
            birth, upto = effects.net_acks[own.server]
            source.apply(NetAck(target.engine.server, target.engine.birth, upto))
            assert birth == own.birth
            source, target = target, source

    def client(self) -> "Client":
        """Let a client connect to s0, which has a mirror then."""
        self.near.deploy(Mirror, name="mirror")
        manager = connection_manager(0)
        create = Create(agent_spec(ConnectionManagerAgent).location, id=manager)
        self.near.send(factory(0), create)
        (opened,) = self.near.send(manager, Open("root", 60.0, 10))
        assert isinstance(opened, Opened)
        return Client(self.near, opened.connection)

    @property
    def rows(self) -> Rows:
        return {"s0": self.near.rows, "s1": self.far.rows}


@attrs.frozen
class Client:
    """A client that sends to agents of its server through a proxy agent."""

    server: Traced
    proxy: AgentId

    def send(self, first: int, *to: str) -> None:
        """Send notifications, the first of which has a number."""
        self._send(first, *((each, Tour([])) for each in to))

    def ask(self, number: int, to: str, times: int) -> None:
        """Send one notification to a mirror, which answers it several times."""
        self._send(number, (to, Look(times)))

    def _send(self, first: int, *sent: tuple[str, Notification]) -> None:
        notes = [ClientNote(to, note.type_name, encode(note)) for to, note in sent]
        payload = msgspec.msgpack.encode(ClientInput(0, first, notes))
        self.server.post(Note(self.proxy, outside(0), CLIENT_INPUT, payload, 0))


def write(data: Path, rows: Rows) -> None:
    """Write the trace of each server, of one replica."""
    for server, found in rows.items():
        writer = TraceWriter(data / server / "0" / "trace", Origin(server, SERVERS[server], 0, 5, SERVERS))
        writer.write(found)
        writer.close()


def renumbered(rows: list[Reaction], place: int, row: Reaction | None) -> list[Reaction]:
    """Put a row before another one, or leave that one out, as if the server had done so: without a hole."""
    position = rows[place].position
    by = -1 if row is None else 1

    def moved(each: Reaction) -> Reaction:
        later = each.cause >= position if row is not None else each.cause > position
        here = each.sender.host == rows[place].agent.host
        cause = each.cause + by if later and here else each.cause
        return msgspec.structs.replace(each, position=each.position + by, cause=cause)

    rest = rows[place:] if row is not None else rows[place + 1 :]
    return [*rows[:place], *([] if row is None else [row]), *map(moved, rest)]
