"""Wrong arguments are refused by all three clients and all operations, by a sentence that names them."""

import asyncio
import inspect
import math
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from quorate import ReplyTo, aconnect, connect
from quorate.agents import AgentId
from quorate.client import BadUrl, SessionSettings
from quorate.client.twisted import tconnect

AGENT = AgentId(0, 0, 1025)
GOOD: dict[str, Any] = {"url": "quorate://127.0.0.1:1", "user": "root", "password": "root"}
CONNECT = [
    ({"url": 5}, TypeError, "url is 5, which is not text; write it as quorate://"),
    ({"url": "localhost"}, BadUrl, "'localhost' is not the URL"),
    ({"user": None}, TypeError, "user is None; give text"),
    ({"user": "\ud800"}, ValueError, "user has half of a surrogate pair"),
    ({"password": b"root"}, TypeError, "password is a bytes; give text"),
    ({"password": "x" * 2000}, ValueError, "password has 2000 bytes; give at most 1024"),
    ({"timeout": "5"}, TypeError, "timeout is '5'; give a number of seconds"),
    ({"timeout": -1}, ValueError, "timeout is -1; give 0.001 to"),
    ({"timeout": True}, TypeError, "timeout is True; give"),
    ({"reconnect_timeout": math.inf}, ValueError, "reconnect_timeout is inf; give"),
    ({"request_timeout": "x"}, TypeError, "request_timeout is 'x'; give a number of seconds, or None"),
    ({"settings": {}}, TypeError, "settings is {}; give a quorate.client.SessionSettings"),
]


@pytest.mark.parametrize("client", ["blocking", "asyncio", "Twisted"])
@pytest.mark.parametrize(("wrong", "kind", "sentence"), CONNECT)
def test_a_wrong_argument_of_connect_is_named(
    client: str, wrong: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    arguments = GOOD | wrong
    if client == "Twisted":
        failures: list[Any] = []
        tconnect(reactor, **arguments).addErrback(failures.append)
        (failure,) = failures
        assert isinstance(failure.value, kind)
        assert sentence in str(failure.value)
        return
    with pytest.raises(kind) as raised:
        (connect if client == "blocking" else aconnect)(**arguments)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [({"window": 0}, ValueError), ({"window": 1.5}, TypeError), ({"ping_interval_s": -1}, ValueError)],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=next(iter(wrong))):
        SessionSettings(**wrong)


def _operations(note: Any) -> list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]]:
    """Name, arguments, error and sentence of wrong calls."""
    late: list[tuple[Any, type[Exception], str]] = [
        (-1, ValueError, "timeout is -1; give 0 to"),
        ("x", TypeError, "timeout is 'x'; give a number of seconds, or None for no limit"),
        (math.nan, ValueError, "timeout is nan; give 0 to"),
    ]
    to: list[tuple[Any, type[Exception], str]] = [
        ("", ValueError, "to is '', which names no agent; write a name"),
        ("@s1", ValueError, "to is '@s1', which names no agent"),
        ("alice@", ValueError, "to is 'alice@', which names no agent"),
        ("#1.2", ValueError, "to cannot be used: '#1.2' is not an agent id"),
        ("\ud800", ValueError, "to cannot be used: '\\ud800' is not an address: it has half of a surrogate"),
        (5, TypeError, "to cannot be used: 5 is not an address"),
    ]
    good = note(1)
    calls = [
        *((name, ("alice", good), {"timeout": t}, k, s) for name in ("send", "request") for t, k, s in late),
        *((name, (), {"timeout": t}, k, s) for name in ("flush", "receive", "close") for t, k, s in late),
        *((name, (t, good), {}, k, s) for name in ("send", "send_nowait", "request") for t, k, s in to),
    ]
    for name in ("send", "send_nowait", "request"):
        calls.append((name, ("alice", note(2**64)), {}, ValueError, "its field amount is an integer of more"))
        calls.append((name, ("alice", note(1, "\udcff")), {}, ValueError, "its field text is '\\udcff'"))
        calls.append((name, ("alice", 5), {}, TypeError, "int is not a notification"))
    calls.append(
        ("request", ("alice", good), {"reply": 5}, TypeError, "reply is 5; give a notification class")
    )
    calls.append(("request", (ReplyTo(AGENT, 7), good), {}, TypeError, "the address of an answer"))
    return calls


def test_a_wrong_argument_of_a_blocking_operation_is_named_and_nothing_is_sent(
    model: Any, deposit: Any
) -> None:
    with connect(model.url, user="root", password="root") as connection:
        for name, arguments, options, kind, sentence in _operations(deposit):
            with pytest.raises(kind) as raised:
                getattr(connection, name)(*arguments, **options)
            assert sentence in str(raised.value), name
        with pytest.raises(ValueError, match="timeout is -1"):
            connection.send_nowait("alice", deposit(1), timeout=-1)
        connection.flush()
    assert model.seen == []


def test_a_wrong_argument_of_an_asyncio_operation_is_named_and_nothing_is_sent(
    model: Any, deposit: Any
) -> None:
    async def run() -> None:
        async with aconnect(model.url, user="root", password="root") as connection:
            for name, arguments, options, kind, sentence in _operations(deposit):
                with pytest.raises(kind) as raised:
                    await getattr(connection, name)(*arguments, **options)
                assert sentence in str(raised.value), name
            await connection.flush()

    asyncio.run(run())
    assert model.seen == []


@pytest_twisted.ensureDeferred
async def test_a_wrong_argument_of_a_twisted_operation_is_named_and_nothing_is_sent(
    model: Any, deposit: Any
) -> None:
    connection = await tconnect(reactor, model.url, user="root", password="root")
    for name, arguments, options, kind, sentence in _operations(deposit):
        deferred = getattr(connection, name)(*arguments, **options)
        assert not inspect.iscoroutine(deferred)
        with pytest.raises(kind) as raised:
            await deferred
        assert sentence in str(raised.value), name
    await connection.flush()
    await connection.close()
    assert model.seen == []
