"""The messaging of one connection: its producers and consumers, and what comes for them.

Everything runs in the loop of the connection but `wake`, `run`, and what says so.
"""

import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from ...agents import ExceptionNotification, Notification, UnknownAgent
from ...agents.notification import decode
from ...client.connection_base import ConnectionBase
from ...client.frames import ServerNote
from ...client.pending import Waiter
from ..agents.protocol import Confirmed, ConsumerClosed, Deliver, Rejected
from .destinations import Destination
from .errors import MessagingError, NoSuchDestination

__all__ = ["Endpoint", "Hub", "hub_of"]

_log: Final = logging.getLogger("quorate.messaging")
_FAILURES: Final = (UnknownAgent.type_name, ExceptionNotification.type_name)
_PREFIX: Final = "quorate.message."


class Endpoint(Protocol):
    """A producer or consumer of the connection."""

    address: str

    def handle(self, note: Notification) -> None:
        """Handle a notification of the destination."""
        ...

    def flush(self) -> None:
        """Send what has come together since the last call."""
        ...

    def fail(self, error: Exception) -> None:
        """End with an error: the destination does not exist, or the connection has ended."""
        ...


class Hub:
    """What the sessions of a connection share."""

    def __init__(self, connection: ConnectionBase) -> None:
        kinds = {each.type_name: each for each in (Deliver, Confirmed, Rejected, ConsumerClosed)}
        self._kinds: dict[str, type[Notification]] = dict(kinds)
        self.extension = connection.extend([*kinds, *_FAILURES], self._take)
        self.extension.on_end(self._ended)
        self.producers: dict[int, Endpoint] = {}
        self.consumers: dict[int, Endpoint] = {}
        self.numbers = itertools.count(1)
        """Numbers of producers and consumers."""
        self.transactions = itertools.count(1)
        self.trees: set[str] = set()
        """Addresses of trees of topics that were found: further topics are looked for there first."""
        self._dirty: deque[Endpoint] = deque()
        self._jobs: deque[Callable[[], None]] = deque()
        self._woken = False

    def candidates(self, destination: Destination) -> deque[tuple[str, str]]:
        """Return the addresses under which a destination may be found, in the order to try them."""
        return deque(sorted(destination.candidates, key=lambda each: each[0] not in self.trees))

    # From any thread

    def wake(self, endpoint: Endpoint) -> None:
        """Have `flush` of a producer or consumer called soon, once for all calls until then."""
        self._dirty.append(endpoint)
        self._schedule()

    def run(self, job: Callable[[], None]) -> None:
        """Have a function called in the loop soon, after what was asked for before."""
        self._jobs.append(job)
        self._schedule()

    def _schedule(self) -> None:
        if not self._woken:
            self._woken = True
            self.extension.schedule(self._work)

    # In the loop

    def _work(self) -> None:
        self._woken = False
        # A producer before the job that was queued after its messages.
        self.flush()
        while self._jobs:
            self._jobs.popleft()()
        self.flush()

    def flush(self) -> None:
        """Send what has come together."""
        seen: set[int] = set()
        while self._dirty:
            endpoint = self._dirty.popleft()
            if id(endpoint) not in seen:
                seen.add(id(endpoint))
                endpoint.flush()

    def acknowledged(self, waiter: Waiter) -> None:
        """Complete the waiter with None when the cluster has all that was sent so far."""
        self.flush()
        self.extension.all_acknowledged(waiter)

    def _take(self, note: ServerNote) -> bool:
        if note.type in _FAILURES:
            return self._failed(note)
        found = decode(self._kinds[note.type], note.payload)
        if isinstance(found, Confirmed | Rejected):
            endpoint = self.producers.get(found.producer)
        else:
            assert isinstance(found, Deliver | ConsumerClosed)
            endpoint = self.consumers.get(found.consumer)
        # What comes after the close belongs to nobody.
        if endpoint is not None:
            endpoint.handle(found)
        return True

    def _failed(self, note: ServerNote) -> bool:
        """Take the report of a failure, if it is about messaging."""
        if note.type == UnknownAgent.type_name:
            unknown = decode(UnknownAgent, note.payload)
            if not unknown.type.startswith(_PREFIX):
                return False
            error: MessagingError = NoSuchDestination(
                f"there is no {unknown.agent.replace(':', ' ', 1)} any more"
            )
            for endpoint in [*self.producers.values(), *self.consumers.values()]:
                if endpoint.address == unknown.agent:
                    endpoint.fail(error)
            return True
        failure = decode(ExceptionNotification, note.payload)
        if not failure.type.startswith(_PREFIX):
            return False
        _log.error(
            "agent %s failed on %s: %s: %s", failure.agent, failure.type, failure.error, failure.message
        )
        return True

    def _ended(self) -> None:
        for endpoint in [*self.producers.values(), *self.consumers.values()]:
            endpoint.fail(self.extension.reason())
        self.producers.clear()
        self.consumers.clear()


_hubs: Final["WeakKeyDictionary[ConnectionBase, Hub]"] = WeakKeyDictionary()


def hub_of(connection: ConnectionBase) -> Hub:
    """Return the hub of a connection, the same one for all its sessions."""
    hub = _hubs.get(connection)
    if hub is None:
        hub = _hubs[connection] = Hub(connection)
    return hub
