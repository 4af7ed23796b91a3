"""A subscription of a client of a mesh, in asyncio."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ...client.errors import ConnectionClosed, QuorateClientError, RequestTimeout
from ...client.time_limits import time_limit
from ..model import Dot
from .cursor_file import save_cursor
from .errors import SubscriptionEnded
from .session import MeshSession
from .subscriber import MeshMessage, Subscriber, encode_cursor

__all__ = ["AsyncSubscription", "SubscriptionOwner"]


class SubscriptionOwner(Protocol):
    """The client, as a subscription uses it."""

    @property
    def session(self) -> MeshSession:
        """The session."""
        ...

    def soon(self) -> None:
        """Write in the next turn of the loop what the session has to send."""
        ...

    async def answer(self, request: int) -> Any:
        """Wait for the answer to a request."""
        ...


class AsyncSubscription:
    """A subscription of an `AsyncMesh`: iterate over it, or call `receive`; leave it with ``async with``."""

    def __init__(self, mesh: SubscriptionOwner, consumer: int, core: Subscriber, path: Path | None) -> None:
        self._mesh = mesh
        self._consumer = consumer
        self._core = core
        self._path = path
        self._messages: deque[MeshMessage] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._error: QuorateClientError | None = None
        self._temporary = not core.name

    @property
    def dots(self) -> list[Dot]:
        """The persistent subscriptions in the directory; none for a temporary one."""
        return self._core.dots

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._core.topic

    @property
    def missed(self) -> int:
        """Messages that a temporary subscription has missed, as far as its daemon knows."""
        return self._core.missed

    @property
    def cursor(self) -> bytes | None:
        """What was acknowledged, to be kept with what the program has done; None for a temporary one."""
        return None if self._core.cursor is None else encode_cursor(self._core.cursor)

    async def receive(self, timeout: float | None = None) -> MeshMessage:
        """Return the next message. Raises RequestTimeout, SubscriptionEnded or the end of the connection."""
        limit = time_limit(timeout)
        if not self._messages:
            if self._temporary:
                self._mesh.session.acknowledge(self._consumer)
                self._mesh.soon()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._error is not None:
                raise self._error
            self._waiters.append(waiter)
            try:
                await asyncio.wait_for(waiter, limit)
            except TimeoutError:
                raise RequestTimeout(f"no message of {self.topic!r} came within {limit:g} s") from None
            finally:
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)
            if not self._messages:
                assert self._error is not None
                raise self._error
        message = self._messages.popleft()
        if self._messages and self._waiters and not self._waiters[0].done():
            self._waiters[0].set_result(None)
        if self._temporary:
            # Only for the window: a temporary subscription keeps nothing.
            self.release(message)
        return message

    async def acknowledge(self, message: MeshMessage | None = None) -> None:
        """Acknowledge a message and all received before it; without argument all that was received."""
        if message is None and self._messages:
            # What waits here was not received by the program.
            message = self._last_received()
            if message is None:
                return
        self._mesh.session.acknowledge(self._consumer, message)
        self._mesh.soon()
        if self._path is not None and self._core.cursor is not None:
            save_cursor(self._path, self._core.cursor)

    def _last_received(self) -> MeshMessage | None:
        waiting = {(each.stream, each.position) for each in self._messages}
        last: MeshMessage | None = None
        for stream, number, publisher, _ in self._core.unacknowledged:
            if (stream, number) in waiting:
                break
            if publisher:
                last = MeshMessage("", publisher, 0, b"", 0, False, stream, number)
        return last

    async def unsubscribe(self) -> None:
        """End the subscription: what it has not acknowledged is not kept for it any more."""
        await self._leave(end=True)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def close(self) -> None:
        """Receive no more. A persistent subscription stays, and may be attached again."""
        await self._leave(end=False)

    async def _leave(self, *, end: bool) -> None:
        if self._error is None:
            self.fail(SubscriptionEnded("the subscription was closed here"))
            if not self._mesh.session.closed:
                await self._mesh.answer(self._mesh.session.detach(self._consumer, end=end))

    def pop(self) -> MeshMessage | None:
        """Return a message that has arrived; None if there is none. Any thread may call it."""
        try:
            return self._messages.popleft()
        except IndexError:
            return None

    @property
    def temporary(self) -> bool:
        """Whether it is kept only while it is attached."""
        return self._temporary

    def release(self, message: MeshMessage) -> None:
        """Make room for more messages of a temporary subscription."""
        self._mesh.session.acknowledge(self._consumer, message)
        self._mesh.soon()

    def take(self, messages: list[MeshMessage]) -> None:
        """Add messages that have arrived."""
        self._messages.extend(messages)
        if self._waiters and not self._waiters[0].done():
            self._waiters[0].set_result(None)

    def fail(self, error: QuorateClientError) -> None:
        """End: no more messages will come."""
        if self._error is None:
            self._error = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def __aenter__(self) -> "AsyncSubscription":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(QuorateClientError):
            await self.close()

    async def __aiter__(self) -> AsyncIterator[MeshMessage]:
        while True:
            try:
                yield await self.receive()
            except (SubscriptionEnded, ConnectionClosed):
                return
