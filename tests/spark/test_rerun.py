"""Agents of a real engine run again on Spark from their trace."""

import importlib
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import msgspec
import pytest
from click.testing import CliRunner

from quorate.agents import AgentId, Create, Delete, Note, encode, factory, outside
from quorate.agents import Notification as Message
from quorate.engine import Engine, Posts, Tick, encode_batch
from quorate.replay import NoTrace, ReplayError, RerunReport, rerun, state_at, totals, verify
from quorate.replay.command import command
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

SERVERS = {"s0": 0, "s1": 1}
CODE = """
import attrs
from quorate import Agent, Context, Notification, reacts

FEE = 0

@attrs.frozen
class Deposit(Notification):
    amount: int

@attrs.frozen
class Balance(Notification):
    amount: int

@attrs.frozen
class Interest(Notification):
    pass

@attrs.frozen
class Transfer(Notification):
    to: str

@attrs.define
class Account(Agent):
    balance: int = 0
    last: float = 0.0
    luck: dict[str, float] = attrs.Factory(dict)
    child: str = ""
    refused: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        self.balance += note.amount - FEE
        if note.amount < 0:
            raise ValueError("a deposit is positive")
        self.last = ctx.now
        self.luck[str(note.amount)] = ctx.random.random()
        if note.amount == 13:
            ctx.timer(5, Interest())
            self.child = str(ctx.create(Account, state={"balance": 1}))
        if note.amount == 99:
            ctx.delete()
        ctx.send(ctx.sender, Balance(self.balance))

    @reacts
    def transfer(self, ctx: Context, note: Transfer) -> None:
        try:
            ctx.send(note.to, Deposit(1))
            self.balance -= 1
        except ValueError:
            self.refused += 1

    @reacts
    def interest(self, ctx: Context, note: Interest) -> None:
        self.balance += 1000
"""


@attrs.define
class Traced:
    """An engine whose reactions are collected."""

    module: ModuleType
    engine: Engine = attrs.field(factory=lambda: Engine(0, SERVERS))
    now_ns: int = 1_700_000_000_000_000_000
    trace: list[Any] = attrs.field(factory=list)

    def post(self, to: AgentId | str, message: Message) -> list[Note]:
        return self.apply(Posts([Note(to, outside(0), message.type_name, encode(message), 7)]))

    def apply(self, item: Any) -> list[Note]:
        self.now_ns += 1_000_000_000
        effects = self.engine.apply(self.engine.applied + 1, self.now_ns, encode_batch([item]))
        self.trace += effects.trace
        return effects.replies


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("code")
    (place / "traced_bank.py").write_text(CODE)
    sys.path.insert(0, str(place))
    try:
        run = Traced(importlib.import_module("traced_bank"))
        deposit: Any = run.module.Deposit
        names = ["alice", "bob", "carol", "dave"]
        for name in names:
            run.post(factory(0), Create("traced_bank:Account", name=name))
        for amount in range(1, 60):
            for name in names:
                run.post(name, deposit(amount))
        run.post("alice", deposit(-5))
        for to in ("dora@s1", "nobody@s9"):
            run.post("bob", run.module.Transfer(to))
        run.post("carol", deposit(99))
        run.post("carol", deposit(1))  # a dead letter
        run.post(factory(0), Delete("dave"))
        for _ in range(10):
            run.apply(Tick())
        yield run
    finally:
        sys.path.remove(str(place))
        sys.modules.pop("traced_bank", None)


@pytest.fixture(scope="module")
def data(traced: Traced, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    store(data, traced.trace)
    store(data, traced.trace, replica=1)
    return data


def store(data: Path, rows: list[Any], replica: int = 0) -> None:
    writer = TraceWriter(data / "s0" / str(replica) / "trace", Origin("s0", 0, replica, 1, SERVERS))
    writer.write(rows)
    writer.close()


@pytest.fixture(scope="module")
def again(session: Any, data: Path) -> RerunReport:
    return rerun(session, data)


def ident(traced: Traced, name: str) -> str:
    return next(str(one.agent) for one in traced.trace if one.kind == "create" and one.name == name)


def test_every_agent_ends_in_the_state_it_has_in_the_engine(again: RerunReport, traced: Traced) -> None:
    assert again.problems == []
    live = {str(cell.identity): cell for cell in traced.engine.cells()}
    assert {agent.agent for agent in again.agents if agent.state is not None} - live.keys() <= {
        ident(traced, "carol")
    }
    for agent, cell in live.items():
        account: Any = cell.agent
        state = again.state(agent)
        assert state is not None
        assert state["balance"] == account.balance
        assert state["last"] == account.last
        assert state["luck"] == account.luck
    assert again.reactions == sum(one.kind == "react" and bool(one.cls) for one in traced.trace)


def test_a_deleted_agent_is_reported_as_deleted(again: RerunReport, traced: Traced) -> None:
    dave = again.agent(ident(traced, "dave"))
    assert (dave.deleted, dave.state) == (True, None)


def test_a_reaction_that_raised_raises_again_and_is_undone(again: RerunReport, traced: Traced) -> None:
    alice = again.agent(ident(traced, "alice"))
    assert (alice.errors, alice.diverged) == (1, None)


def test_a_reaction_that_asked_for_a_server_that_does_not_exist_is_run_again(
    again: RerunReport, traced: Traced
) -> None:
    bob = again.agent(ident(traced, "bob"))
    assert (bob.diverged, bob.skipped) == (None, "")
    assert bob.state is not None
    assert bob.state["refused"] == 1


def test_the_state_at_an_earlier_position_can_be_asked_for(session: Any, data: Path, traced: Traced) -> None:
    alice = ident(traced, "alice")
    deposits = [one.position for one in traced.trace if str(one.agent) == alice and one.kind == "react"]
    result = state_at(session, data, alice, deposits[2])
    assert result.state is not None
    assert (result.state["balance"], result.last) == (1 + 2 + 3, deposits[2])
    with pytest.raises(NoTrace, match=r"does not know an agent #0\.0\.9 up to position 5"):
        state_at(session, data, "#0.0.9", 5)


def test_the_command_says_all_is_well_and_compares_live_states(
    session: Any, data: Path, traced: Traced, again: RerunReport, tmp_path: Path
) -> None:
    alice, bob = ident(traced, "alice"), ident(traced, "bob")
    live = tmp_path / "live.json"
    live.write_text("\n".join(json.dumps({"id": name, "state": again.state(name)}) for name in (alice, bob)))
    keep = _KeepSession(session)
    with keep:
        fine = CliRunner().invoke(command, ["verify", str(data), "--live", str(live)])
        assert fine.exit_code == 0, fine.output
        assert "s0: replicas 0 and 1 agree at all" in fine.output
        assert "first, are not among the live states, so not compared" in fine.output
        live.write_text(json.dumps({alice: {**(again.state(alice) or {}), "balance": -1}}))
        other = CliRunner().invoke(command, ["verify", str(data), "--live", str(live), "--json"])
    assert other.exit_code == 1
    assert "live -1" in json.loads(other.stdout)["problems"][0]


def test_totals_and_states_say_that_a_file_could_not_be_read(
    session: Any, traced: Traced, tmp_path: Path
) -> None:
    store(tmp_path, traced.trace)
    empty = tmp_path / "s0" / "0" / "trace" / "1-000002.parquet"
    empty.touch()
    with _KeepSession(session):
        counted = CliRunner().invoke(command, ["totals", str(tmp_path), "--json"])
        shown = CliRunner().invoke(command, ["show", str(tmp_path), "--agent", ident(traced, "bob")])
    for done in (counted, shown):
        assert (done.exit_code, done.stderr) == (1, f"quorate: {empty}: it is empty\n")
    assert json.loads(counted.stdout)["problems"] == [f"{empty}: it is empty"]
    assert json.loads(shown.stdout)["state"]["refused"] == 1


def test_a_file_that_is_damaged_between_two_jobs_ends_the_second(
    session: Any, traced: Traced, tmp_path: Path
) -> None:
    store(tmp_path, traced.trace)
    store(tmp_path, traced.trace, replica=1)
    report = verify(session, tmp_path)
    (tmp_path / "s0" / "0" / "trace" / "1-000001.parquet").write_bytes(b"")
    for job in (rerun, totals):
        with pytest.raises(ReplayError, match=r"changed since the traces were verified: .*: it is empty"):
            job(session, tmp_path, report=report)


def test_changed_code_is_told_by_its_outputs(
    session: Any, data: Path, traced: Traced, tmp_path: Path
) -> None:
    """The workers keep what they have imported, so the changed class goes under another name."""
    changed = tmp_path / "changed_bank.py"
    changed.write_text(CODE.replace("FEE = 0", "FEE = 1"))
    sys.path.insert(0, str(tmp_path))
    try:
        store(tmp_path, [_renamed(one) for one in traced.trace])
        result = rerun(session, tmp_path)
    finally:
        sys.path.remove(str(tmp_path))
    alice = result.agent(ident(traced, "alice"))
    assert alice.diverged == next(
        one.position for one in traced.trace if str(one.agent) == alice.agent and one.kind == "react"
    )
    assert "is not what the trace says" in alice.difference


def test_a_class_that_cannot_be_imported_is_one_sentence(
    session: Any, traced: Traced, tmp_path: Path
) -> None:
    rows = [msgspec.structs.replace(one, cls=one.cls and "nowhere_bank:Account") for one in traced.trace]
    store(tmp_path, rows)
    problems = rerun(session, tmp_path).problems
    assert len(problems) == 1
    assert "module nowhere_bank cannot be found" in problems[0]


def _renamed(one: Any) -> Any:
    return msgspec.structs.replace(
        one,
        cls=one.cls.replace("traced_bank", "changed_bank"),
        type=one.type.replace("traced_bank", "changed_bank"),
    )


class _KeepSession:
    """Commands stop their session when they end; this one is still needed."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        kept = nullcontext(self._session)
        for name in ("local_session", "spark_session"):
            self._patch.setattr(f"quorate.replay.options.{name}", lambda **_: kept)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
