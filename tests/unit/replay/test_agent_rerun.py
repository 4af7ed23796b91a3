"""An agent run again where the traces do not know every server."""

from collections.abc import Mapping

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.engine import Effects, Rerun
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
    names: Mapping[str, int], *calls: str, careful: bool = False, cls: type[Agent] = Caller
) -> AgentRerun:
    """What the agent did in an engine that knows `SERVERS`, run again with `names`."""
    harness = Recording(0, SERVERS)
    harness.deploy(cls, name="caller", **({"careful": True} if careful else {}))
    for call in calls:
        harness.send("caller", Go(call))
    agent = AgentRerun("s0", "#0.0.1025", names)
    for row in harness.trace:
        if str(row.agent) == "#0.0.1025":
            fields = {name: getattr(row, name) for name in Record.__struct_fields__}
            agent.apply(Record(**fields | {"agent": str(row.agent), "sender": str(row.sender)}))
    return agent


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


@attrs.define
class Raiser(Agent):
    """Raises what the agents of others would not."""

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        raise {"half": ValueError("\udce9"), "interrupt": KeyboardInterrupt(), "exit": SystemExit(3)}[note.to]


def test_every_kind_of_exception_is_raised_again() -> None:
    result = run_again(SERVERS, "half", "interrupt", "exit", cls=Raiser).result()
    assert (result["errors"], result["diverged"], result["skipped"]) == (3, None, "")


def test_an_interrupt_that_the_trace_does_not_know_ends_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rerun, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_again(SERVERS, "a@s1")
