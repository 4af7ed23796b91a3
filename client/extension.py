"""Extensions: code above a connection that handles some types of notifications itself, as messaging does."""

import itertools
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol, TypeVar

from ..agents.ids import AgentId
from ..agents.notification import Notification
from .arguments import request_arguments, send_arguments
from .driver import Driver
from .frames import ServerNote, StreamItems, note_size
from .pending import ReplyTypes, Waiter

__all__ = ["Cancellable", "Extension", "Loop"]

T = TypeVar("T")

_FIRST_REQUEST: Final = 1 << 48
"""Numbers of requests from this one on are those of extensions; a connection counts its own from 1."""


class Cancellable(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Do not make the call."""
        ...


class Loop(Protocol):
    """The event loop of a connection."""

    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function in the loop, soon. May be called in any thread.

        Raises RuntimeError, or does nothing, if the loop has ended.
        """
        ...

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the next turn of the loop. To be called in the loop."""
        ...

    def later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call a function in the loop after a time. To be called in the loop."""
        ...

    def waiter(self, timeout_s: float | None, what: str) -> tuple[Waiter, Awaitable[Any]]:
        """Return a waiter, and what coroutines of this loop await for it. To be called in the loop.

        After `timeout_s` it fails with RequestTimeout; `what` says what has not happened.
        """
        ...

    def posted(self, size_bytes: int) -> None:
        """Learn that a notification was queued beside those of the program."""
        ...


class _End:
    """Learns that the connection has ended, in the form of a waiter."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def set_result(self, result: object, /) -> None:
        """Report the end."""
        del result
        self._ended()

    def set_exception(self, exception: BaseException, /) -> None:
        """Report the end."""
        del exception
        self._ended()

    def done(self) -> bool:
        """Return that nobody has given up."""
        return False


class Extension:
    """The connection as an extension sees it. But for `schedule` it is used in the loop of the connection."""

    _numbers = itertools.count(_FIRST_REQUEST)

    def __init__(
        self, driver: Driver, loop: Loop, kinds: Collection[str], take: Callable[[ServerNote], bool]
    ) -> None:
        """Have `take` called with each notification of these types that answers no request.

        It returns whether it has handled it; if not, the program gets it. Raises RuntimeError if one of the
        types has an extension already.
        """
        self._driver = driver
        self._loop = loop
        sinks = driver.pending.sinks
        taken = sorted(set(kinds) & sinks.keys())
        if taken:
            raise RuntimeError(f"another extension of the connection handles {taken[0]}")
        sinks.update(dict.fromkeys(kinds, take))
        self._stepping = False

    @property
    def connection(self) -> str:
        """The identifier of the connection, "" before it is open."""
        return self._driver.pending.connection or ""

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._driver.pending.ended

    @property
    def closed_in_order(self) -> bool:
        """Whether this program has closed the connection."""
        return self._driver.pending.closed_in_order

    def reason(self) -> Exception:
        """Return why the connection has ended."""
        return self._driver.pending.reason()

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have a function called when the connection has ended."""
        self._driver.pending.expect_end(_End(ended))

    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function in the loop, soon. May be called in any thread."""
        self._loop.schedule(function)

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the next turn of the loop."""
        self._loop.soon(function)

    def later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call a function in the loop after a time."""
        return self._loop.later(delay_s, function)

    def waiter(self, timeout_s: float | None, what: str) -> tuple[Waiter, Awaitable[Any]]:
        """Return a waiter, and what coroutines of the loop await for it: see `Loop.waiter`."""
        return self._loop.waiter(timeout_s, what)

    def post(self, to: AgentId | str, notification: Notification) -> int:
        """Queue a notification, and return its number. Raises what has ended the connection."""
        return self._queue(send_arguments(to, notification))

    def request(
        self, to: AgentId | str, notification: Notification, waiter: Waiter, types: ReplyTypes
    ) -> None:
        """Queue a request; its answer, one of `types`, or a failure completes the waiter."""
        number = next(self._numbers)
        self._driver.pending.expect_reply(number, waiter, types)
        if not waiter.done():
            self._queue(request_arguments(to, notification, number))

    def follow(self, stream: AgentId, take: Callable[[StreamItems], None]) -> None:
        """Have `take` called with the items of a stream that come from now on."""
        self._driver.pending.streams[stream] = take

    def acknowledge(self, stream: AgentId, upto: int) -> None:
        """Tell the server how far this client has a stream, now and whenever it connects to a replica.

        Raises ValueError if it follows too many streams.
        """
        self._driver.session.streams.acknowledge(stream, upto)
        self._step_soon()

    def unfollow(self, stream: AgentId) -> None:
        """Take no more items of a stream."""
        self._driver.pending.streams.pop(stream, None)
        self._driver.session.streams.forget(stream)

    def all_acknowledged(self, waiter: Waiter) -> None:
        """Complete the waiter with None when the cluster has all that was queued so far."""
        box = self._driver.session.outbox
        if box.acked >= box.last_seq and not self.ended:
            waiter.set_result(None)
        else:
            self._driver.pending.expect_ack(box.last_seq, waiter)

    def _queue(self, arguments: Any) -> int:
        if self._driver.pending.ended:
            raise self._driver.pending.reason()
        seq = self._driver.session.send(*arguments)
        self._loop.posted(note_size(*arguments[:3]))
        self._step_soon()
        return seq

    def _step_soon(self) -> None:
        if not self._stepping:
            # What is queued in one turn of the loop is written together.
            self._stepping = True
            self._loop.soon(self._step)

    def _step(self) -> None:
        self._stepping = False
        self._driver.step()
