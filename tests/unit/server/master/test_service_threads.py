"""Threads of a service: results come to the reactor thread, and there are not too many of them."""

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError

from quorate.server.master.service_threads import ServiceThreads
from quorate.services import ServiceError


class Reactor:
    """Calls what threads give to it in the thread of the test."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[Callable[..., None], tuple[Any, ...]]] = queue.Queue()

    def callFromThread(self, function: Callable[..., None], *args: Any) -> None:
        self._calls.put((function, args))

    def call_next(self) -> None:
        function, args = self._calls.get(timeout=60)
        function(*args)


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


@pytest.fixture
def threads(reactor: Reactor) -> ServiceThreads:
    return ServiceThreads(reactor)


def test_a_result_of_a_thread_comes_in_the_thread_of_the_reactor(
    reactor: Reactor, threads: ServiceThreads
) -> None:
    found: list[Any] = []
    threads.run(lambda number: (number, threading.current_thread()), 5).addCallback(found.append)
    assert found == []
    reactor.call_next()
    ((number, thread),) = found
    assert number == 5
    assert thread is not threading.current_thread()
    assert thread.daemon


@pytest.mark.parametrize("error", [OSError("no"), SystemExit("no")])
def test_what_a_thread_raises_fails_its_deferred(
    reactor: Reactor, threads: ServiceThreads, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    found: list[Any] = []
    threads.run(fail).addErrback(lambda failure: found.append(failure.value))
    reactor.call_next()
    assert found == [error]


def test_there_are_not_too_many_threads_until_one_ends(
    reactor: Reactor, threads: ServiceThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.server.master.service_threads.MAX_THREADS", 2)
    gate, errors = threading.Event(), list[type[BaseException] | None]()
    abandoned = threads.run(gate.wait, 60)
    threads.run(gate.wait, 60)
    threads.run(gate.wait, 60).addErrback(lambda failure: errors.append(failure.type))
    assert errors == [ServiceError]
    abandoned.addErrback(lambda failure: errors.append(failure.type))
    abandoned.cancel()
    threads.run(gate.wait, 60).addErrback(lambda failure: errors.append(failure.type))
    assert errors == [ServiceError, CancelledError, ServiceError], "an abandoned thread counts until it ends"
    gate.set()
    reactor.call_next()
    reactor.call_next()
    found: list[bool] = []
    threads.run(gate.wait, 60).addCallback(found.append)
    reactor.call_next()
    assert found == [True]
