"""The audit log: what administrators change, who they are, and how it ended."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from quorate.agents import Create, CreateFailed, Delete, ListAgents, Note, encode, factory
from quorate.agents.lifecycle import Pause
from quorate.server.admin import audit as audit_module
from quorate.server.admin import wire
from quorate.server.admin.audit import Act, AuditLog, act_of
from quorate.server.admin.protocol import serve_admin

Target = Callable[..., Any]


def request(notification: Any, to: Any = None) -> wire.Request:
    return wire.Request(to or factory(0), notification.type_name, encode(notification), 5.0)


@pytest.mark.parametrize(
    "body",
    [
        wire.Status(),
        wire.Agents(),
        wire.Inspect("alice"),
        request(ListAgents()),
        wire.Request("queue:orders", "quorate.message.describe/1", b"", 5.0),
        wire.Request("quorate.messaging", "quorate.message.list-branches", b"", 5.0),
        wire.Command("status", {}),
    ],
)
def test_what_only_shows_something_is_no_act(body: wire.Body) -> None:
    assert act_of(body) is None


@pytest.mark.parametrize(
    ("body", "act"),
    [
        (request(Pause("alice")), Act("quorate.pause", "agents", {"agent": "alice"})),
        (request(Create("bank:Account", name="a", state=b"hidden")), None),
        (
            wire.Post("alice", "bank.deposit/1", b"hidden"),
            Act("send", "alice", {"type": "bank.deposit/1", "bytes": 6}),
        ),
        (wire.Request(factory(0), "quorate.pause", b"\xc1", 5.0), Act("quorate.pause", "agents")),
        (wire.Stop(together=True), Act("stop", "the server")),
        (wire.Admit(3, b"", witness=True), Act("admit", "replica 3", {"witness": True})),
        (wire.Remove(3), Act("remove", "replica 3")),
        (wire.Command("delete", {"topic": "prices"}), Act("mesh delete", "prices")),
    ],
)
def test_what_changes_something_is_named_without_what_is_secret(body: wire.Body, act: Act | None) -> None:
    found = act_of(body)
    assert found is not None
    assert "hidden" not in str(found)
    assert act is None or found == act


def acts(target: Any, body: wire.Body) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    protocol = serve_admin(target, lambda _: None, lambda act, outcome: found.append((act.act, outcome)))
    protocol.frame_received(wire.encode(wire.Call(1, body)))
    return found


def answering(*, reply: Any = None, error: Exception | None = None) -> Callable[..., "Deferred[Note]"]:
    if error is not None:
        return lambda *_: fail(error)
    return lambda *_: succeed(Note(factory(0), factory(0), reply.type_name, encode(reply)))


def test_the_outcome_of_an_act_is_kept(target: Target) -> None:
    delete = request(Delete("alice"))
    refused = CreateFailed("no:Class", "there is no such class")
    assert acts(target(answer=answering(error=TimeoutError("late"))), delete) == [("quorate.delete", "late")]
    (found,) = acts(target(answer=answering(reply=refused)), request(Create("no:Class")))
    assert found[0] == "quorate.create"
    assert "there is no such class" in found[1]
    assert acts(target(role="slave"), wire.Status()) == []


def test_a_line_has_who_what_and_when_and_a_full_file_is_kept_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    log = AuditLog(tmp_path, lambda: 5_000_000_000, lines.append)
    log.write("127.0.0.1:5000", "alice", Act("stop", "the replica"), "done")
    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    assert json.loads(line) == {
        "at_ms": 5000,
        "from": "127.0.0.1:5000",
        "user": "alice",
        "act": "stop",
        "target": "the replica",
        "outcome": "done",
    }
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(audit_module, "MAX_BYTES", 10)
    log.write("127.0.0.1:5000", "alice", Act("stop", "the replica"), "done")
    assert (tmp_path / "audit.log.1").read_text().count("\n") == 1
    assert (tmp_path / "audit.log").read_text().count("\n") == 1
    assert not lines


def test_a_line_that_cannot_be_written_is_in_the_log_of_the_server(tmp_path: Path) -> None:
    lines: list[str] = []
    AuditLog(tmp_path / "gone", lambda: 0, lines.append).write("?", "", Act("stop", "the replica"), "done")
    assert "cannot be written (No such file or directory); stop the replica" in lines[0]
