"""A mesh in asyncio: ``async with connect_async(url, ...) as mesh``."""

import asyncio
import contextlib
import logging
import random
import secrets
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import attrs

from ...client.aio import AsyncioPort
from ...client.errors import ConnectionClosed, QuorateClientError, RequestTimeout
from ...client.events import SessionSettings
from ...client.pending import Waiter
from ...client.time_limits import seconds, time_limit
from ...client.url import parse_url, url_tls
from ...tls import TlsFiles
from ..model import MAX_BODY, TopicOptions
from .cursor_file import read_cursor, save_cursor
from .driver import MeshDriver
from .errors import PublishTimeout, refusal
from .publisher import Confirmation
from .session import MeshSession
from .subscriber import MeshMessage, Subscriber
from .subscription import AsyncSubscription

__all__ = ["AsyncMesh", "AsyncSubscription", "connect_async"]

_log: Final = logging.getLogger("quorate.mesh")
WINDOW: Final = 4096
"""Messages that may be unacknowledged before `publish_nowait` waits."""
WINDOW_BYTES: Final = 16 * 1024 * 1024
FOREVER_S: Final = 1_000_000_000.0


@attrs.define(eq=False)
class _Flush:
    """Waits until messages of a topic up to a number are acknowledged."""

    number: int
    future: Waiter


class AsyncMesh:
    """A client of a mesh. Make it with `connect_async`; use it in the loop that made it.

    It is connected with one daemon at a time, and goes on with another one by itself: what was published and
    is not acknowledged is sent again, subscriptions go on after what they have received.
    """

    def __init__(
        self,
        session_of: "Callable[[AsyncMesh], MeshSession]",
        request_timeout_s: float | None,
        tls: TlsFiles | None,
    ) -> None:
        self.session = session_of(self)
        self.driver = MeshDriver(self.session)
        self.driver.tls = tls
        self._step_due = False
        self.orders_lost = 0
        """How often the order of this client's messages could not be kept: see the guide."""
        self._request_timeout_s = request_timeout_s
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._attaching: dict[int, asyncio.Future[None]] = {}
        self._subscriptions: dict[int, AsyncSubscription] = {}
        self._flushes: dict[str, deque[_Flush]] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        self._unacknowledged_bytes = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._refusals: dict[str, QuorateClientError] = {}
        self.on_room: Callable[[], None] | None = None
        """Called when messages were acknowledged or refused, and at the end."""

    async def open(self) -> None:
        """Wait until the session is open. Raises why it cannot be opened."""
        self.driver.start(AsyncioPort(self.driver))
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            self.session.close()
            self.driver.step()
            raise

    def soon(self) -> None:
        """Write in the next turn of the loop what the session has to send, once for all until then."""
        if not self._step_due:
            self._step_due = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._step_due = False
        self.driver.step()

    @property
    def daemon(self) -> str:
        """The identifier of the daemon it is connected with; "" while it is with none."""
        return self.session.daemon

    @property
    def unacknowledged(self) -> int:
        """Messages that no daemon has acknowledged."""
        return len(self._sizes)

    @property
    def unacknowledged_bytes(self) -> int:
        """The size of these messages."""
        return self._unacknowledged_bytes

    # Publishing

    async def publish(self, topic: str, body: bytes, *, timeout: float | None = None) -> None:
        """Publish a message; return once it is on the disk of a daemon, or as many as are configured.

        Raises NoTopic, TopicFull or another MeshError if it is refused, PublishTimeout after `timeout`
        seconds: it stays, and is sent until a daemon takes it.
        """
        limit = time_limit(timeout)
        await self._publish(topic, body)
        number = self.session.publishers[topic].count
        await self._acknowledged(topic, number, limit)

    async def publish_nowait(self, topic: str, body: bytes) -> None:
        """Publish a message without waiting for the acknowledgement. Waits while the window is full."""
        await self._publish(topic, body)

    async def _publish(self, topic: str, body: bytes) -> None:
        check_message(topic, body)
        while len(self._sizes) >= WINDOW or self._unacknowledged_bytes > WINDOW_BYTES:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        self.submit(topic, [body])

    def submit(self, topic: str, bodies: list[bytes], waiter: Waiter | None = None) -> None:
        """Publish messages, whatever the window. waiter: completed when all of them are acknowledged."""
        if self.session.closed:
            raise self.session.error or ConnectionClosed("the connection to the mesh was closed")
        number, last = self.session.publish(topic, bodies)
        for body in bodies:
            self._sizes[topic, number] = len(body)
            self._unacknowledged_bytes += len(body)
            number += 1
        if waiter is not None:
            self._flushes.setdefault(topic, deque()).append(_Flush(last, waiter))
        self.soon()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything published so far is acknowledged. Raises why something was refused."""
        limit = time_limit(timeout)
        for topic, publisher in list(self.session.publishers.items()):
            if publisher.unacknowledged:
                await self._acknowledged(topic, publisher.count, limit)
        if self._refusals:
            _, error = self._refusals.popitem()
            self._refusals.clear()
            raise error

    async def _acknowledged(self, topic: str, number: int, limit_s: float | None) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flush = _Flush(number, future)
        self._flushes.setdefault(topic, deque()).append(flush)
        if self.session.closed:
            raise self.session.error or ConnectionClosed("the connection to the mesh was closed")
        try:
            await asyncio.wait_for(future, limit_s)
        except TimeoutError:
            raise PublishTimeout(
                f"no daemon has acknowledged message {number} to {topic!r} within {limit_s:g} s; it is sent "
                "until one does"
            ) from None
        finally:
            with contextlib.suppress(ValueError):
                self._flushes[topic].remove(flush)

    # Subscriptions

    async def subscribe(
        self,
        topic: str,
        *,
        name: str = "",
        cursor: Path | str | bytes | None = None,
        window_bytes: int = 0,
        replaces: "AsyncSubscription | None" = None,
    ) -> AsyncSubscription:
        """Subscribe to a topic.

        name: of a persistent subscription; without it a temporary one, which gets what is published from now
        on as long as it is attached. cursor: a file in which its positions are kept, or positions that the
        program has kept itself: see `AsyncSubscription.cursor`. With them it goes on exactly once, at any
        daemon; without, what it may have had is marked as redelivered. window_bytes: messages under way
        before earlier ones are acknowledged. replaces: a persistent subscription that ends in the same step.
        Raises NoTopic, SubscriptionEnded for a cursor whose subscription has ended, or another MeshError.
        """
        path, saved = read_cursor(cursor)
        if cursor is not None and not name:
            raise ValueError("a cursor belongs to a persistent subscription; give it a name")
        if saved is not None and (saved.topic, saved.name) != (topic, name):
            raise ValueError(f"the cursor is that of {saved.name!r} to {saved.topic!r}")
        core = Subscriber(topic, name, secrets.token_hex(8), cursor=saved)
        changed_from = [] if replaces is None else replaces.dots
        consumer = self.session.subscribe(core, window_bytes, changed_from)
        future = self._attaching[consumer] = asyncio.get_running_loop().create_future()
        subscription = self._subscriptions[consumer] = AsyncSubscription(self, consumer, core, path)
        self.soon()
        try:
            await asyncio.wait_for(future, self._request_timeout_s)
        except TimeoutError:
            raise RequestTimeout(f"no daemon has answered within {self._request_timeout_s:g} s") from None
        except BaseException:
            self._subscriptions.pop(consumer, None)
            raise
        finally:
            self._attaching.pop(consumer, None)
        if path is not None and core.cursor is not None:
            save_cursor(path, core.cursor)
        return subscription

    # Topics

    async def topics(self) -> list[dict[str, Any]]:
        """Return the topics, as the daemon knows them: names, bytes, subscriptions."""
        found: list[dict[str, Any]] = await self.ask("topics")
        return found

    async def create(self, topic: str, *, topic_bytes: int = 0, on_full: str = "refuse") -> None:
        """Create a topic. Needs the right to administer. Raises TopicExists, NotPermitted, MeshError."""
        await self.ask("create", topic, options=TopicOptions(topic_bytes, on_full))

    async def delete(self, topic: str) -> None:
        """Delete a topic, with its subscriptions. Needs the right to administer. Raises NoTopic."""
        await self.ask("delete", topic)

    async def subscriptions(self, topic: str = "") -> list[dict[str, Any]]:
        """Return persistent subscriptions: those of this user, all for an administrator."""
        found: list[dict[str, Any]] = await self.ask("subscriptions", topic)
        return found

    async def unsubscribe(self, topic: str, name: str) -> None:
        """End a persistent subscription by its name, wherever it is attached. Raises SubscriptionEnded."""
        await self.ask("unsubscribe", topic, name)

    async def status(self) -> dict[str, Any]:
        """Return what the daemon knows of itself and of the others."""
        found: dict[str, Any] = await self.ask("status")
        return found

    async def ask(self, what: str, topic: str = "", name: str = "", options: Any = None) -> Any:
        """Ask the daemon. Raises MeshError."""
        return await self.answer(self.session.ask(what, topic, name, options))

    async def answer(self, request: int) -> Any:
        """Wait for the answer to a request."""
        if self.session.closed:
            raise self.session.error or ConnectionClosed("the connection to the mesh was closed")
        future = self._answers[request] = asyncio.get_running_loop().create_future()
        self.soon()
        try:
            return await asyncio.wait_for(future, self._request_timeout_s)
        except TimeoutError:
            raise RequestTimeout(f"no daemon has answered within {self._request_timeout_s:g} s") from None
        finally:
            self._answers.pop(request, None)
            self.session.forget(request)

    # The end

    async def close(self) -> None:
        """Wait until what was published is acknowledged, for two seconds at most, and end."""
        if not self.session.closed:
            with contextlib.suppress(QuorateClientError):
                await self.flush(2.0)
            self.session.close()
            self.driver.step()

    async def __aenter__(self) -> "AsyncMesh":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # The interface SessionUser

    def opened(self) -> None:
        """The session is open."""
        if not self._opened.done():
            self._opened.set_result(None)

    def confirmed(self, topic: str, confirmation: Confirmation) -> None:
        """Messages were acknowledged or refused."""
        error = None if confirmation.refusal is None else refusal(confirmation.refusal)
        for number in confirmation.numbers:
            self._unacknowledged_bytes -= self._sizes.pop((topic, number), 0)
        flushes = self._flushes.get(topic)
        last = confirmation.numbers[-1] if confirmation.numbers else 0
        awaited = False
        while flushes and flushes[0].number <= last:
            future = flushes.popleft().future
            if not future.done():
                awaited = True
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
        if error is not None and not awaited:
            self._refusals[topic] = error
        if self.on_room is not None:
            self.on_room()
        while self._room and len(self._sizes) < WINDOW:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)

    def order_lost(self, topic: str) -> None:
        """The order of messages cannot be kept."""
        self.orders_lost += 1
        _log.warning(
            "the order of the messages to %r with earlier ones is lost: the daemon that took those is away "
            "for good, or its disk is",
            topic,
        )

    def answered(self, request: int, result: Any, error: QuorateClientError | None) -> None:
        """A request was answered."""
        future = self._answers.get(request)
        if future is not None and not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def attached(self, consumer: int, error: QuorateClientError | None) -> None:
        """A subscription was attached, or refused."""
        future = self._attaching.get(consumer)
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def received(self, consumer: int, messages: list[MeshMessage]) -> None:
        """Messages have arrived."""
        subscription = self._subscriptions.get(consumer)
        if subscription is not None:
            subscription.take(messages)

    def ended(self, consumer: int, error: QuorateClientError) -> None:
        """A subscription has ended."""
        self.attached(consumer, error)
        subscription = self._subscriptions.pop(consumer, None)
        if subscription is not None:
            subscription.fail(error)

    def closed(self, error: QuorateClientError | None) -> None:
        """The session has ended."""
        reason = error or ConnectionClosed("the connection to the mesh was closed")
        futures: list[Waiter] = [self._opened, *self._room]
        futures += [each.future for flushes in self._flushes.values() for each in flushes]
        for future in futures:
            if not future.done():
                future.set_exception(reason)
        if not self._opened.cancelled():
            # Nobody may wait for it.
            self._opened.exception()
        if self.on_room is not None:
            self.on_room()


class _Opening:
    """Both ``await connect_async(...)`` and ``async with connect_async(...)``."""

    def __init__(self, make: Callable[[], AsyncMesh]) -> None:
        self._make = make
        self._mesh: AsyncMesh | None = None

    async def _open(self) -> AsyncMesh:
        mesh = self._make()
        await mesh.open()
        self._mesh = mesh
        return mesh

    def __await__(self) -> Generator[Any, None, AsyncMesh]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncMesh:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mesh is not None:
            await self._mesh.close()


def connect_async(
    url: str,
    *,
    user: str = "",
    password: str = "",
    timeout: float = 30.0,
    request_timeout: float | None = 30.0,
    reconnect_timeout: float | None = None,
) -> _Opening:
    """Connect to a mesh in asyncio: ``async with connect_async(...) as mesh``. See `quorate.mesh.connect`."""
    return _Opening(mesh_maker(url, user, password, timeout, request_timeout, reconnect_timeout))


def mesh_maker(
    url: str,
    user: str,
    password: str,
    timeout: float,
    request_timeout: float | None,
    reconnect_timeout: float | None,
) -> Callable[[], AsyncMesh]:
    """Check the arguments of `connect`, and return a function that makes the client, in its loop."""
    endpoints, tls = parse_url(url), url_tls(url)
    if tls is not None:
        user = user or tls.user
    settings = SessionSettings(
        open_timeout_s=seconds("timeout", timeout),
        reconnect_timeout_s=FOREVER_S
        if reconnect_timeout is None
        else seconds("reconnect_timeout", reconnect_timeout),
    )
    limit = time_limit(request_timeout, "request_timeout")

    def make() -> AsyncMesh:
        return AsyncMesh(
            lambda mesh: MeshSession(
                endpoints, user, password, secrets.token_hex(8), mesh, settings, random.random
            ),
            limit,
            tls,
        )

    return make


def check_message(topic: object, body: object) -> None:
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"{topic!r} is not the name of a topic; give text")
    if not isinstance(body, bytes):
        raise TypeError(f"a message is bytes, not {type(body).__name__}; encode it")
    if len(body) > MAX_BODY:
        raise ValueError(f"the message has {len(body)} bytes, and a mesh takes {MAX_BODY} at most")
