"""A consumer: messages that have come, receivers that wait for them, and what is to be settled. No I/O."""

from collections import deque
from typing import Final

import attrs

from ...agents import Notification
from ...client.pending import Waiter
from ..agents.protocol import (
    DEFAULT_WINDOW,
    DEFAULT_WINDOW_BYTES,
    CloseConsumer,
    ConsumerClosed,
    ConsumerOpened,
    Deliver,
    OpenConsumer,
    Refused,
    Settle,
    Settlement,
)
from ..agents.ranges import Ranges, flat
from .destinations import Destination
from .errors import ConsumerEnded, NoSuchDestination, SessionClosed, refusal
from .hub import Hub
from .message import Message, Settler
from .replies import Reply, fail_all
from .tracing import Turn

__all__ = ["ConsumerCore", "ConsumerOptions"]

_MAX_RANGES: Final = 2000
"""Numbers in one settlement: it stays far below the size of a frame."""
_SEEN: Final = "seen"
"""In place of a settlement: the program has the message."""


@attrs.frozen
class ConsumerOptions:
    """What a program asks for when it opens a consumer: see `OpenConsumer`."""

    selector: str = ""
    window: int = DEFAULT_WINDOW
    window_bytes: int = DEFAULT_WINDOW_BYTES
    durable: str = ""
    """Of a topic: the name of a durable subscription."""
    shared: str = ""
    """Of a topic: the name of a shared subscription; with `durable` the same name."""
    client_id: str = ""
    no_local: bool = False
    exclusive: bool = False

    def request(self, consumer: int, pattern: str) -> OpenConsumer:
        """Return the request to the destination, for the topics of a tree that match a pattern."""
        return OpenConsumer(
            consumer,
            self.selector,
            self.window,
            self.window_bytes,
            self.durable or self.shared,
            self.client_id,
            bool(self.durable),
            bool(self.shared),
            self.no_local,
            self.exclusive,
            pattern,
        )


class ConsumerCore:
    """A consumer of one connection at one destination."""

    def __init__(self, hub: Hub, destination: Destination, settler: Settler) -> None:
        self.destination = destination
        self.address = destination.address
        self.number = next(hub.numbers)
        self.error: Exception | None = None
        """Why the consumer has ended, None while it works."""
        self.buffer: deque[Message] = deque()
        """Messages that have come and nobody has received. Any thread may take one from its left end."""
        self.seen = Ranges()
        """What the program has received and not settled."""
        self.sent_parts: dict[int, int] = {}
        """By transaction: how many notifications were sent for it."""
        self.turn: Turn | None = None
        """While a listener or the body of a loop has a message, and a tracer follows it."""
        self._hub = hub
        self._settler = settler
        self._opening: Waiter | None = None
        self._receivers: deque[Waiter] = deque()
        self._settling: dict[tuple[str, int, int], Ranges] = {}
        """By settlement, transaction and delay."""
        self._asked: deque[tuple[int, str, int, int]] = deque()
        """Settlements from any thread: number, settlement, transaction, delay in milliseconds."""

    # From any thread

    def settle(self, number: int, settlement: Settlement, transaction: int = 0, delay_ms: int = 0) -> None:
        """Settle a message. Raises what has ended the consumer."""
        if self.error is not None:
            raise self.error
        self._asked.append((number, settlement.value, transaction, delay_ms))
        self._hub.wake(self)

    def saw(self, number: int) -> None:
        """Learn that the program has received a message that it has to settle."""
        self._asked.append((number, _SEEN, 0, 0))

    # In the loop

    def open(self, options: ConsumerOptions, opened: Waiter) -> None:
        """Open the consumer at its destination, and complete the waiter with None."""
        self._hub.consumers[self.number] = self
        self._opening = opened
        self._open_at(options, self._hub.candidates(self.destination))

    def _open_at(self, options: ConsumerOptions, candidates: deque[tuple[str, str]]) -> None:
        """Open the consumer at the first of these addresses that there is."""
        self.address, pattern = candidates.popleft()

        def failed(error: Exception) -> None:
            if isinstance(error, NoSuchDestination) and candidates:
                self._open_at(options, candidates)
            else:
                self.fail(error)

        reply = Reply(self._opened, failed, self.destination)
        types = (ConsumerOpened, Refused)
        self._hub.extension.request(self.address, options.request(self.number, pattern), reply, types)

    def _opened(self, answer: Notification) -> None:
        if isinstance(answer, Refused):
            self.fail(refusal(answer))
            return
        opened, self._opening = self._opening, None
        if opened is not None and not opened.done():
            opened.set_result(None)

    def receive(self, waiter: Waiter) -> None:
        """Complete the waiter with the next message."""
        if self.buffer:
            waiter.set_result(self.buffer.popleft())
        elif self.error is not None:
            waiter.set_exception(self.error)
        else:
            self._receivers.append(waiter)

    def cancel_receive(self, waiter: Waiter) -> None:
        """Forget a receiver that does not wait any more."""
        if waiter in self._receivers:
            self._receivers.remove(waiter)

    def handle(self, note: Notification) -> None:
        """Take messages, or the end."""
        if isinstance(note, ConsumerClosed):
            text = note.text or f"{self.destination} has ended the consumer"
            self._hub.consumers.pop(self.number, None)
            self.fail(ConsumerEnded(text))
            return
        assert isinstance(note, Deliver)
        pack = note.pack
        for index, number in enumerate(pack.column("number")):
            assert isinstance(number, int)
            self.buffer.append(Message(self._settler, pack, index, number))
        # A receiver may go on within the call, and receive, recover or close.
        while self._receivers and self.buffer:
            waiter = self._receivers.popleft()
            if not waiter.done():
                waiter.set_result(self.buffer.popleft())

    def flush(self) -> None:
        """Send the settlements that have come together."""
        while self._asked:
            number, settlement, transaction, delay_ms = self._asked.popleft()
            if settlement == _SEEN:
                self.seen.add(number, number + 1)
                continue
            self.seen.remove(number, number + 1)
            self._settling.setdefault((settlement, transaction, delay_ms), Ranges()).add(number, number + 1)
        settling, self._settling = self._settling, {}
        for (settlement, transaction, delay_ms), ranges in settling.items():
            numbers = flat(ranges)
            for first in range(0, len(numbers), _MAX_RANGES):
                part = numbers[first : first + _MAX_RANGES]
                self._post(Settle(self.number, settlement, part, transaction, delay_ms))
                if transaction:
                    self.sent_parts[transaction] = self.sent_parts.get(transaction, 0) + 1

    def _post(self, note: Notification) -> None:
        if self.error is None and not self._hub.extension.ended:
            self._hub.extension.post(self.address, note)

    def recover(self) -> None:
        """Have all messages that are not settled delivered again: those that were seen are counted."""
        self.flush()
        unseen = Ranges()
        while self.buffer:
            number = self.buffer.popleft().number
            unseen.add(number, number + 1)
        seen, self.seen = self.seen, Ranges()
        # Those that were seen are the older ones: they come first again.
        for ranges, settlement in ((seen, Settlement.RETURNED), (unseen, Settlement.RELEASED)):
            if ranges:
                self._settling[(settlement.value, 0, 0)] = ranges
        self.flush()

    def close(self, closed: Waiter) -> None:
        """Close the consumer, and complete the waiter with None. What is not settled returns."""
        if self.error is not None:
            closed.set_result(None)
            return
        self.flush()
        self._hub.consumers.pop(self.number, None)
        request = CloseConsumer(self.number, flat(self.seen))
        self.fail(SessionClosed(f"the consumer of {self.destination} is closed"))
        self.buffer.clear()

        def done(_: object) -> None:
            if not closed.done():
                closed.set_result(None)

        reply = Reply(done, done, self.destination)
        self._hub.extension.request(self.address, request, reply, (ConsumerClosed,))

    def fail(self, error: Exception) -> None:
        """End the consumer."""
        if self.error is not None:
            return
        self.error = error
        self._hub.consumers.pop(self.number, None)
        opening, self._opening = self._opening, None
        waiters = [opening, *self._receivers]
        self._receivers.clear()
        fail_all(waiters, error)
