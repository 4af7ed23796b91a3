"""`quorate check --agents`: which stored agents the classes of this place cannot load."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from quorate.agents import AgentId, Create, Note, encode, factory, outside
from quorate.engine import AgentState, load_class
from quorate.server.admin import wire
from quorate.server.cli.check import command

from .. import durable_replica

BANK = """
import attrs
from quorate import Agent, Context, Notification, reacts

@attrs.frozen
class Put(Notification, name="{bank}.put"):
    amount: int

@attrs.define
class Account(Agent, name="{bank}.account", version={version}):
    {attribute}: {kind} = 0

    @reacts
    def put(self, ctx: Context, note: Put) -> None: ...
"""
Write = Callable[..., None]
BANK_NAME = f"bankcheck{os.getpid()}"


@pytest.fixture(name="write")
def _write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function that writes another release of the module of the agents."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(version: int = 1, attribute: str = "balance", kind: str = "int") -> None:
        text = BANK.format(bank=BANK_NAME, version=version, attribute=attribute, kind=kind)
        (tmp_path / f"{BANK_NAME}.py").write_text(text)
        for module in (BANK_NAME, f"{BANK_NAME}_2"):
            sys.modules.pop(module, None)
        from quorate.agents.agent import _named

        for names in (_named._classes, _named._upgrading):
            for name in [name for name in names if name.startswith(BANK_NAME)]:
                del names[name]

    return write


@pytest.fixture(name="disk")
def _disk(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data with the directory of s0.0, in which the agent alice is saved after entry 1."""
    write()
    monkeypatch.setattr(durable_replica, "load", load_class)
    directory = tmp_path / "data" / "s0" / "0"
    directory.mkdir(parents=True)
    replica = durable_replica.Replica(directory, 1)
    ask = Create(f"{BANK_NAME}:Account", "alice", msgspec.msgpack.encode({"balance": 7}))
    replica.apply(Note(factory(0), outside(0), Create.type_name, encode(ask)))
    replica.end(save=True)
    return tmp_path / "data"


def check(*args: object) -> Result:
    result = CliRunner().invoke(command, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_state_on_a_disk_that_fits_the_classes_here_is_sound(disk: Path, xml: Any, free_port: int) -> None:
    checked = check(xml(free_port, plain=True), "--agents", "--data", disk)
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert checked.stdout == "s0.0, saved after entry 1: 1 agents, all of them can be loaded.\n"


@pytest.mark.parametrize(
    ("release", "says"),
    [
        ({"version": 2}, f"is version 2 of {BANK_NAME}.account and has no upgrade from version 1"),
        ({"kind": "str"}, "$.balance"),
    ],
    ids=["no upgrade", "other type"],
)
def test_a_state_that_does_not_load_here_is_named_with_class_agent_and_reason(
    disk: Path, write: Write, xml: Any, free_port: int, release: dict[str, Any], says: str
) -> None:
    write(**release)
    checked = check(xml(free_port, plain=True), "--agents", "--data", disk)
    assert checked.exit_code == 1
    assert checked.stderr.startswith(f"s0: agent #0.0.1025 'alice' ({BANK_NAME}.account/1): ")
    assert says in checked.stderr
    assert checked.stdout.endswith("1 agents, 1 of them cannot be loaded.\n")


UPGRADE = """
    @staticmethod
    @upgrades(from_version=1)
    def in_cents(values: dict[str, Any]) -> dict[str, Any]:
        values["cents"] = values.pop({stored!r}) * 100
        return values
"""
SECOND = """
from typing import Any
import attrs
from quorate import Agent, Context, Notification, reacts, upgrades
{first}
@attrs.frozen
class Take(Notification, name="{bank}.take"): ...

@attrs.define
class Account(Agent, name="{bank}.account", version=2):
    cents: int = 0
{upgrade}
    {reacts}
    def take(self, ctx: Context, note: Take) -> None: ...
"""


@pytest.mark.parametrize("imports", [True, False], ids=["imports the former module", "does not"])
@pytest.mark.parametrize(
    ("upgrade", "reacts", "says"),
    [
        (UPGRADE.format(stored="balance"), "@reacts", None),
        (UPGRADE.format(stored="balanze"), "@reacts", "Account.in_cents, raised KeyError: 'balanze'"),
        ("", "@reacts", "has no upgrade to version 2"),
        (UPGRADE.format(stored="balance"), "", "Account reacts to nothing"),
    ],
    ids=["good", "raises", "missing", "class refused"],
)
def test_agents_are_upgraded_to_a_later_version_in_another_module_beside_the_former_one(
    disk: Path, xml: Any, free_port: int, upgrade: str, reacts: str, says: str | None, imports: bool
) -> None:
    first = f"import {BANK_NAME}" if imports else ""
    text = SECOND.format(bank=BANK_NAME, first=first, upgrade=upgrade, reacts=reacts)
    (disk.parent / f"{BANK_NAME}_2.py").write_text(text)
    config = xml(free_port, plain=True)
    modules = f'<config><property name="agent_modules" value="{BANK_NAME}_2"/>'
    config.write_text(config.read_text().replace("<config>", modules))
    checked = check(config, "--agents", "--data", disk)
    if says is None:
        assert (checked.exit_code, checked.stderr) == (0, "")
        upgraded = f"s0: agents that are upgraded from {BANK_NAME}.account/1 to {BANK_NAME}.account/2: 1\n"
        assert checked.stdout.startswith(upgraded)
    else:
        assert checked.exit_code == 1
        assert checked.stderr.startswith(f"s0: agent #0.0.1025 'alice' ({BANK_NAME}.account/1)")
        assert says in checked.stderr
        assert checked.stdout.endswith("1 agents, 1 of them cannot be loaded.\n")


def test_a_stored_attribute_that_the_class_lacks_is_a_note(
    disk: Path, write: Write, xml: Any, free_port: int
) -> None:
    write(attribute="cents")
    checked = check(xml(free_port, plain=True), "--agents", "--data", disk)
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert "note: s0: agent #0.0.1025 'alice'" in checked.stdout


def test_the_agents_of_a_server_that_runs_come_from_its_master_in_pages(
    serve: Any, target: Any, xml: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    monkeypatch.setattr(wire, "MAX_PAGE_BYTES", 60)
    ids = [AgentId(0, 0, stamp) for stamp in (1030, 1027, 1028)]
    name, where = f"{BANK_NAME}.account/1", f"{BANK_NAME}:Account"
    state = msgspec.msgpack.encode({"balance": "x" * 50})
    kept = {each: AgentState(each, None, name, 0, state, location=where) for each in ids}
    served = target(known=[(each, "", name, 0) for each in ids], kept=kept)
    checked = check(xml(serve(served).port, plain=True), "--agents")
    assert checked.exit_code == 1
    assert [line.split()[2] for line in checked.stderr.splitlines()] == [str(each) for each in sorted(ids)]
    assert checked.stdout == "s0, from its master: 3 agents, 3 of them cannot be loaded.\n"


def test_a_server_without_data_and_the_options_without_agents(
    xml: Any, free_port: int, tmp_path: Path
) -> None:
    config = xml(free_port, plain=True)
    (tmp_path / "data" / "s0" / "0").mkdir(parents=True)
    assert "s0: no agents are stored in" in check(config, "--agents").stdout
    assert check(config, "--data", tmp_path).exit_code == 2
