"""A mesh for threads: ``with connect(url, ...) as mesh``. Any thread may use it.

The client lives in an event loop in one daemon thread. A caller puts what it publishes into a queue, and
wakes the loop only if the queue was empty.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from ...client.errors import ConnectionClosed, QuorateClientError
from ...client.time_limits import time_limit
from .aio import WINDOW, WINDOW_BYTES, AsyncMesh, AsyncSubscription, check_message, mesh_maker
from .errors import PublishTimeout, SubscriptionEnded
from .subscriber import MeshMessage

__all__ = ["Mesh", "Subscription", "connect"]

_log: Final = logging.getLogger("quorate.mesh")
T = TypeVar("T")

RELEASE: Final = 64
"""A temporary subscription makes room for more after so many messages, and when it has none."""

EndCallback = Callable[[QuorateClientError], object]


class Subscription:
    """A subscription of a `Mesh`: iterate over it, call `receive`, or have a thread `listen`."""

    def __init__(self, mesh: "Mesh", core: AsyncSubscription) -> None:
        self._mesh = mesh
        self.core = core
        self._listener: threading.Thread | None = None
        self._taken = 0

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.core.topic

    @property
    def missed(self) -> int:
        """Messages that a temporary subscription has missed, as far as its daemon knows."""
        return self.core.missed

    @property
    def cursor(self) -> bytes | None:
        """What was acknowledged, to be kept with what the program has done; None for a temporary one."""
        return self.core.cursor

    def receive(self, timeout: float | None = None) -> MeshMessage:
        """Return the next message. Raises RequestTimeout, SubscriptionEnded or the end of the connection."""
        message = self.core.pop()
        if message is None:
            return self._mesh.run(self.core.receive(timeout))
        if self.core.temporary:
            self._taken += 1
            if self._taken % RELEASE == 0:
                self._mesh.call(lambda: self.core.release(message))
        return message

    def acknowledge(self, message: MeshMessage | None = None) -> None:
        """Acknowledge a message and all received before it; without argument all that was received.

        A cursor file has it when this returns. Raises MeshError if that cannot be written.
        """
        self._mesh.run(self.core.acknowledge(message))

    def unsubscribe(self) -> None:
        """End the subscription: what it has not acknowledged is not kept for it any more."""
        self._mesh.run(self.core.unsubscribe())

    def close(self) -> None:
        """Receive no more. A persistent subscription stays, and may be attached again."""
        self._mesh.run(self.core.close())
        listener = self._listener
        if listener is not None and listener is not threading.current_thread():
            listener.join()

    def listen(self, callback: Callable[[MeshMessage], object], ended: EndCallback | None = None) -> None:
        """Call `callback` with each message in a thread of its own, one at a time, in order.

        If it raises, the exception is logged to the logger ``quorate.mesh`` and the next message follows.
        `ended` is called with the reason when no more messages come.
        """
        if self._listener is not None:
            raise RuntimeError("the subscription has a listener already")

        def run() -> None:
            while True:
                try:
                    message = self.receive()
                except QuorateClientError as error:
                    if ended is not None:
                        ended(error)
                    return
                try:
                    callback(message)
                except Exception:
                    _log.exception("The listener of %r failed", self.topic)

        self._listener = threading.Thread(target=run, name=f"quorate mesh {self.topic}", daemon=True)
        self._listener.start()

    def __iter__(self) -> Iterator[MeshMessage]:
        while True:
            try:
                yield self.receive()
            except (SubscriptionEnded, ConnectionClosed):
                return

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(QuorateClientError):
            self.close()


class Mesh:
    """A client of a mesh, for any number of threads. Make it with `connect`. See `AsyncMesh`."""

    def __init__(self, make: Callable[[], AsyncMesh]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="quorate-mesh", daemon=True)
        self._make = make
        self._core: AsyncMesh | None = None
        # Guards the attributes below. Callers wait on it while the window is full.
        self._room = threading.Condition()
        self._commands: deque[tuple[str, bytes, Future[None] | None]] = deque()
        self._queued_bytes = 0
        self._woken = False
        self._waiting = 0
        self._ended = False

    def open(self) -> None:
        """Connect. Raises why that cannot be done."""
        self._thread.start()

        async def begin() -> AsyncMesh:
            core = self._make()
            core.on_room = self._made_room
            await core.open()
            return core

        try:
            self._core = self.run(begin())
        except BaseException:
            self._stop()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client in its loop, and return its result."""
        if self._ended:
            coroutine.close()
            raise ConnectionClosed("the connection to the mesh was closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ConnectionClosed("the connection to the mesh was closed") from None
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function of the client in its loop, without waiting for it."""
        if not self._ended:
            self._loop.call_soon_threadsafe(function)

    @property
    def core(self) -> AsyncMesh:
        """The client in its loop."""
        assert self._core is not None
        return self._core

    @property
    def daemon(self) -> str:
        """The identifier of the daemon it is connected with; "" while it is with none."""
        return self.core.daemon

    @property
    def orders_lost(self) -> int:
        """How often the order of this client's messages could not be kept: see the guide."""
        return self.core.orders_lost

    @property
    def unacknowledged(self) -> int:
        """Messages that no daemon has acknowledged."""
        return self.core.unacknowledged + len(self._commands)

    # Publishing

    def publish(self, topic: str, body: bytes, *, timeout: float | None = None) -> None:
        """Publish a message; return once it is on the disk of a daemon, or as many as are configured.

        Raises NoTopic, TopicFull or another MeshError if it is refused, PublishTimeout after `timeout`
        seconds: it stays, and is sent until a daemon takes it.
        """
        limit = time_limit(timeout)
        done: Future[None] = Future()
        self._submit(topic, body, done, limit)
        try:
            done.result(limit)
        except concurrent.futures.TimeoutError as error:
            if isinstance(error, QuorateClientError):
                raise
            raise PublishTimeout(
                f"no daemon has acknowledged the message to {topic!r} within {limit:g} s; it is sent until "
                "one does"
            ) from None

    def publish_nowait(self, topic: str, body: bytes, *, timeout: float | None = None) -> None:
        """Publish a message without waiting for the acknowledgement. Waits while the window is full.

        If the window stays full for `timeout` seconds, PublishTimeout is raised, and nothing is published.
        """
        self._submit(topic, body, None, time_limit(timeout))

    def _submit(self, topic: str, body: bytes, done: "Future[None] | None", limit_s: float | None) -> None:
        check_message(topic, body)
        end = None if limit_s is None else time.monotonic() + limit_s
        with self._room:
            while not self._ended and self._is_full():
                self._waiting += 1
                try:
                    left_s = None if end is None else end - time.monotonic()
                    if (left_s is not None and left_s <= 0) or not self._room.wait(left_s):
                        raise PublishTimeout(
                            f"the window was full for {limit_s:g} s: no daemon acknowledges messages"
                        )
                finally:
                    self._waiting -= 1
            if self._ended or self.core.session.closed:
                raise self.core.session.error or ConnectionClosed("the connection to the mesh was closed")
            self._commands.append((topic, body, done))
            self._queued_bytes += len(body)
            wake, self._woken = not self._woken, True
        if wake:
            self._loop.call_soon_threadsafe(self._drain)

    def _is_full(self) -> bool:
        core = self.core
        return (
            len(self._commands) + core.unacknowledged >= WINDOW
            or self._queued_bytes + core.unacknowledged_bytes > WINDOW_BYTES
        )

    def _drain(self) -> None:
        with self._room:
            commands, self._commands = self._commands, deque()
            self._woken = False
            self._queued_bytes = 0
        at, last = 0, len(commands)
        batch: list[bytes] = []
        for topic, body, done in commands:
            at += 1
            batch.append(body)
            if done is None and at < last and commands[at][0] == topic:
                continue
            try:
                self.core.submit(topic, batch, done)
            except QuorateClientError as error:
                if done is not None:
                    done.set_exception(error)
            batch = []

    def _made_room(self) -> None:
        if self._waiting:
            with self._room:
                self._room.notify_all()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything published so far by any thread is acknowledged.

        Raises why something was refused that no `publish` has waited for.
        """

        async def flush() -> None:
            self._drain()
            await self.core.flush(timeout)

        self.run(flush())

    # Everything else

    def subscribe(
        self,
        topic: str,
        *,
        name: str = "",
        cursor: Path | str | bytes | None = None,
        window_bytes: int = 0,
        replaces: Subscription | None = None,
    ) -> Subscription:
        """Subscribe to a topic: see `AsyncMesh.subscribe`."""
        replaced = None if replaces is None else replaces.core
        core = self.run(
            self.core.subscribe(topic, name=name, cursor=cursor, window_bytes=window_bytes, replaces=replaced)
        )
        return Subscription(self, core)

    def topics(self) -> list[dict[str, Any]]:
        """Return the topics, as the daemon knows them: names, bytes, subscriptions."""
        return self.run(self.core.topics())

    def create(self, topic: str, *, topic_bytes: int = 0, on_full: str = "refuse") -> None:
        """Create a topic. Needs the right to administer. Raises TopicExists, NotPermitted, MeshError."""
        self.run(self.core.create(topic, topic_bytes=topic_bytes, on_full=on_full))

    def delete(self, topic: str) -> None:
        """Delete a topic, with its subscriptions. Needs the right to administer. Raises NoTopic."""
        self.run(self.core.delete(topic))

    def subscriptions(self, topic: str = "") -> list[dict[str, Any]]:
        """Return persistent subscriptions: those of this user, all for an administrator."""
        return self.run(self.core.subscriptions(topic))

    def unsubscribe(self, topic: str, name: str) -> None:
        """End a persistent subscription by its name, wherever it is attached. Raises SubscriptionEnded."""
        self.run(self.core.unsubscribe(topic, name))

    def status(self) -> dict[str, Any]:
        """Return what the daemon knows of itself and of the others."""
        return self.run(self.core.status())

    # The end

    def close(self) -> None:
        """Wait until what was published is acknowledged, for two seconds at most, and end."""
        if self._ended:
            return

        async def close() -> None:
            self._drain()
            await self.core.close()

        with contextlib.suppress(ConnectionClosed):
            self.run(close())
        self._stop()

    def _stop(self) -> None:
        with self._room:
            self._ended = True
            self._room.notify_all()
        self._loop.call_soon_threadsafe(self._cancel_all)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_soon(self._loop.stop)

    def __enter__(self) -> "Mesh":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    url: str,
    *,
    user: str = "",
    password: str = "",
    timeout: float = 30.0,
    request_timeout: float | None = 30.0,
    reconnect_timeout: float | None = None,
) -> Mesh:
    """Connect to a mesh, at whichever of its daemons answers.

    Args:
        url: the daemons, ``quorate://host:port,host:port``; others of the mesh are learned from them.
        user: name of a user of the ConnectionManager.
        password: the user's password.
        timeout: seconds to find a daemon.
        request_timeout: seconds to wait for the answers to requests; None: no limit.
        reconnect_timeout: seconds to find a daemon again before the connection ends; None: no limit.

    Raises:
        BadUrl: the URL cannot be understood.
        AuthenticationError: no such user, or another password.
        Unavailable: no daemon answered in time; the text says why.
        ProtocolError: the server is no daemon of a mesh.
    """
    mesh = Mesh(mesh_maker(url, user, password, timeout, request_timeout, reconnect_timeout))
    mesh.open()
    return mesh
