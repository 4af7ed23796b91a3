"""Agents stored by former versions of their classes: loaded, refused with a reason, checked beforehand."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate import AgentError
from quorate.agents import Create, factory
from quorate.agents.agent import _named
from quorate.agents.notification import _known
from quorate.engine import AgentState, Engine, StateCheck
from quorate.testing import Harness

HEAD = """
import attrs
from typing import Any
from quorate import Agent, Context, Notification, reacts, upgrades

Values = dict[str, Any]

@attrs.frozen
class Put(Notification, name="versions-test.put"):
    amount: int

@attrs.define
class Account(Agent, {arguments}):
    {attributes}

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        self.{attribute} += note.amount
"""
NAMED = "name='versions-test.account', version={}"
STEP = """
    @staticmethod
    @upgrades(from_version={version}{also})
    def from_{version}(values: Values) -> Values:
        {body}
"""
IN_CENTS = "values['cents'] = values.pop('balance') * 100; return values"
Write = Any


def upgrade(version: int, body: str, also: str = "") -> str:
    return STEP.format(version=version, body=body, also=also and f", also=({also!r},)")


def forget() -> None:
    sys.modules.pop("versions_bank", None)
    for known in (_named, _known):
        for names in (known._classes, known._upgrading):
            for name in [name for name in names if name.startswith(("versions", "konto"))]:
                del names[name]


@pytest.fixture(name="write")
def _write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A function that writes another release of the module of the agents."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(
        version: int | None, *steps: str, attributes: str = "cents: int = 0", arguments: str = ""
    ) -> None:
        forget()
        given = arguments or ("" if version is None else NAMED.format(version))
        text = HEAD.format(
            arguments=given,
            attributes=attributes.replace("; ", "\n    "),
            attribute=attributes.partition(":")[0],
        )
        (tmp_path / "versions_bank.py").write_text(text + "".join(steps))

    yield write
    forget()


def stored() -> tuple[bytes, list[AgentState]]:
    """What a disk has of a server with the agent alice, who has a balance of 7."""
    harness = Harness()
    state = msgspec.msgpack.encode({"balance": 7})
    harness.send(factory(0), Create("versions_bank:Account", name="alice", state=state))
    capture = harness.engine.capture()
    capture.step()
    return capture.header, capture.agents


def loaded(disk: tuple[bytes, list[AgentState]]) -> Engine:
    engine = Engine(0, {"s0": 0})
    engine.load(*disk)
    return engine


def values(engine: Engine) -> Any:
    state = engine.state_of("alice")
    assert state is not None
    return msgspec.msgpack.decode(state)


def test_a_stored_state_is_upgraded_once_and_stored_under_its_new_version(write: Write) -> None:
    write(1, attributes="balance: int = 0")
    disk = stored()
    write(
        3,
        upgrade(1, IN_CENTS),
        upgrade(2, "return {**values, 'owner': 'nobody'}"),
        attributes="cents: int = 0; owner: str = ''; limit: int = 9",
    )
    engine = loaded(disk)
    assert values(engine) == {"cents": 700, "owner": "nobody", "limit": 9}
    capture = engine.capture()
    capture.step()
    (agent,) = capture.agents
    assert (agent.cls, agent.changed) == ("versions-test.account/3", 1)
    again = loaded((capture.header, capture.agents))
    assert again.digest() == engine.digest() == loaded(disk).digest()


def test_a_class_gets_a_name_and_an_upgrade_or_another_name(write: Write) -> None:
    write(None, attributes="balance: int = 0", arguments="version=1")
    disk = stored()
    write(2, upgrade(1, IN_CENTS, "versions_bank:Account"))
    assert values(loaded(disk)) == {"cents": 700}
    write(1, attributes="balance: int = 0")
    disk = stored()
    renamed = upgrade(1, IN_CENTS, "versions-test.account/1")
    write(2, renamed, arguments="name='konto', version=2")
    assert values(loaded(disk)) == {"cents": 700}


def test_a_failing_upgrade_leaves_the_engine_empty_and_names_the_agent(write: Write) -> None:
    write(1, attributes="balance: int = 0")
    disk = stored()
    write(2, upgrade(1, "raise OSError('no such file')"))
    says = (
        r"agent #0.0.1025 'alice' \(versions-test.account/1\): versions-test.account/1 cannot become "
        r"versions-test.account/2: .*Account.from_1, raised OSError: no such file \(versions_bank.py, line"
    )
    with pytest.raises(ValueError, match=says):
        loaded(disk)
    write(2, upgrade(1, "return {'cents': 'seven'}"))
    with pytest.raises(ValueError, match=r"alice.*what its upgrades made does not fit.*\$.cents"):
        loaded(disk)


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        (3, 2, "alice.*is version 2 of versions-test.account: this code is older.*has version 3"),
        (1, 2, r"alice.*no upgrade from version 1: add a static method @upgrades\(from_version=1\)"),
    ],
)
def test_a_stored_version_that_is_newer_or_has_no_upgrade_is_refused(
    write: Write, then: int, now: int, says: str
) -> None:
    write(then, attributes="balance: int = 0")
    disk = stored()
    write(now, attributes="balance: int = 0")
    with pytest.raises(AgentError, match=says):
        loaded(disk)


def test_an_upgrade_nests_as_many_calls_as_a_reaction(write: Write) -> None:
    write(1, attributes="balance: int = 0")
    disk = stored()
    deep = "f = lambda n: n and f(n - 1); f({}); values.pop('balance'); return values"
    write(2, upgrade(1, deep.format(990)))
    loaded(disk)
    write(2, upgrade(1, deep.format(1001)))
    with pytest.raises(ValueError, match="raised RecursionError"):
        loaded(disk)


def test_the_check_finds_what_a_start_would_refuse_and_notes_what_it_would_leave_out(write: Write) -> None:
    write(1, attributes="balance: int = 0")
    _, agents = stored()

    def found() -> tuple[list[str], list[str], dict[tuple[str, str], int]]:
        check = StateCheck(lambda server: 0)
        findings = list(check.run(agents))
        assert check.checked == 1
        return (
            [each.sentence for each in findings if not each.loads],
            [each.sentence for each in findings if each.loads],
            check.upgrades,
        )

    assert found() == ([], [], {})
    write(1)
    refused, notes, _ = found()
    assert refused == []
    assert (
        "alice' (versions-test.account/1) has a value of balance, and versions_bank:Account has no"
        in (notes[0])
    )
    write(2, upgrade(1, IN_CENTS))
    key = "versions-test.account/1", "versions-test.account/2"
    assert found() == ([], [], {key: 1})
    write(2)
    assert "no upgrade from version 1" in found()[0][0]
    write(1, attributes="balance: str = ''")
    assert "$.balance" in found()[0][0]
