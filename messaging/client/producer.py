"""A producer: packs what waits, keeps to its credit, and tells which messages the destination has. No I/O."""

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from ...agents import ColumnValue, Notification, Pack
from ...client.pending import Waiter
from ..agents.protocol import (
    CloseProducer,
    Confirmed,
    OpenProducer,
    ProducerClosed,
    ProducerOpened,
    Publish,
    Refused,
    Rejected,
)
from .destinations import Destination
from .errors import (
    MessageTooLarge,
    NoSuchDestination,
    SessionClosed,
    TransactionRolledBack,
    refusal,
    rejection,
)
from .hub import Hub
from .replies import Reply, complete_all, fail_all

__all__ = ["Outgoing", "ProducerCore"]

PACK_MESSAGES: Final = 1000
PACK_BYTES: Final = 256 * 1024
"""A pack has at most so much, but always one message."""
BUFFER_MESSAGES: Final = 4000
BUFFER_BYTES: Final = 8 * 1024 * 1024
"""With so much unsent a program has to wait."""


@attrs.define(eq=False)
class Outgoing:
    """A message that is to be sent."""

    body: bytes
    columns: dict[str, ColumnValue]
    waiter: Waiter | None
    """Told when the destination has the message, or why not; None: nobody waits."""
    transaction: int = 0


class ProducerCore:
    """A producer of one connection at one destination."""

    def __init__(self, hub: Hub, destination: Destination) -> None:
        self.destination = destination
        self.address = destination.address
        self.number = next(hub.numbers)
        self.error: Exception | None = None
        """Why the producer has ended, None while it works."""
        self.failed: Exception | None = None
        """The last failure of a message for which nobody waited; the next send raises it."""
        self.sent_parts: dict[int, int] = {}
        """By transaction: how many notifications were sent for it."""
        self.max_message_bytes = 0
        self._hub = hub
        self._open = False
        self._opening: Waiter | None = None
        self._candidates: deque[tuple[str, str]] = deque()
        """Where else the destination may be found."""
        self._subject = ""
        """The topic of a tree."""
        self._unsent: deque[Outgoing] = deque()
        self._unsent_bytes = 0
        self._unconfirmed: deque[tuple[int, Waiter | None]] = deque()
        self._serial = 0
        self._sent_bytes = 0
        self._credit_messages = 0
        self._credit_bytes = 0
        self._room: deque[Waiter] = deque()
        self._drained: deque[tuple[int, Waiter | None]] = deque()
        self._when_sent: list[Callable[[], None]] = []

    # From any thread

    @property
    def full(self) -> bool:
        """Whether the program has to wait before it sends more."""
        return len(self._unsent) >= BUFFER_MESSAGES or self._unsent_bytes >= BUFFER_BYTES

    def send(self, outgoing: Outgoing) -> None:
        """Queue a message. Raises what has ended the producer, or MessageTooLarge."""
        if self.error is not None:
            raise self.error
        if self.failed is not None:
            failed, self.failed = self.failed, None
            raise failed
        if 0 < self.max_message_bytes < len(outgoing.body):
            raise MessageTooLarge(
                f"the message has {len(outgoing.body)} bytes; {self.destination} takes "
                f"{self.max_message_bytes} at most: send it in parts"
            )
        self._unsent.append(outgoing)
        self._unsent_bytes += len(outgoing.body)
        self._hub.wake(self)

    # In the loop

    def open(self, opened: Waiter) -> None:
        """Open the producer at its destination, and complete the waiter with None."""
        self._hub.producers[self.number] = self
        self._opening = opened
        self._candidates.extend(self._hub.candidates(self.destination))
        self._open_next()

    def _open_next(self) -> None:
        self.address, self._subject = self._candidates.popleft()
        reply = Reply(self._opened, self._not_opened, self.destination)
        request = OpenProducer(self.number, self._subject)
        self._hub.extension.request(self.address, request, reply, (ProducerOpened, Refused))

    def _not_opened(self, error: Exception) -> None:
        if isinstance(error, NoSuchDestination) and self._candidates:
            self._open_next()
        else:
            self.fail(error)

    def _opened(self, answer: Notification) -> None:
        if isinstance(answer, Refused):
            self.fail(refusal(answer))
            return
        assert isinstance(answer, ProducerOpened)
        self.max_message_bytes = answer.max_message_bytes
        if self._subject:
            self._hub.trees.add(self.address)
        self._credit(answer.credit_messages, answer.credit_bytes)
        self._open = True
        opened, self._opening = self._opening, None
        if opened is not None and not opened.done():
            opened.set_result(None)
        self.flush()

    def _credit(self, messages: int, size_bytes: int) -> None:
        self._credit_messages, self._credit_bytes = messages, size_bytes

    def wait_for_room(self, waiter: Waiter) -> None:
        """Complete the waiter with None when the producer is not full."""
        if self.error is not None:
            waiter.set_exception(self.error)
        elif not self.full:
            waiter.set_result(None)
        else:
            self._room.append(waiter)

    def drain(self, waiter: Waiter) -> None:
        """Complete the waiter with None when the destination has all that was sent so far."""
        if self.error is not None:
            waiter.set_exception(self.error)
        elif not self._unsent and not self._unconfirmed:
            waiter.set_result(None)
        else:
            self._drained.append((self._serial + len(self._unsent), waiter))

    @property
    def idle(self) -> bool:
        """Whether the producer is open and has nothing to send, to wait for or to commit."""
        return self._open and not (self._unsent or self._unconfirmed or self._room or self.sent_parts)

    @property
    def all_sent(self) -> bool:
        """Whether nothing waits for credit."""
        return not self._unsent

    def when_sent(self, function: Callable[[], None]) -> None:
        """Call a function once nothing waits for credit any more, or the producer has ended."""
        self._when_sent.append(function)

    def discard(self, transaction: int) -> None:
        """Forget messages of a transaction that are not sent yet."""
        kept = deque(each for each in self._unsent if each.transaction != transaction)
        dropped = [each.waiter for each in self._unsent if each.transaction == transaction]
        self._unsent_bytes = sum(len(each.body) for each in kept)
        self._unsent = kept
        fail_all(dropped, TransactionRolledBack("the transaction was rolled back"))

    def flush(self) -> None:
        """Send what waits, as far as there is credit."""
        while self._open and self._unsent and self._serial < self._credit_messages:
            if self._sent_bytes >= self._credit_bytes:
                break
            batch = self._next_batch()
            columns = dict.fromkeys(name for each in batch for name in each.columns)
            pack = Pack.of(
                [each.body for each in batch],
                **{name: [each.columns.get(name) for each in batch] for name in columns},
            )
            transaction = batch[0].transaction
            self._hub.extension.post(self.address, Publish(self.number, self._serial + 1, pack, transaction))
            for each in batch:
                self._serial += 1
                self._unconfirmed.append((self._serial, each.waiter))
            self._sent_bytes += len(pack.data)
            if transaction:
                self.sent_parts[transaction] = self.sent_parts.get(transaction, 0) + 1
        if not self._unsent:
            waiting, self._when_sent = self._when_sent, []
            for function in waiting:
                self._hub.run(function)
        while self._room and not self.full:
            complete_all([self._room.popleft()])

    def _next_batch(self) -> list[Outgoing]:
        most = min(PACK_MESSAGES, self._credit_messages - self._serial)
        batch: list[Outgoing] = []
        size_bytes = 0
        while self._unsent and len(batch) < most:
            first = self._unsent[0]
            if batch and (
                size_bytes + len(first.body) > PACK_BYTES or first.transaction != batch[0].transaction
            ):
                break
            batch.append(self._unsent.popleft())
            size_bytes += len(first.body)
        self._unsent_bytes -= size_bytes
        return batch

    def handle(self, note: Notification) -> None:
        """Take a confirmation or a rejection."""
        if isinstance(note, Rejected):
            self._rejected(note)
            return
        assert isinstance(note, Confirmed)
        told: list[Waiter | None] = []
        for queue in (self._unconfirmed, self._drained):
            while queue and queue[0][0] <= note.upto:
                told.append(queue.popleft()[1])
        self._credit(note.credit_messages, note.credit_bytes)
        self.flush()
        complete_all(told)

    def _rejected(self, note: Rejected) -> None:
        error = rejection(note.reason, note.text)
        refused: list[Waiter | None] = []
        kept: deque[tuple[int, Waiter | None]] = deque()
        for serial, waiter in self._unconfirmed:
            if note.first <= serial < note.first + note.count:
                refused.append(waiter)
            else:
                kept.append((serial, waiter))
        self._unconfirmed = kept
        if None in refused:
            self.failed = error
        fail_all(refused, error)

    def close(self, closed: Waiter) -> None:
        """Close the producer, and complete the waiter with None. What was not confirmed may have arrived."""
        if self.error is not None:
            closed.set_result(None)
            return
        self._hub.producers.pop(self.number, None)
        self.fail(SessionClosed(f"the producer of {self.destination} is closed"))

        def done(_: object) -> None:
            if not closed.done():
                closed.set_result(None)

        self._hub.extension.request(
            self.address, CloseProducer(self.number), Reply(done, done, self.destination), (ProducerClosed,)
        )

    def fail(self, error: Exception) -> None:
        """End the producer."""
        if self.error is not None:
            return
        self.error = error
        self._hub.producers.pop(self.number, None)
        opening, self._opening = self._opening, None
        waiters = [
            opening,
            *(each.waiter for each in self._unsent),
            *(waiter for _, waiter in self._unconfirmed),
            *self._room,
            *(waiter for _, waiter in self._drained),
        ]
        for queue in (self._unsent, self._unconfirmed, self._room, self._drained):
            queue.clear()
        fail_all(waiters, error)
        waiting, self._when_sent = self._when_sent, []
        for function in waiting:
            self._hub.run(function)
