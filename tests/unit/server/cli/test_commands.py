"""The administration commands against replicas that are a fake target behind a real port."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from quorate.agents import (
    AgentId,
    Create,
    Created,
    CreateFailed,
    Note,
    Notification,
    UnknownAgent,
    decode,
    encode,
    factory,
    outside,
)
from quorate.server.admin import wire
from quorate.server.admin.connection import SocketConnection
from quorate.server.cli import agents, deploy, inspect, replica, send, start, status, stop, up

ALICE = AgentId(0, 0, 1025)
ALONE = "too few replicas of view 2 can be reached, this one hears none; start replica 1"
BANK = """
import datetime

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.define
class Account(Agent):
    balance: int = 0
    key: bytes = b""
    opened: datetime.date | None = None

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        self.balance += note.amount


class Other:
    pass
"""


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that the commands can import from the current directory."""
    name = f"bank_{os.getpid()}"
    (tmp_path / f"{name}.py").write_text(BANK)
    (tmp_path / f"{name}_broken.py").write_text("1 / 0")
    (tmp_path / f"{name}_script.py").write_text("import sys; sys.exit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def run(command: Any, *args: object) -> Result:
    result = CliRunner().invoke(command, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def one(serve: Any, target: Any, xml: Any) -> Callable[..., tuple[Any, Path]]:
    """A plain server s0 that is up: its target and its configuration."""

    def one(**fields: Any) -> tuple[Any, Path]:
        served = target(**fields)
        return served, xml(serve(served).port, plain=True)

    return one


@pytest.mark.parametrize("words", [(inspect.command, "alice"), (agents.command,)])
def test_an_unknown_replica_is_an_error_that_lists_the_known_ones(one: Any, words: tuple[Any, ...]) -> None:
    _, config = one()
    command, *rest = words
    asked = run(command, config, *rest, "--server", "s0", "--replica", 9)
    assert asked.exit_code == 2
    assert asked.output == f"quorate: Server s0 in {config} has no replica 9: it has 0.\n"


def test_status_shows_every_replica_and_is_content_with_a_master(
    serve: Any, target: Any, xml: Any, free_port: int
) -> None:
    config = xml(serve(target()).port, serve(target(replica=1, role="slave")).port, free_port)
    shown = run(status.command, config)
    assert shown.exit_code == 0
    assert [line.split()[:3] for line in shown.output.splitlines()[1:]] == [
        ["s0", "0", "master"],
        ["s0", "1", "slave"],
        ["s0", "2", "down"],
    ]
    machine = json.loads(run(status.command, config, "--json").stdout)
    (server,) = machine["servers"]
    assert (server["server"], server["id"]) == ("s0", 0)
    assert [replica["role"] for replica in server["replicas"]] == ["master", "slave", "down"]
    assert server["replicas"][0]["commit"] == 99
    assert "refused" in server["replicas"][2]["reason"]


@pytest.mark.parametrize(
    ("replicas", "expected", "allowed"), [(3, 1, "from 2 to 3"), (3, 4, "from 2 to 3"), (1, 2, "1")]
)
def test_start_expects_more_than_half_of_the_replicas(
    xml: Any, replicas: int, expected: int, allowed: str
) -> None:
    config = xml(*range(1000, 1000 + replicas))
    shown = run(start.command, config, "--server", "s0", "--replica", 0, "--expected", expected)
    assert shown.exit_code == 2
    assert f"--expected is {expected}, but s0 has {replicas} replica" in shown.stderr
    assert f"; give {allowed} (more than half" in shown.stderr
    assert not (config.parent / "data").exists()


def test_status_without_a_master_is_1(xml: Any, free_port: int) -> None:
    assert run(status.command, xml(free_port), "--wait", "0").exit_code == 1
    shown = run(status.command, xml(free_port), "--json", "--wait", "0")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["servers"][0]["replicas"][0]["role"] == "down"


def test_status_waits_for_a_master(
    serve: Any, target: Any, xml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = target(role="joining")
    monkeypatch.setattr(status, "sleep", lambda _: setattr(slave, "role", "master"))
    shown = run(status.command, xml(serve(slave).port), "--wait", "60")
    assert shown.exit_code == 0
    assert shown.stderr.startswith("quorate: s0 has no master yet; waits up to 60 s for it\n")


def test_a_master_without_a_majority_is_no_health(
    serve: Any, target: Any, xml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = target(waits=ALONE)
    config = xml(serve(master).port)
    shown = run(status.command, config, "--wait", "0")
    assert shown.exit_code == 1
    assert shown.stderr == f"quorate: s0.0: {ALONE}\n"
    assert run(status.command, config, "--wait", "0", "--json").exit_code == 1
    monkeypatch.setattr(status, "sleep", lambda _: setattr(master, "waits", ""))
    shown = run(status.command, config, "--wait", "60")
    assert shown.exit_code == 0
    assert shown.stderr == "quorate: s0 has no master with a majority yet; waits up to 60 s for it\n"


def test_answers_of_a_replica_without_a_majority_come_with_one_warning(one: Any) -> None:
    served, config = one(waits=ALONE, states={"alice": msgspec.msgpack.encode({"balance": 1})})
    warning = f"quorate: What s0.0 shows may be behind: {ALONE}.\n"
    for words in ((), ("--replica", 0)):
        for command, others in ((agents.command, ()), (inspect.command, ("alice",))):
            shown = run(command, config, "--server", "s0", *words, *others, "--json")
            assert (shown.exit_code, shown.stderr) == (0, warning)
            assert "alice" in json.loads(shown.stdout).get("name", shown.stdout)
    row = served.known[0]
    served.known = [(AgentId(0, 0, 2000 + number), "", *row[2:]) for number in range(2500)]
    assert run(agents.command, config, "--json").stderr == warning
    served.waits = ""
    assert run(agents.command, config).stderr == ""


def test_deploy_and_send_fail_at_a_master_without_a_majority(one: Any, bank: str) -> None:
    config = one(waits=ALONE)[1]
    says = f"This replica is the master, and does not serve now ({ALONE})"
    shown = run(deploy.command, config, "--server", "s0", f"{bank}:Account", "--timeout", 1)
    assert shown.exit_code == 1
    assert says in shown.stderr
    deposit = ("alice", f"{bank}:Deposit", '{"amount": 5}')
    shown = run(send.command, config, "--server", "s0", *deposit, "--timeout", 1)
    assert shown.exit_code == 1
    assert says in shown.stderr


def test_status_waits_for_a_server_that_is_down_only_with_wait(
    serve: Any, target: Any, xml: Any, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(status, "sleep", waited.append)
    shown = run(status.command, xml(free_port))
    assert (shown.exit_code, waited) == (1, [])
    assert shown.stderr == (
        "quorate: s0 is down, or still starting (its log says so): none of its replicas can be connected to; "
        "start it, or wait for it with --wait "
        "SECONDS\n"
    )
    monkeypatch.setattr(status, "sleep", lambda _: serve(target(), port=free_port))
    assert run(status.command, xml(free_port), "--wait", "60").exit_code == 0


def test_status_tells_a_replica_that_refuses_from_one_that_is_down(serve: Any, target: Any, xml: Any) -> None:
    shown = run(status.command, xml(serve(target(), secret="one").port))
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[1].split()[:3] == ["s0", "0", "refused"]
    assert "s0.0: " in shown.stderr
    assert "secret" in shown.stderr


def test_status_of_a_server_without_network_says_so(tmp_path: Path) -> None:
    config = tmp_path / "a3servers.xml"
    config.write_text('<config><server id="0" name="s0" hostname="localhost"/></config>')
    shown = run(status.command, config, "--json")
    assert "no network" in json.loads(shown.stdout)["servers"][0]["replicas"][0]["reason"]


def test_a_broken_configuration_is_reported_by_line(tmp_path: Path) -> None:
    config = tmp_path / "a3servers.xml"
    config.write_text("<config>\n<server/></config>")
    for command, args in ((status, ()), (start, ("--server", "s0")), (up, ()), (stop, ())):
        shown = run(command.command, config, *args)
        assert shown.exit_code == 1
        assert f"{config}:2: " in shown.stderr
    assert run(status.command, tmp_path / "none.xml").exit_code == 1


def test_an_unknown_server_is_an_error_that_lists_the_known_ones(one: Any) -> None:
    _, config = one()
    for command, args in (
        (status, ("--server", "s9")),
        (agents, ("--server", "s9")),
        (inspect, ("--server", "s9", "alice")),
        (stop, ("--server", "s9")),
        (start, ("--server", "s9")),
        (up, ("--server", "s9")),
        (deploy, ("--server", "s9", "m:C")),
    ):
        shown = run(command.command, config, *args)
        assert shown.exit_code == 2
        assert "s9" in shown.stderr
        assert "s0" in shown.stderr


def test_agents_are_listed_without_the_built_in_ones(one: Any) -> None:
    _, config = one()
    shown = run(agents.command, config)
    assert "#0.0.1025" in shown.stdout
    assert "#0.0.2 " not in shown.stdout
    assert "#0.0.2 " in run(agents.command, config, "--all").stdout
    listed = json.loads(run(agents.command, config, "--json").stdout)
    assert listed == {
        "agents": [
            {
                "server": "s0",
                "id": "#0.0.1025",
                "name": "alice",
                "class": "examples.bank:Account",
                "reactions": 3,
                "paused": False,
                "held": 0,
            }
        ]
    }


def test_the_servers_that_answer_are_listed_when_one_does_not(
    serve: Any, target: Any, tmp_path: Path, free_port: int
) -> None:
    config = tmp_path / "a3servers.xml"
    servers = "".join(
        f'<server id="{id}" name="s{id}" hostname="localhost"><network domain="D1" port="{port}"/></server>'
        for id, port in enumerate([free_port, serve(target()).port])
    )
    config.write_text(f'<config><domain name="D1"/>{servers}</config>')
    shown = run(agents.command, config, "--timeout", 1)
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[1].split() == ["s1", "#0.0.1025", "alice", "examples.bank:Account", "3"]
    (line,) = shown.stderr.splitlines()
    assert line.startswith("quorate: s0 gave no list: Server s0 had no master for 1 s: localhost:")
    shown = run(agents.command, config, "--timeout", 1, "--json")
    assert shown.exit_code == 1
    assert [row["server"] for row in json.loads(shown.stdout)["agents"]] == ["s1"]
    shown = run(agents.command, config, "--timeout", 1, "--server", "s0")
    assert (shown.exit_code, shown.stdout) == (1, "")


def test_many_agents_are_fetched_page_by_page_up_to_the_limit(one: Any) -> None:
    many = [(AgentId(0, 0, 1025 + number), "", "m:C", 0) for number in range(2500)]
    _, config = one(known=many)
    assert len(json.loads(run(agents.command, config, "--json").stdout)["agents"]) == 2500
    shown = run(agents.command, config, "--json", "--limit", 1500)
    assert len(json.loads(shown.stdout)["agents"]) == 1500
    assert "--limit" in run(agents.command, config, "--limit", 10).stderr


@pytest.mark.parametrize("agent", ["alice", "#0.0.1025", "0.0.1025"])
def test_an_agent_is_inspected_by_name_or_id(one: Any, state: bytes, agent: str) -> None:
    _, config = one(states={"alice": state, ALICE: state})
    shown = json.loads(run(inspect.command, config, "--server", "s0", agent).stdout)
    assert shown["id"] == "#0.0.1025"
    assert shown["state"] == {"balance": 12}


def test_inspect_shows_values_that_json_does_not_have(one: Any) -> None:
    strange = msgspec.msgpack.encode({"raw": b"\x00\xff", "by number": {1: "one"}, "nan": float("nan")})
    _, config = one(states={"alice": strange})
    shown = json.loads(run(inspect.command, config, "--server", "s0", "alice", "--json").stdout)
    assert shown["state"] == {"raw": "AP8=", "by number": {"1": "one"}, "nan": None}


def test_an_unknown_agent_is_a_sentence(one: Any) -> None:
    _, config = one()
    missing = f"There is no agent bob on server s0; list its agents with: quorate agents {config} --server s0"
    assert run(inspect.command, config, "--server", "s0", "bob").stderr == f"quorate: {missing}\n"
    assert missing in run(inspect.command, config, "--server", "s0", "--replica", 0, "bob").stderr
    assert "no agent #0.0.9 on server s0" in run(inspect.command, config, "--server", "s0", "#0.0.9").stderr
    assert "agent id" in run(inspect.command, config, "--server", "s0", "#bob").stderr


def test_an_agent_of_another_server_is_not_inspected_and_the_sentence_names_that_server(
    serve: Any, target: Any, tmp_path: Path
) -> None:
    config = tmp_path / "two.xml"
    ports = {0: serve(target()).port, 1: 1}
    servers = "".join(
        f'<server id="{id}" name="s{id}" hostname="localhost"><network domain="D1" port="{port}"/></server>'
        for id, port in ports.items()
    )
    config.write_text(f'<config><domain name="D1"/>{servers}</config>')
    shown = run(inspect.command, config, "--server", "s0", "alice@s1")
    assert shown.stderr == ("quorate: Server s0 has no agents of server s1; give alice and --server s1.\n")


def test_deploy_prints_only_the_id(one: Any, bank: str) -> None:
    served, config = one(answer=lambda _note: Created(ALICE))
    shown = run(
        deploy.command,
        config,
        "--server",
        "s0",
        f"{bank}:Account",
        "--name",
        "alice",
        "--state",
        '{"balance": 3, "key": "AP8=", "opened": "2013-01-01"}',
    )
    assert shown.stdout == "#0.0.1025\n"
    (note,) = served.requested
    create = decode(Create, note.payload)
    assert (note.to, create.class_name, create.name) == (factory(0), f"{bank}:Account", "alice")
    assert msgspec.msgpack.decode(create.state) == {"balance": 3, "key": b"\x00\xff", "opened": "2013-01-01"}


def test_a_retry_of_deploy_carries_the_same_key(serve: Any, target: Any, xml: Any, bank: str) -> None:
    seen: list[str] = []

    def answer(note: Note) -> Any:
        seen.append(decode(Create, note.payload).key)
        return TimeoutError() if len(seen) == 1 else Created(ALICE)

    served = serve(target(answer=answer))
    served.drop_calls = 1
    config = xml(served.port, plain=True)
    assert run(deploy.command, config, "--server", "s0", f"{bank}:Account").stdout == "#0.0.1025\n"
    assert served.calls == 3
    assert len(seen) == 2
    assert len(set(seen)) == 1
    assert len(seen[0]) >= 32


@pytest.mark.parametrize(
    ("wanted", "state", "sentence"),
    [
        ("{bank}:Account", '{"balanse": 3}', "balanse"),
        ("{bank}:Account", '{"balance": "x"}', "cannot have the state"),
        ("{bank}:Account", "[1]", "JSON object"),
        ("{bank}:Account", "{", "JSON object"),
        ("{bank}:Other", "{}", "derive it from quorate.Agent"),
        ("{bank}:Nobody", "{}", "has no class Nobody"),
        ("{bank}_broken:Account", "{}", "ZeroDivisionError: division by zero (bank_"),
        ("{bank}_script:Account", "{}", "cannot be imported: SystemExit"),
        ("{bank}.Account", "{}", "module:Class"),
        ("../x:Account", "{}", "module:Class"),
        (":", "{}", "module:Class"),
    ],
)
def test_a_wrong_class_is_reported_before_the_server_is_asked(
    one: Any, bank: str, wanted: str, state: str, sentence: str
) -> None:
    served, config = one()
    shown = run(deploy.command, config, "--server", "s0", wanted.format(bank=bank), "--state", state)
    assert shown.exit_code == (1 if "_" in wanted else 2), "a module that raises is no wrong command line"
    assert sentence in shown.stderr
    assert shown.stdout == ""
    assert not served.requested


def test_a_class_that_only_the_server_knows_is_left_to_it(one: Any, bank: str) -> None:
    served, config = one(answer=lambda _note: CreateFailed("x.y:Z", "The server cannot import x.y."))
    shown = run(deploy.command, config, "--server", "s0", "not_here.bank:Account", "--state", '{"a": 1}')
    assert shown.exit_code == 1
    assert "The server cannot import x.y." in shown.stderr
    assert msgspec.msgpack.decode(decode(Create, served.requested[0].payload).state) == {"a": 1}


def test_no_call_waits_longer_than_the_timeout_option(
    one: Any, bank: str, state: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    call = SocketConnection.call

    def noted(self: SocketConnection, body: wire.Body, timeout_s: float) -> msgspec.Raw:
        waits.append(timeout_s)
        if isinstance(body, wire.Request):
            assert body.timeout_s < timeout_s
        return call(self, body, timeout_s)

    monkeypatch.setattr(SocketConnection, "call", noted)
    _, config = one(answer=lambda _note: Created(ALICE), states={"alice": state})
    at = ("--server", "s0", "--timeout", 2)
    for command, args in (
        (agents, ()),
        (agents, ("--replica", 0)),
        (inspect, ("alice",)),
        (inspect, ("--replica", 0, "alice")),
        (deploy, (f"{bank}:Account",)),
        (send, ("alice", f"{bank}:Deposit", '{"amount": 5}')),
        (send, ("--request", "alice", f"{bank}:Deposit", '{"amount": 5}')),
    ):
        assert run(command.command, config, *at, *args).exit_code == 0
    assert len(waits) == 7
    assert max(waits) <= 2


def test_send_posts_once_and_request_prints_the_reply(one: Any, bank: str) -> None:
    served, config = one(answer=lambda note: Created(ALICE))
    arguments = ("--server", "s0", "alice", f"{bank}:Deposit", '{"amount": 5}')
    shown = run(send.command, config, *arguments)
    assert (shown.exit_code, shown.output) == (0, "")
    assert msgspec.msgpack.decode(served.posted[0].payload) == {"amount": 5}
    shown = run(send.command, config, *arguments, "--request")
    assert shown.stdout == f'{Created.type_name} {{"id":"#0.0.1025"}}\n'
    machine = json.loads(run(send.command, config, *arguments, "--request", "--json").stdout)
    assert machine == {"sender": "#0.0.1025", "type": Created.type_name, "value": {"id": "#0.0.1025"}}


@attrs.frozen
class Restock(Notification, name="tests.restock", version=2):
    count: int


def test_send_posts_a_named_notification_under_its_name(one: Any) -> None:
    served, config = one(answer=lambda note: Created(ALICE))
    arguments = ("--server", "s0", "alice", f"{__name__}:Restock", '{"count": 5}')
    assert run(send.command, config, *arguments).exit_code == 0
    assert run(send.command, config, *arguments, "--request").exit_code == 0
    assert [note.type for note in (*served.posted, *served.requested)] == ["tests.restock/2"] * 2


def test_a_word_without_end_does_not_hide_the_sentence(one: Any, bank: str) -> None:
    name = "n" * 100_000
    _, config = one(answer=lambda _note: CreateFailed("m:C", f"'{name}' cannot be a name"))
    shown = run(deploy.command, config, "--server", "s0", f"{bank}:Account", "--name", name)
    assert (shown.exit_code, shown.stderr) == (1, f"quorate: '{'n' * 59}... cannot be a name\n")


def test_an_empty_name_is_left_to_the_server_to_refuse(one: Any, bank: str) -> None:
    served, config = one(answer=lambda _note: CreateFailed("m:C", "'' cannot be a name"))
    shown = run(deploy.command, config, "--server", "s0", f"{bank}:Account", "--name", "")
    assert (shown.exit_code, shown.stderr) == (1, "quorate: '' cannot be a name\n")
    assert decode(Create, served.requested[0].payload).name == ""


@pytest.mark.parametrize(
    ("server", "address", "remedy"),
    [
        ("0", "bob", " on server s0; list its agents with: quorate agents {config} --server s0"),
        ("s0", "nobody@s7", ": the file has no server s7; it has s0."),
    ],
)
def test_a_notification_to_a_missing_agent_is_a_failure_that_says_what_there_is(
    one: Any, bank: str, server: str, address: str, remedy: str
) -> None:
    failure = Note(outside(0), ALICE, UnknownAgent.type_name, encode(UnknownAgent(address, "m:T")))
    _, config = one(failure=failure, answer=lambda note: UnknownAgent(address, note.type))
    for options in ((), ("--request",)):
        shown = run(
            send.command, config, "--server", server, address, f"{bank}:Deposit", '{"amount": 1}', *options
        )
        assert (shown.exit_code, shown.stderr) == (
            1,
            f"quorate: There is no agent {address}{remedy.format(config=config)}\n",
        )


def test_nothing_is_sent_to_a_server_that_the_file_does_not_have(one: Any, bank: str) -> None:
    served, config = one(answer=lambda note: Created(ALICE))
    shown = run(send.command, config, "--server", "s0", "desk@s9", f"{bank}:Deposit", '{"amount": 1}')
    assert (shown.exit_code, shown.stderr) == (
        1,
        "quorate: There is no agent desk@s9: the file has no server s9; it has s0.\n",
    )
    assert served.posted == []


def test_send_reports_each_error_in_a_sentence(serve: Any, target: Any, xml: Any, bank: str) -> None:
    served = serve(target(answer=lambda note: UnknownAgent("bob", note.type)))
    config = xml(served.port, plain=True)

    def sentence(kind: str, fields: str, *options: str, status: int = 2, to: str = "bob") -> str:
        shown = run(send.command, config, "--server", "s0", to, kind, fields, *options)
        assert shown.exit_code == status
        assert shown.stdout == ""
        return shown.stderr

    assert "cannot be made" in sentence(f"{bank}:Deposit", "{}")
    assert "cannot be made" in sentence(f"{bank}:Deposit", '{"amount": "x"}')
    unknown = sentence(f"{bank}:Deposit", '{"amount": 1, "amuont": 2}')
    assert "Deposit has no field amuont; its fields are amount" in unknown
    assert "'#1' is not an agent id" in sentence(f"{bank}:Deposit", '{"amount": 1}', to="#1")
    assert "not a notification" in sentence(f"{bank}:Account", "{}")
    assert "PYTHONPATH" in sentence("not_here:Deposit", "{}")
    refused = sentence(f"{bank}:Deposit", '{"amount": 1}', "--request", status=1)
    assert "There is no agent bob on server s0; " in refused
    served.drop_calls = 1
    assert "not known" in sentence(f"{bank}:Deposit", '{"amount": 1}', status=1)
    assert served.calls == 2


def test_start_wants_a_replica_of_a_cluster(xml: Any, tmp_path: Path) -> None:
    config = xml(1001, 1002)
    assert "0, 1" in run(start.command, config, "--server", "s0").stderr
    assert "0, 1" in run(start.command, config, "--server", "s0", "--replica", 5).stderr
    shown = run(start.command, config, "--server", "s0", "--replica", 1, "--expected", 3)
    assert (shown.exit_code, "has 2 replicas" in shown.stderr) == (2, True)
    assert not (tmp_path / "data").exists()


def test_up_without_a_replica_of_this_host_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "a3servers.xml"
    config.write_text('<config><server id="0" name="s0" hostname="192.0.2.1"/></config>')
    shown = run(up.command, config)
    assert shown.exit_code == 1
    assert "192.0.2.1 is not this machine" in shown.stdout
    assert "No replica" in shown.stderr


@pytest.mark.parametrize(
    "command", [agents, deploy, inspect, send, status, replica], ids=lambda each: each.__name__
)
def test_a_time_that_is_no_number_of_seconds_is_refused(command: Any) -> None:
    found = _times(command.command)
    assert found
    for option in found:
        for value in ("nan", "-1", "inf", "soon"):
            with pytest.raises(click.BadParameter):
                option.type.convert(value, option, None)


def _times(command: click.Command) -> list[click.Parameter]:
    """The options of a command, and of those below it, that take seconds."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = [each for each in command.params if each.metavar == "SECONDS"]
    return own + [each for one in below for each in _times(one)]
