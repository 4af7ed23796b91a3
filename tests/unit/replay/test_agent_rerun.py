"""An agent run again where the traces do not know every server."""

from collections.abc import Mapping

import attrs
import msgspec
import pytest

from quorate import Agent, Context, Notification, reacts, upgrades
from quorate.agents import Create, Note, agent_spec, connection_manager, factory, outside
from quorate.agents.manager import ConnectionManagerAgent, Open, Opened
from quorate.agents.proxy import CLIENT_INPUT, ClientInput, ClientNote
from quorate.engine import ClassVersions, Effects, Rerun
from quorate.replay.agent_rerun import AgentRerun, Record
from quorate.testing.harness import Harness

SERVERS = {"s0": 0, "s1": 1}


@attrs.frozen
class Go(Notification):
    to: str


@attrs.define
class Caller(Agent):
    """Writes to a name, and counts those it cannot write to if it is careful."""

    careful: bool = False
    calls: int = 0

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        self.calls += 1
        try:
            ctx.send(note.to, note)
        except ValueError:
            if not self.careful:
                raise


class Recording(Harness):
    """Keeps its trace."""

    def replay(self, index: int, now_ns: int, payload: bytes) -> Effects:
        effects = super().replay(index, now_ns, payload)
        self.trace = [*getattr(self, "trace", []), *effects.trace]
        return effects


def run_again(
    names: Mapping[str, int],
    *calls: str,
    careful: bool = False,
    cls: type[Agent] = Caller,
    configured: Mapping[str, int] | None = None,
) -> AgentRerun:
    """What the agent did in an engine that knows `SERVERS`, run again with `names` and `configured`."""
    harness = Recording(0, SERVERS)
    harness.deploy(cls, name="caller", **({"careful": True} if careful else {}))
    for call in calls:
        harness.send("caller", Go(call))
    agent = AgentRerun("s0", "#0.0.1025", names)
    for record in records(harness, "#0.0.1025"):
        agent.apply(record, configured)
    return agent


def records(harness: Recording, agent: str) -> list[Record]:
    """The rows of one agent in the trace."""
    rows = [row for row in harness.trace if str(row.agent) == agent]
    fields = [{name: getattr(row, name) for name in Record.__struct_fields__} for row in rows]
    return [Record(**each | {"agent": agent, "sender": str(each["sender"])}) for each in fields]


def test_a_server_that_did_not_exist_does_not_exist_when_run_again() -> None:
    result = run_again({"s0": 0}, "a@s9", "a@s1").result()
    assert (result["diverged"], result["skipped"], result["errors"]) == (None, "", 1)
    assert result["state"] == '{"careful":false,"calls":1}'


def test_an_agent_that_reacted_to_an_unknown_server_is_not_compared() -> None:
    known = run_again(SERVERS, "a@s1", careful=True).result()
    assert (known["diverged"], known["skipped"]) == (None, "")
    result = run_again({"s0": 0}, "a@s1", "a@s9", careful=True).result()
    assert result["diverged"] is None
    assert "it addresses the server 's9', of which the traces say nothing" in result["skipped"]
    assert result["state"] is None


def test_an_agent_that_reacted_to_a_server_that_did_not_exist_is_run_again_if_all_servers_are_known() -> None:
    result = run_again({"s0": 0}, "a@s1", "a@s9", careful=True, configured=SERVERS).result()
    assert (result["diverged"], result["skipped"], result["errors"]) == (None, "", 0)
    assert result["state"] == '{"careful":true,"calls":2}'


def test_a_proxy_whose_client_asked_an_agent_of_a_server_that_does_not_exist_is_run_again() -> None:
    harness = Recording(0, SERVERS)
    harness.send(factory(0), Create(agent_spec(ConnectionManagerAgent).location, id=connection_manager(0)))
    (opened,) = harness.send(connection_manager(0), Open("root", 60.0, 10))
    assert isinstance(opened, Opened)
    proxy = opened.connection
    asked = [ClientNote("bank@s9", "bank:Ask", b"\x80", 1), ClientNote("bank@s1", "bank:Ask", b"\x80", 2)]
    payload = msgspec.msgpack.encode(ClientInput(0, 1, asked))
    harness.post(Note(proxy, outside(0), CLIENT_INPUT, payload, 0))
    agent = AgentRerun("s0", str(proxy), {"s0": 0})
    for record in records(harness, str(proxy)):
        agent.apply(record, SERVERS)
    result = agent.result()
    assert (result["diverged"], result["skipped"], result["errors"]) == (None, "", 0)


@attrs.define
class Maker(Agent):
    """Creates an agent on a server, and keeps what is wrong with that."""

    refused: str = ""

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        try:
            ctx.create(Caller, server=int(note.to))
        except ValueError as error:
            self.refused = str(error)


def test_a_server_number_that_did_not_exist_does_not_exist_when_run_again() -> None:
    result = run_again({"s0": 0}, "1", "9", cls=Maker, configured=SERVERS).result()
    assert (result["diverged"], result["skipped"]) == (None, "")
    assert result["state"] == '{"refused":"there is no server 9; there are: s0, s1"}'


@attrs.define
class Raiser(Agent):
    """Raises what the agents of others would not."""

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        raise {"half": ValueError("\udce9"), "interrupt": KeyboardInterrupt(), "exit": SystemExit(3)}[note.to]


def test_every_kind_of_exception_is_raised_again() -> None:
    result = run_again(SERVERS, "half", "interrupt", "exit", cls=Raiser).result()
    assert (result["errors"], result["diverged"], result["skipped"]) == (3, None, "")


def test_a_reaction_that_the_administrator_skipped_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Recording(0, SERVERS)
    harness.deploy(Caller, name="caller")
    harness.send("caller", Go("a@s1"))
    current = harness.engine.current
    monkeypatch.setattr(
        current, "skips", {harness.engine.position + 1: (harness.engine.applied + 1, current.birth)}
    )
    harness.send("caller", Go("a@s1"))
    agent = AgentRerun("s0", "#0.0.1025", SERVERS)
    *others, skipped = records(harness, "#0.0.1025")
    for record in others:
        agent.apply(record)
    monkeypatch.setattr(Rerun, "apply", None)
    agent.apply(skipped)
    result = agent.result()
    assert (result["reactions"], result["omitted"], result["diverged"], result["skipped"]) == (1, 1, None, "")


def test_an_interrupt_that_the_trace_does_not_know_ends_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rerun, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_again(SERVERS, "a@s1")


@attrs.define
class Once(Agent, name="rerun-test.counter", version=1):
    count: int = 0

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        self.count += 1
        ctx.send(ctx.sender, Go(str(self.count)))


@attrs.define
class Twice(Agent, name="rerun-test.counter", version=2):
    total: int = 0

    @staticmethod
    @upgrades(from_version=1)
    def as_total(values: dict[str, int]) -> dict[str, int]:
        return {"total": values["count"] * 2}

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        self.total += 2
        ctx.send(ctx.sender, Go(str(self.total)))


def test_an_agent_is_upgraded_where_its_server_switched_to_a_later_class() -> None:
    harness = Recording(0, SERVERS)
    harness.deploy(Once, name="counter")
    harness.send("counter", Go(""))
    harness.apply(ClassVersions({"rerun-test.counter": 2}))
    assert harness.send("counter", Go("")) == [Go("4")]
    agent = AgentRerun("s0", "#0.0.1025", SERVERS)
    for reaction in harness.trace:
        if str(reaction.agent) == "#0.0.1025":
            fields = {name: getattr(reaction, name) for name in Record.__struct_fields__}
            agent.apply(Record(**{**fields, "agent": str(reaction.agent), "sender": str(reaction.sender)}))
    result = agent.result()
    assert (result["reactions"], result["skipped"], result["diverged"]) == (2, "", None)
