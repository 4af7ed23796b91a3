"""Notifications on their way to a client: those that are sent, and those that wait until it has room.

The proxy agent of a client has in its state what it has sent and the client has not acknowledged. What does
not fit there waits in two queues: answers to requests, and all others, which the client takes only as far as
its inbox has room. The beginning and the end of a queue are in the proxy's state, the rest in pages, which
are agents of their own: so the state stays small, however much waits.
"""

from typing import Final

import attrs
import msgspec

from .agent import Agent, reacts
from .context import Context
from .ids import FIRST_CONNECTION_STAMP, FIRST_PAGE_STAMP, AgentId
from .notification import Notification

__all__ = [
    "MAX_OUTPUT_BYTES",
    "MAX_OUTPUT_NOTES",
    "MAX_WAITING_BYTES",
    "MAX_WAITING_NOTES",
    "DropPage",
    "InboxCredit",
    "OutputFlow",
    "OutputPage",
    "OutputQueue",
    "PageEntry",
    "PageRead",
    "ReadPage",
    "ServerNote",
    "WaitingOutput",
    "note_bytes",
    "page_id",
]

MAX_OUTPUT_NOTES: Final = 65536
"""Most notifications that are sent to a client and not acknowledged; further ones wait."""
MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024
"""Most bytes (`note_bytes`) that are sent to a client and not acknowledged, and largest payload of one
notification. The answer to a client that reopens its connection holds them all."""
MAX_WAITING_NOTES: Final = 131072
"""Most notifications that wait for a client; further ones are refused to their senders."""
MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Most bytes (`note_bytes`) that wait for a client, unless one notification alone has more."""
PAGE_NOTES: Final = 1024
PAGE_BYTES: Final = 64 * 1024
"""The end of a queue becomes a page when it has this many notifications or bytes."""
_PAGES: Final = 1_000_000
"""Page numbers begin again after this many; the pages of one client are far fewer at a time."""
_OVERHEAD_BYTES: Final = 32


class ServerNote(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A notification for a client."""

    sender: AgentId
    type: str
    payload: bytes
    request: int = 0
    """The request that it answers; 0 if it is none."""


def note_bytes(note: ServerNote) -> int:
    """Return about the encoded size of a notification."""
    return len(note.payload) + len(note.type) + _OVERHEAD_BYTES


class InboxCredit(msgspec.Struct, array_like=True):
    """How many notifications that answer no request the client takes, and how many it was sent.

    All numbers count from the beginning of the connection. The client raises the limits as its program reads.
    """

    limit_notes: int = 0
    limit_bytes: int = 0
    """Bytes of payloads; a notification is sent while fewer were sent before."""
    notes: int = 0
    size_bytes: int = 0

    def raise_to(self, notes: int, size_bytes: int) -> bool:
        """Record the limits that a client has named; return whether they are new."""
        if notes <= self.limit_notes and size_bytes <= self.limit_bytes:
            return False
        self.limit_notes = max(self.limit_notes, notes)
        self.limit_bytes = max(self.limit_bytes, size_bytes)
        return True

    def spend(self, note: ServerNote) -> bool:
        """Count a notification that is sent. Return False, and do nothing, if the client takes no more.

        A client that has named no limit takes all.
        """
        if self.limit_notes and (self.notes >= self.limit_notes or self.size_bytes >= self.limit_bytes):
            return False
        self.notes += 1
        self.size_bytes += len(note.payload)
        return True


class PageEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A stored page of a queue."""

    number: int
    notes: int
    size_bytes: int


class OutputQueue(msgspec.Struct, array_like=True):
    """Notifications that wait, in order: the first ones, those in pages, the last ones."""

    head: list[ServerNote] = msgspec.field(default_factory=list[ServerNote])
    pages: list[PageEntry] = msgspec.field(default_factory=list[PageEntry])
    """The pages, in order."""
    tail: list[ServerNote] = msgspec.field(default_factory=list[ServerNote])
    tail_bytes: int = 0
    reading: PageEntry | None = None
    """The page that is being read and comes after `head`."""

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not (self.head or self.tail or self.pages or self.reading is not None)

    def append(self, note: ServerNote) -> list[ServerNote] | None:
        """Append a notification. Return the content of a new page, if the end of the queue becomes one.

        The caller then appends the page to `pages`.
        """
        self.tail.append(note)
        self.tail_bytes += note_bytes(note)
        if len(self.tail) < PAGE_NOTES and self.tail_bytes < PAGE_BYTES:
            return None
        page, self.tail, self.tail_bytes = self.tail, [], 0
        return page

    def remove(self, count: int) -> None:
        """Remove notifications from `head`. If none is left there, and no page is next, refill it."""
        del self.head[:count]
        if not (self.head or self.pages or self.reading is not None):
            self.head, self.tail, self.tail_bytes = self.tail, [], 0

    def next_page(self) -> int | None:
        """Return the number of a page that is to be read now, or None. `page_read` brings its content."""
        if self.head or self.reading is not None or not self.pages:
            return None
        self.reading = self.pages.pop(0)
        return self.reading.number

    def page_read(self, notes: list[ServerNote]) -> None:
        """Continue with the content of the page that was being read."""
        self.head += notes
        self.reading = None


class WaitingOutput(msgspec.Struct, array_like=True):
    """All that waits for a client."""

    answers: OutputQueue = msgspec.field(default_factory=OutputQueue)
    others: OutputQueue = msgspec.field(default_factory=OutputQueue)
    notes: int = 0
    size_bytes: int = 0
    refused: int = 0
    """The last request whose answer was refused."""

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return self.answers.empty and self.others.empty

    def has_room(self, note: ServerNote) -> bool:
        """Whether a notification may be appended within the bounds."""
        fits = self.size_bytes + note_bytes(note) <= MAX_WAITING_BYTES or not self.notes
        return fits and self.notes < MAX_WAITING_NOTES

    def append(self, note: ServerNote, page: int) -> list[ServerNote] | None:
        """Append a notification. Return the content of a page that is to be stored, or None.

        page: the number of that page.
        """
        queue = self.answers if note.request else self.others
        self.notes += 1
        self.size_bytes += note_bytes(note)
        notes = queue.append(note)
        if notes is not None:
            queue.pages.append(PageEntry(page, len(notes), sum([note_bytes(each) for each in notes])))
        return notes

    def sent(self, note: ServerNote) -> None:
        """Count a notification that no longer waits."""
        self.notes -= 1
        self.size_bytes -= note_bytes(note)

    def page_read(self, page: int, notes: list[ServerNote]) -> bool:
        """Continue with the content of a page; return False if it was not being read."""
        for queue in (self.answers, self.others):
            if queue.reading is not None and queue.reading.number == page:
                queue.page_read(notes)
                return True
        return False

    def page_lost(self, page: int) -> None:
        """Continue after a page that is being read and does not exist: its creation was a dead letter."""
        for queue in (self.answers, self.others):
            entry = queue.reading
            if entry is not None and entry.number == page:
                self.notes -= entry.notes
                self.size_bytes -= entry.size_bytes
                queue.page_read([])

    def reading(self) -> list[int]:
        """Return the numbers of the pages that are being read."""
        return [each.reading.number for each in (self.answers, self.others) if each.reading is not None]

    def pages(self) -> list[int]:
        """Return the numbers of all stored pages."""
        stored = [entry.number for entry in (*self.answers.pages, *self.others.pages)]
        return [*stored, *self.reading()]


class OutputFlow(msgspec.Struct, array_like=True):
    """What a client takes, and what waits for it."""

    credit: InboxCredit = msgspec.field(default_factory=InboxCredit)
    waiting: WaitingOutput | None = None
    """What is not sent yet; None if that is nothing."""
    last_page: int = 0
    """Number of the last page of what waits, or waited."""

    @property
    def next_page(self) -> int:
        """The number of the next page."""
        return self.last_page % _PAGES + 1


def page_id(proxy: AgentId, page: int) -> AgentId:
    """Return the id of the agent that holds a page of a proxy agent."""
    connection = proxy.stamp - FIRST_CONNECTION_STAMP
    return AgentId(proxy.host, proxy.host, FIRST_PAGE_STAMP + connection * (_PAGES + 1) + page)


@attrs.frozen
class ReadPage(Notification, name="quorate.connection.read-page"):
    """Request of a proxy agent to a page, answered with `PageRead`."""


@attrs.frozen
class DropPage(Notification, name="quorate.connection.drop-page"):
    """Order of a proxy agent to a page: end."""


@attrs.frozen
class PageRead(Notification, name="quorate.connection.page-read"):
    """Answer to `ReadPage`."""

    page: int
    notes: bytes
    """The notifications, a MessagePack array of `ServerNote`."""


@attrs.define
class OutputPage(Agent, name="quorate.output-page"):
    """Consecutive notifications that wait for a client. Only the proxy agent of the client may read them."""

    proxy: AgentId
    page: int
    notes: bytes
    """A MessagePack array of `ServerNote`."""

    @reacts
    def read(self, ctx: Context, _: ReadPage) -> None:
        """Return the notifications."""
        if ctx.sender == self.proxy:
            ctx.send(self.proxy, PageRead(self.page, self.notes))

    @reacts
    def drop(self, ctx: Context, _: DropPage) -> None:
        """End: the notifications were read, or the connection has ended."""
        if ctx.sender == self.proxy:
            ctx.delete()
