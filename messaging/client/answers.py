"""Requests that are messages: the consumer of the answers, and who waits for which of them. No I/O."""

import itertools

from ...agents import Notification
from ...client.pending import Waiter
from ..agents.protocol import Deliver, Settlement
from .consumer import ConsumerCore
from .destinations import Destination
from .hub import Hub
from .message import Message, Settler
from .replies import fail_all

__all__ = ["AnswerCore", "SendFailure"]


class AnswerCore(ConsumerCore):
    """A consumer of a temporary queue, which gives each answer to who waits for it."""

    def __init__(self, hub: Hub, destination: Destination, settler: Settler) -> None:
        super().__init__(hub, destination, settler)
        self._waiting: dict[str, Waiter] = {}
        self._numbers = itertools.count(1)

    def correlation(self) -> str:
        """Return a new correlation. May be called in any thread."""
        return f"{self.destination.title}-{next(self._numbers)}"

    def expect(self, correlation: str, waiter: Waiter) -> None:
        """Give the answer with this correlation to a waiter."""
        self._waiting[correlation] = waiter

    def forget(self, correlation: str) -> None:
        """Drop the answer, when it comes: nobody waits for it any more."""
        self._waiting.pop(correlation, None)

    def handle(self, note: Notification) -> None:
        """Take answers, or the end."""
        if not isinstance(note, Deliver):
            super().handle(note)
            return
        for index, number in enumerate(note.pack.column("number")):
            assert isinstance(number, int)
            message = Message(self._settler, note.pack, index, number)
            message.settled = True
            self.settle(number, Settlement.ACCEPTED)
            waiter = self._waiting.pop(message.correlation_id or "", None)
            if waiter is not None and not waiter.done():
                waiter.set_result(message)

    def fail(self, error: Exception) -> None:
        """End the consumer."""
        super().fail(error)
        waiting, self._waiting = self._waiting, {}
        fail_all(waiting.values(), error)


class SendFailure:
    """The waiter of a request on its way: who waits for the answer learns why it was not sent."""

    def __init__(self, answer: Waiter) -> None:
        self._answer = answer

    def set_result(self, result: object, /) -> None:
        """Go on waiting: the destination has the request."""
        del result

    def set_exception(self, exception: BaseException, /) -> None:
        """Fail who waits for the answer."""
        if not self._answer.done():
            self._answer.set_exception(exception)

    def done(self) -> bool:
        """Return whether nobody waits any more."""
        return self._answer.done()
