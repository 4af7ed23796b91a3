"""The output of a step, and messages that wait until the disk has the records they depend on."""

from collections import deque
from collections.abc import Callable

from ..model.events import Event, Output
from ..model.log import Accepted, Appended, Leased, LogRecord, Promised
from ..model.messages import (
    Accept,
    Ack,
    Activate,
    CaughtUp,
    Entry,
    Founded,
    Grant,
    Message,
    Prepare,
    Promise,
    Recorded,
)
from ..model.view import ViewNumber

_AWAITED = Prepare | Promise | Accept | Recorded | Founded | Activate | CaughtUp
"""Messages for which a view change, or a donor before it, waits."""


def _nowhere(_message: Message) -> None:
    """Accept a message before the parts of the channel are put together."""


NOTHING = Output()
"""The output of a step that produced nothing; nobody writes to it."""


class DurableOutput:
    """Gathers the output of a step, and holds messages back until the records they depend on are durable.

    Records are made durable in batches: each `Output` with records has a token, and `synced` is called with
    the token of the last durable one. With a log that is not durable nothing waits.
    """

    def __init__(self, me: int, *, durable: bool) -> None:
        """me: this replica's id. durable: whether the log survives the process, so that records are kept."""
        self.batch = Output()
        """The output under construction."""
        self.loopback: Callable[[Message], None] = _nowhere
        """Receives the messages that this replica sends to itself."""
        self._me = me
        self._durable = durable
        self._issued = 0
        """The token of the last output with records."""
        self._bound = 0
        """The token of the last record that binds this replica towards other views."""
        self._confirmed = 0
        """The last token that is durable."""
        self._owed = 0
        """The token of the last record that a message of a view change has waited for."""
        self._beat = (0, 0)
        """`_confirmed` and `_owed` at the last heartbeat."""
        self._waiting: deque[tuple[int, int, Message]] = deque()
        """Messages that wait for the disk: the token of the last record before each, its receiver, itself."""

    # Messages

    def send(self, replica: int, message: Message) -> None:
        """Send a message to a peer with the next output."""
        self.batch.messages.append((replica, message))

    def send_after_sync(self, replica: int, message: Message) -> None:
        """Send a message to a peer or to oneself once everything recorded so far is durable."""
        if self._durable and (self.batch.persist or self._confirmed < self._issued):
            self._hold(self._issued + bool(self.batch.persist), replica, message)
        elif replica == self._me:
            self.loopback(message)
        else:
            self.send(replica, message)

    def send_once_bound(self, replica: int, message: Message) -> None:
        """Send a message to a peer once the promises, views and lease terms recorded so far are durable.

        It does not wait for entries: under load a grant that waited for them would come too late.
        """
        if self._confirmed < self._bound:
            self.send_after_sync(replica, message)
        else:
            self.send(replica, message)

    def _hold(self, token: int, replica: int, message: Message) -> None:
        """Queue a message, instead of an earlier one of its type to the same peer that waits for `token`.

        Grants, promises and the like are repeated while a disk hangs, and the newest includes the others. A
        message that waits for an earlier token stays: it leaves earlier.
        """
        waiting = self._waiting
        for place in range(len(waiting) - 1, -1, -1):
            before_token, before_replica, before = waiting[place]
            if before_token != token:
                break
            if before_replica == replica and type(before) is type(message):
                del waiting[place]
                break
        waiting.append((token, replica, message))
        if isinstance(message, _AWAITED):
            self._owed = token

    def retract_below(self, number: ViewNumber) -> None:
        """Drop queued Acks, which are of views below `number`, and Grants except to its proposer."""
        self._waiting = deque(
            held
            for held in self._waiting
            if not isinstance(held[2], Ack) and (not isinstance(held[2], Grant) or held[1] == number.replica)
        )

    def retract_acks(self) -> None:
        """Drop queued Acks: another view is active, and the entries may be cut from the log."""
        self._waiting = deque(held for held in self._waiting if not isinstance(held[2], Ack))

    @property
    def waiting(self) -> int:
        """How many messages wait for the disk."""
        return len(self._waiting)

    # Records

    def record(self, record: LogRecord) -> int:
        """Have a record made durable; return the token for `is_durable`."""
        if not self._durable:
            return 0
        self.batch.persist.append(record)
        if isinstance(record, Promised | Accepted | Leased):
            self._bound = self._issued + 1
        return self._issued + 1

    def record_entry(self, entry: Entry) -> None:
        """Have the entry just appended made durable. Only with a durable log."""
        self.batch.persist.append(Appended((entry,)))

    def is_durable(self, token: int) -> bool:
        """Whether a record would survive this process, or the log is not durable at all."""
        return token <= self._confirmed

    def beat(self) -> bool:
        """Whether messages of a view change wait for a slow disk. Call with each heartbeat.

        It is slow if it has confirmed nothing since the last call, when such a message waited already.
        """
        (confirmed, owed), self._beat = self._beat, (self._confirmed, self._owed)
        return confirmed == self._confirmed < owed

    def synced(self, token: int) -> None:
        """Send the messages that waited for the records up to this token."""
        self._confirmed = max(self._confirmed, token)
        while self._waiting and self._waiting[0][0] <= self._confirmed:
            _, replica, message = self._waiting.popleft()
            if replica == self._me:
                self.loopback(message)
            else:
                self.send(replica, message)

    # Events and notes

    def emit(self, event: Event) -> None:
        """Emit an event to the application."""
        self.batch.events.append(event)

    def note(self, line: str) -> None:
        """Add a line to the log for people."""
        self.batch.notes.append(line)

    @property
    def empty(self) -> bool:
        """Whether the batch has nothing in it."""
        return not self.batch

    def drain(self) -> Output:
        """Return the batch and begin another one."""
        out = self.batch
        if out.persist:
            self._issued += 1
            out.token = self._issued
        elif not out:
            return NOTHING
        self.batch = Output()
        return out
