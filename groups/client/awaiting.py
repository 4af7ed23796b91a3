"""The face of groups for coroutines of asyncio and Twisted: ``async for event in membership``."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from ...agents import AgentId
from ...client import QuorateClientError
from ...client.connection_base import AsyncIteration, ConnectionBase
from ...client.pending import Waiter
from ...client.time_limits import time_limit
from ..agents.items import MemberInfo
from ..agents.protocol import GroupDescription
from .base import GroupBase, MembershipBase, checked_payload, checked_payloads, member_ids
from .events import GroupEvent, Member, Message
from .membership import MembershipCore

__all__ = ["AsyncGroup", "AsyncMembership"]


class AsyncGroup(GroupBase):
    """A group of a server, used by a connection of asyncio or Twisted: see `Group`.

    All methods are coroutines of the connection's loop; under Twisted give them to
    ``Deferred.fromCoroutine``, or await them in a coroutine that was given to it.
    """

    def __init__(self, connection: AsyncIteration, name: str, *, timeout: float | None = 30.0) -> None:
        """Use a group. `timeout`: seconds that each request waits for the server, unless it is told."""
        if isinstance(connection, ConnectionBase) and not isinstance(connection, AsyncIteration):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("the connection is a blocking one; give it to quorate.groups.Group")
        super().__init__(connection, name)
        self._timeout_s = time_limit(timeout)

    async def cast(
        self, payload: bytes, *, to: Sequence[Member | AgentId] = (), timeout: float | None = None
    ) -> int:
        """Send a message to all members, and return its index once it is ordered: see `Group.cast`."""
        return await self._cast([checked_payload(payload)], to, timeout)

    async def cast_all(self, payloads: Iterable[bytes], *, timeout: float | None = None) -> int:
        """Send messages that get consecutive indices, and return the first: see `Group.cast_all`."""
        return await self._cast(checked_payloads(payloads), (), timeout)

    async def _cast(
        self, payloads: list[bytes], to: Sequence[Member | AgentId], timeout: float | None
    ) -> int:
        ids = member_ids(to)
        found: int = await self.wait(
            lambda waiter: self.core.cast(payloads, ids, waiter), "the message was not ordered", timeout
        )
        return found

    async def request(self, payload: bytes, *, oldest: bool = False, timeout: float | None = None) -> bytes:
        """Send a message that the members answer, and return the answer: see `Group.request`."""
        checked_payload(payload)
        limit_s = self._timeout_s if timeout is None else time_limit(timeout)
        wait_s = 3600.0 if limit_s is None else limit_s

        def start(waiter: Waiter) -> None:
            self.core.request(payload, oldest=oldest, timeout_s=wait_s, waiter=waiter)

        answer: bytes = await self.wait(start, f"{self.name} has not answered", wait_s + 5.0)
        return answer

    async def join(self, *, label: str = "", timeout: float | None = None) -> "AsyncMembership":
        """Become a member, and return the membership: see `Group.join`."""
        core = MembershipCore(self.name, self.hub.me)
        await self.wait(
            lambda waiter: self.core.join(label, core, waiter), f"{self.name} was not joined", timeout
        )
        return AsyncMembership(self, core)

    async def describe(self, *, timeout: float | None = None) -> GroupDescription:
        """Return the members and figures of the group."""
        found: GroupDescription = await self.wait(
            self.core.describe, f"{self.name} has not answered", timeout
        )
        return found

    def wait(self, start: Callable[[Waiter], None], what: str, timeout: float | None) -> Awaitable[Any]:
        """Call a function with a waiter, and return what to await for its outcome."""
        limit_s = self._timeout_s if timeout is None else time_limit(timeout)
        waiter, awaited = self.hub.extension.waiter(limit_s, what)
        try:
            start(waiter)
        except (QuorateClientError, TypeError, ValueError) as error:
            if not waiter.done():
                waiter.set_exception(error)
        return awaited


class AsyncMembership(MembershipBase):
    """A membership in a group, for one coroutine at a time: see `Membership`."""

    def __init__(self, group: AsyncGroup, core: MembershipCore) -> None:
        super().__init__(core)
        self._group = group
        self._receiver: Waiter | None = None
        core.on_event = self._came

    async def receive(self, *, timeout: float | None = None) -> GroupEvent:
        """Return the next event: see `Membership.receive`."""
        limit_s = time_limit(timeout)
        while True:
            event = self._events.take()
            if event is not None:
                self._group.core.taken(self._events)
                return event
            if self._events.error is not None:
                raise self._events.error
            extension = self._group.hub.extension
            self._receiver, awaited = extension.waiter(limit_s, f"no event of {self._group.name} came")
            await awaited

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GroupEvent:
        try:
            return await self.receive()
        except QuorateClientError:
            if self._events.in_order:
                raise StopAsyncIteration from None
            raise

    async def answer(self, message: Message, payload: bytes) -> None:
        """Answer a request. Raises ValueError if the message is none."""
        if not message.request:
            raise ValueError(f"message {message.index} of {self._group.name} asks for no answer")
        self._group.core.answer(message.index, checked_payload(payload))

    def state_ready(self) -> None:
        """Tell the group that this member has the state of the application that it replicates."""
        self._group.core.ready()

    @property
    def first_members(self) -> tuple[MemberInfo, ...]:
        """The members of the view with which this member has joined."""
        return self._events.first_members

    @property
    def had_state(self) -> bool:
        """Whether a member ever had the state of the application, as of the join."""
        return self._events.had_state

    async def leave(self, *, timeout: float | None = None) -> None:
        """Be a member no longer. The other members get a view without this one."""
        group = self._group
        if self._events.error is None:
            await group.wait(group.core.leave, f"{group.name} was not left", timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The connection may have ended, and with it the membership.
        with contextlib.suppress(QuorateClientError):
            await self.leave()

    def _came(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and not receiver.done():
            receiver.set_result(None)
