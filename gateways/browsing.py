"""Reads copies of the messages of a queue, as many as a client wants."""

from collections import deque
from collections.abc import Callable

from ..agents import Pack
from ..messaging.agents.selector import Selector
from ..messaging.client.destinations import Destination
from ..messaging.client.message import Message
from ..messaging.client.session_base import Browser
from .session import Done, GatewaySession

__all__ = ["Browsing"]


class Browsing:
    """One reader: it begins with the first message, and goes on to what arrives meanwhile."""

    def __init__(
        self,
        session: GatewaySession,
        queue: Destination,
        selector: str,
        deliver: Callable[[Message], bool | None],
        opened: Done,
    ) -> None:
        """opened: is told whether the queue can be read. Raises SelectorError."""
        self.destination = queue
        self._session = session
        self._settler = Browser(queue)
        self._selector = Selector.compile(selector)
        self._deliver = deliver
        self._opened: Done | None = opened
        self._found: deque[Message] = deque()
        self._after = 0
        self._credit = 0
        self._reading = self._at_end = self._closed = False
        self._drains: list[Done] = []
        self._read()

    def give(self, credit: int) -> None:
        """Deliver so many messages from now on."""
        self._credit = credit
        self._at_end = False
        self._next()

    def drain(self, done: Done) -> None:
        """Tell `done` when the credit is used up, or no message is left."""
        self._drains.append(done)
        self._next()

    def pause(self) -> None:
        """Nothing is delivered beyond the credit anyway."""

    def resume(self) -> None:
        """Nothing is delivered beyond the credit anyway."""

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        self._found.clear()

    def _read(self) -> None:
        self._reading = True
        self._session.browse(self.destination, self._after, self._took, self._failed)

    def _took(self, pack: Pack) -> None:
        self._reading = False
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(None)
        numbers = pack.column("number")
        self._at_end = not numbers
        wanted = range(len(numbers)) if self._selector is None else self._selector.select(pack)
        for index in wanted:
            number = numbers[index]
            assert isinstance(number, int)
            self._found.append(Message(self._settler, pack, index, number))
        if numbers:
            last = numbers[-1]
            assert isinstance(last, int)
            self._after = last
        self._next()

    def _failed(self, error: BaseException | None) -> None:
        self._reading = False
        self._at_end = True
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(error)
        self._next()

    def _next(self) -> None:
        while self._found and self._credit and not self._closed:
            if self._deliver(self._found[0]) is False:
                self._credit = 0
                break
            self._credit -= 1
            self._found.popleft()
        if self._reading or self._closed:
            return
        if self._credit and not self._at_end:
            self._read()
            return
        drains, self._drains = self._drains, []
        for done in drains:
            done(None)
