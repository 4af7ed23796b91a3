"""The blocking and the asyncio connection in the process of their server, each in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest

from quorate import (
    AgentId,
    ConnectionClosed,
    ConnectionLost,
    DirectSend,
    Notification,
    Unavailable,
    aconnect,
    connect,
)
from quorate.client import Received
from quorate.client.local.registry import register, unregister
from quorate.client.local.server import LocalListener, LocalOffer, LocalServer
from quorate.client.local.thread_queue import ThreadQueue
from quorate.services.local_connections import LocalConnections

from .conftest import Balance, Bench, Deposit

T = TypeVar("T")
BOUND_S = 60.0


class Here(LocalServer):
    """A server in the thread of the test: `until` lets it work."""

    server_name, server_id, replica, name = "here", 0, 0, "here"
    role, is_master = "slave", False

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.service = LocalConnections()
        self._thread = threading.get_ident()
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._listener: LocalListener | None = None
        self._offers: list[LocalOffer] = []
        context: Any = bench.ctx
        context.listen_local = self._listen

    def lead(self) -> None:
        """Become master."""
        self.service.init(self.bench.ctx, "", False)

    def _listen(self, listener: LocalListener | None) -> None:
        self._listener = listener
        offers, self._offers = self._offers, []
        for offer in offers:
            self._offer(offer)

    def _offer(self, offer: LocalOffer) -> None:
        if self._listener is None:
            self._offers.append(offer)
            return
        end = offer.accepted()
        if end is not None:
            self._listener(end)

    @property
    def in_server_thread(self) -> bool:
        return threading.get_ident() == self._thread

    def open_link(self, offer: LocalOffer) -> None:
        self.schedule(lambda: self._offer(offer))

    def schedule(self, function: Callable[[], None]) -> None:
        self._calls.put(function)

    def direct_send_to(self, agent: AgentId | str, notification: Notification) -> "Future[DirectSend]":
        raise NotImplementedError

    def queue(self, name: str) -> ThreadQueue:
        raise NotImplementedError

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the server work until the condition holds."""
        nothing: Future[None] = Future()
        for _ in range(int(BOUND_S / 0.001)):
            while not self._calls.empty():
                self._calls.get()()
            self.bench.ctx.settle()
            if condition():
                return
            wait([nothing], 0.001)
        raise AssertionError("it did not happen")

    def result(self, future: "Future[T]") -> T:
        """Let the server work until a thread has its result."""
        self.until(future.done)
        return future.result()


@pytest.fixture
def here(bench: Bench) -> Iterator[Here]:
    server = Here(bench)
    register(server)
    yield server
    unregister(server)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_a_blocking_client_waits_for_the_master_and_has_every_operation(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    def work() -> list[Any]:
        with connect("local:here") as connection:
            connection.send("alice", Deposit(1))
            received = connection.receive(BOUND_S).notification
            return [received, connection.request("alice", Deposit(2), reply=Balance), connection.is_open]

    done = pool.submit(work)
    here.until(lambda: bool(here._offers))
    assert not done.done()
    here.lead()
    assert here.result(done) == [Balance(1), Balance(3), True]
    here.until(lambda: not here.service.links)


def test_an_asyncio_client_waits_for_the_master_and_has_every_operation(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    async def work() -> list[Any]:
        async with aconnect("local:here") as connection:
            await connection.send("alice", Deposit(1))
            received = (await connection.receive(timeout=BOUND_S)).notification
            return [received, await connection.request("alice", Deposit(2), reply=Balance)]

    done = pool.submit(lambda: asyncio.run(work()))
    here.until(lambda: bool(here._offers))
    here.lead()
    assert here.result(done) == [Balance(1), Balance(3)]


def test_a_client_in_the_process_may_administer_agents(here: Here, pool: ThreadPoolExecutor) -> None:
    def work() -> list[str]:
        with connect("local:here") as connection:
            connection.pause("alice")
            return [row.name for row in connection.agents() if row.paused]

    here.lead()
    assert here.result(pool.submit(work)) == ["alice"]


def test_more_than_fits_between_the_threads_arrives_in_both_directions(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    count = 12_000

    def work() -> list[int]:
        with connect("local:here") as connection:
            for _ in range(count):
                connection.send_nowait("alice", Deposit(1))
            notes: list[Any] = [connection.receive(BOUND_S).notification for _ in range(count)]
            return [note.amount for note in notes]

    here.lead()
    assert here.result(pool.submit(work)) == list(range(1, count + 1))


def test_a_blocking_client_is_told_that_the_mastership_has_ended(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    here.lead()
    connection = here.result(pool.submit(connect, "local:here"))
    waiting = pool.submit(connection.receive)
    here.service.stop()
    with pytest.raises(ConnectionLost, match=r"here in this process .*no longer master"):
        here.result(waiting)
    with pytest.raises(ConnectionLost):
        here.result(pool.submit(connection.send, "alice", Deposit(1)))
    here.result(pool.submit(connection.close))


def test_the_opening_of_a_blocking_client_is_given_up_by_an_event_or_a_time_limit(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    cancel = threading.Event()
    opening = pool.submit(connect, "local:here", cancel=cancel)
    here.until(lambda: bool(here._offers))
    cancel.set()
    with pytest.raises(ConnectionClosed, match="given up"):
        here.result(opening)
    with pytest.raises(Unavailable, match=r"did not become master within 0.05 s: it is slave"):
        here.result(pool.submit(connect, "local:here", timeout=0.05))
    assert not any(offer.waiting for offer in here._offers)


def test_the_opening_of_an_asyncio_client_is_cancelled_with_its_task(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    async def work() -> None:
        opening = asyncio.ensure_future(aconnect("local:here"))
        await asyncio.wait([opening], timeout=0.05)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    here.result(pool.submit(lambda: asyncio.run(work())))
    here.until(lambda: bool(here._offers))
    assert not any(offer.waiting for offer in here._offers)


def test_a_blocking_client_in_the_thread_of_its_server_is_refused(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    with pytest.raises(RuntimeError, match="own thread"):
        connect("local:here")
    here.lead()
    connection = here.result(pool.submit(connect, "local:here"))
    with pytest.raises(RuntimeError, match="own thread"):
        connection.request("alice", Deposit(1))
    here.result(pool.submit(connection.close))


def test_a_server_with_too_many_connections_says_so_to_a_client_of_its_process(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    here.bench.ctx.settings["max_connections"] = "1"
    here.lead()
    first = here.result(pool.submit(connect, "local:here"))
    with pytest.raises(Unavailable, match="opens no connection: the server has 1 connections already"):
        here.result(pool.submit(connect, "local:here"))
    here.result(pool.submit(first.close))


def test_a_listener_of_a_collocated_client_gets_each_notification_and_the_end(
    here: Here, pool: ThreadPoolExecutor
) -> None:
    got: list[Any] = []
    ends: list[Any] = []
    answers: list[Any] = []

    def listener(received: Received) -> None:
        got.append(received.notification)
        if len(got) == 2:  # a listener may use its connection
            answers.append(connection.request("alice", Deposit(10), reply=Balance))

    here.lead()
    connection = here.result(pool.submit(connect, "local:here"))
    connection.listen(listener, ends.append)
    here.result(pool.submit(connection.send, "alice", Deposit(1)))
    here.result(pool.submit(connection.send, "alice", Deposit(2)))
    here.until(lambda: bool(answers))
    here.result(pool.submit(connection.stop_listening))
    here.result(pool.submit(connection.send, "alice", Deposit(1)))
    assert here.result(pool.submit(connection.receive)).notification == Balance(14)
    connection.listen(listener, ends.append)
    here.service.stop()
    here.until(lambda: bool(ends))
    assert (got, answers) == ([Balance(1), Balance(3)], [Balance(13)])
    assert isinstance(ends[0], ConnectionLost)
    here.result(pool.submit(connection.close))
