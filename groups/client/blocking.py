"""The blocking face of groups: ``for event in Group(connection, "orders").join()``."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, Self

from ...agents import AgentId
from ...client import Connection, QuorateClientError, RequestTimeout
from ...client.connection_base import ConnectionBase
from ...client.pending import Waiter
from ...client.time_limits import time_limit
from ..agents.protocol import GroupDescription
from .base import GroupBase, MembershipBase, checked_payload, checked_payloads, member_ids
from .events import GroupEvent, Member, Message
from .hub import ACK_BYTES, ACK_ITEMS
from .membership import MembershipCore

__all__ = ["Group", "Membership"]


class Group(GroupBase):
    """A group of a server, used by a blocking connection. Its methods may be called in any thread.

    A group is made when somebody uses it first. Whoever is connected may cast, member or not.
    """

    def __init__(self, connection: Connection, name: str, *, timeout: float | None = 30.0) -> None:
        """Use a group. `timeout`: seconds that each request waits for the server, unless it is told."""
        if isinstance(connection, ConnectionBase) and not isinstance(connection, Connection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("the connection is not a blocking one; give it to quorate.groups.AsyncGroup")
        super().__init__(connection, name)
        self._timeout_s = time_limit(timeout)

    def cast(
        self, payload: bytes, *, to: Sequence[Member | AgentId] = (), timeout: float | None = None
    ) -> int:
        """Send a message to all members, and return its index once it is ordered.

        to: only these members get it; a message to all has at most 64 KiB, one to some 256 KiB. It survives
        what the server survives. Raises CastTooLarge, GroupFull, RequestTimeout (the message may still be
        ordered) and what has ended the connection.
        """
        return self._cast([checked_payload(payload)], to, timeout)

    def cast_all(self, payloads: Iterable[bytes], *, timeout: float | None = None) -> int:
        """Send messages that get consecutive indices, and return the first: see `cast`.

        All of them together are at most 512 KiB.
        """
        return self._cast(checked_payloads(payloads), (), timeout)

    def _cast(self, payloads: list[bytes], to: Sequence[Member | AgentId], timeout: float | None) -> int:
        ids = member_ids(to)
        found: int = self.wait(
            lambda waiter: self.core.cast(payloads, ids, waiter), "the message was not ordered", timeout
        )
        return found

    def cast_nowait(self, payload: bytes) -> "Future[int]":
        """Send a message to all members; the future gets its index. The caller limits how many wait."""
        future: Future[int] = Future()
        payloads = [checked_payload(payload)]
        self._start(lambda waiter: self.core.cast(payloads, [], waiter), future)
        return future

    def request(self, payload: bytes, *, oldest: bool = False, timeout: float | None = None) -> bytes:
        """Send a message that the members answer, and return the first answer.

        oldest: the answer of the oldest member counts, and if it goes, that of the next. Raises NoMembers,
        NoAnswer (no answer in time, though the members may still act on it) and as `cast` does.
        """
        checked_payload(payload)
        limit_s = self._timeout_s if timeout is None else time_limit(timeout)
        wait_s = 3600.0 if limit_s is None else limit_s

        def start(waiter: Waiter) -> None:
            self.core.request(payload, oldest=oldest, timeout_s=wait_s, waiter=waiter)

        # The server answers in time, unless there is none.
        answer: bytes = self.wait(start, f"{self.name} has not answered", wait_s + 5.0)
        return answer

    def join(self, *, label: str = "", timeout: float | None = None) -> "Membership":
        """Become a member, and return the membership, whose first event is the view with this member.

        label: what the other members see beside the user. Raises GroupFull, GroupError if this connection
        is a member already, RequestTimeout.
        """
        core = MembershipCore(self.name, self.hub.me)
        self.wait(lambda waiter: self.core.join(label, core, waiter), f"{self.name} was not joined", timeout)
        return Membership(self, core)

    def describe(self, *, timeout: float | None = None) -> GroupDescription:
        """Return the members and figures of the group."""
        found: GroupDescription = self.wait(self.core.describe, f"{self.name} has not answered", timeout)
        return found

    def wait(self, start: Callable[[Waiter], None], what: str, timeout: float | None) -> Any:
        """Call a function in the loop with a waiter, and return the outcome. Raises RequestTimeout."""
        future: Future[Any] = Future()
        limit_s = self._timeout_s if timeout is None else time_limit(timeout)
        self._start(start, future)
        try:
            return future.result(limit_s)
        except FutureTimeout as error:
            if isinstance(error, QuorateClientError):
                raise
            future.cancel()
            raise RequestTimeout(f"{what} within {limit_s:g} s") from None

    def _start(self, start: Callable[[Waiter], None], future: "Future[Any]") -> None:
        def run() -> None:
            try:
                start(future)
            except (QuorateClientError, TypeError, ValueError) as error:
                if not future.done():
                    future.set_exception(error)

        try:
            self.hub.extension.schedule(run)
        except RuntimeError:
            # The loop ends with the connection.
            future.set_exception(self.hub.extension.reason())


class Membership(MembershipBase):
    """A membership in a group. Iterating yields its events, for one thread at a time.

    Leaving the ``with`` block leaves the group. An event counts as received when it is taken: what was not
    taken is kept by the server while this member keeps up, and comes again after a reconnection.
    """

    def __init__(self, group: Group, core: MembershipCore) -> None:
        super().__init__(core)
        self._group = group
        self._receiver: Future[None] | None = None
        core.on_event = self._came

    def receive(self, *, timeout: float | None = None) -> GroupEvent:
        """Return the next event. Raises RequestTimeout, and MembershipEnded or what ended the connection."""
        limit_s = time_limit(timeout)
        event = self._take()
        if event is None:
            future: Future[None] = Future()
            self._receiver = future
            event = self._take()
            if event is None:
                self._check()
                try:
                    future.result(limit_s)
                except FutureTimeout:
                    raise RequestTimeout(f"no event of {self._group.name} came in time") from None
                return self.receive(timeout=timeout)
        return event

    def __iter__(self) -> Iterator[GroupEvent]:
        """Yield events until the membership ends. Raises what ends it, unless this program does."""
        while True:
            try:
                event = self.receive()
            except QuorateClientError:
                if self._events.in_order:
                    return
                raise
            yield event

    def answer(self, message: Message, payload: bytes) -> None:
        """Answer a request. Raises ValueError if the message is none."""
        if not message.request:
            raise ValueError(f"message {message.index} of {self._group.name} asks for no answer")
        checked_payload(payload)
        self._run(lambda: self._group.core.answer(message.index, payload))

    def leave(self, *, timeout: float | None = None) -> None:
        """Be a member no longer. The other members get a view without this one."""
        group = self._group
        if self._events.error is None:
            group.wait(group.core.leave, f"{group.name} was not left", timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The connection may have ended, and with it the membership.
        with contextlib.suppress(QuorateClientError):
            self.leave()

    def _take(self) -> GroupEvent | None:
        core = self._events
        before = core.unacknowledged
        event = core.take()
        if event is not None and (
            not before or core.unacknowledged >= ACK_BYTES or core.taken - core.acked >= ACK_ITEMS
        ):
            self._run(lambda: self._group.core.taken(core))
        return event

    def _check(self) -> None:
        if self._events.error is not None and not self._events.events:
            raise self._events.error

    def _came(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and not receiver.done():
            receiver.set_result(None)

    def _run(self, job: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended with the connection
            self._group.hub.extension.schedule(job)
