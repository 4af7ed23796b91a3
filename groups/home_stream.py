"""The items of one group at one home, for the members that are connected there. Pure.

The pages are those of the agent of the group: each is encoded once, and what several members lack is put into
one frame, whose bytes are written to all of them. A member is sent no more than a window beyond what it has
acknowledged; what it lacks besides stays here, or with the agent.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import attrs
from sortedcontainers import SortedDict

from ..agents.ids import AgentId
from ..client.frames import StreamItems, encode_frame
from .agents.items import SKIPPED, Page

__all__ = ["WINDOW_BYTES", "WINDOW_ITEMS", "HomeStream", "Reader"]

WINDOW_ITEMS: Final = 8192
WINDOW_BYTES: Final = 2 * 1024 * 1024
"""A member has at most so much unacknowledged on the way."""
FRAME_BYTES: Final = 256 * 1024
"""A frame has one page at least, and no more once it has so many bytes."""
PAGE_OVERHEAD: Final = 24
"""Counted for each page besides its data."""


@attrs.define(eq=False)
class Reader:
    """A member that is connected to this home."""

    member: AgentId
    sent: int
    """It was sent everything up to this item."""
    acked: int
    live: bool
    """Whether the stream has everything after `sent`; otherwise the home asks the agent for it."""
    flight: deque[tuple[int, int]] = attrs.field(factory=deque[tuple[int, int]])
    """(last item, bytes) of what was sent and not acknowledged."""
    flight_bytes: int = 0
    fetched: list[tuple[int, Page]] = attrs.field(factory=list[tuple[int, Page]])
    """Pages from the agent, while there are more to ask for."""

    def acknowledge(self, upto: int) -> None:
        """Note that the member has everything up to an item."""
        self.acked = max(self.acked, upto)
        flight = self.flight
        while flight and flight[0][0] <= upto:
            self.flight_bytes -= flight.popleft()[1]

    @property
    def may_send(self) -> bool:
        """Whether the window has room."""
        return self.live and self.sent - self.acked < WINDOW_ITEMS and self.flight_bytes < WINDOW_BYTES

    def note_sent(self, last: int, size: int) -> None:
        """Note that everything up to `last` was sent now."""
        self.sent = last
        self.flight.append((last, size))
        self.flight_bytes += size


class HomeStream:
    """The pages that some member here lacks, or that came since, in the order of their items."""

    def __init__(self, group: AgentId) -> None:
        self.group = group
        self.readers: dict[AgentId, Reader] = {}
        self.acks: dict[AgentId, int] = {}
        """What members have acknowledged since the agent was told last."""
        self._pages: SortedDict[int, Page] = SortedDict()
        self._last = 0
        self._frames: dict[int, tuple[int, int, bytes]] = {}
        """By item: (last item, bytes of data, frame) of the frame that begins there, for all readers."""

    @property
    def first_kept(self) -> int:
        """The first item of the pages that are kept here; 0 if there are none."""
        return int(self._pages.peekitem(0)[0]) if self._pages else 0

    def append(self, first: int, page: Page) -> None:
        """Add the items that were ordered last."""
        self._pages[first] = page
        self._last = max(self._last, first + page.count - 1)
        self._frames.clear()

    def begin(self, member: AgentId, after: int) -> Reader:
        """Add a member that gets what is ordered after an item, the last one."""
        reader = self.readers[member] = Reader(member, after, after, live=True)
        self._last = max(self._last, after)
        return reader

    def resume(self, member: AgentId, after: int) -> Reader:
        """Add a member that has everything up to an item; what follows is to be fetched: see `fetched`."""
        reader = self.readers[member] = Reader(member, after, after, live=False)
        return reader

    def fetched(self, reader: Reader, pages: Iterable[tuple[int, Page]], last: int, more: bool) -> int | None:
        """Take pages from the agent. Returns the item after which to ask for more; None: that was all."""
        reader.fetched += pages
        if more and reader.fetched:
            first, page = reader.fetched[-1]
            return first + page.count - 1
        for first, page in reader.fetched:
            self._pages.setdefault(first, page)
        reader.fetched = []
        self._last = max(self._last, last)
        self._frames.clear()
        reader.live = True
        return None

    def acknowledge(self, reader: Reader, upto: int) -> bool:
        """Note what a member has. Returns whether it says something possible."""
        if upto > reader.sent:
            return False
        if upto > reader.acked:
            reader.acknowledge(upto)
            self.acks[reader.member] = upto
        return True

    def take_acks(self) -> list[tuple[AgentId, int]]:
        """Return what members have acknowledged since the last call; drop the pages that all here have."""
        acks, self.acks = self.acks, {}
        if all(reader.live for reader in self.readers.values()):
            low = min((reader.acked for reader in self.readers.values()), default=self._last)
            pages = self._pages
            while pages:
                first, page = pages.peekitem(0)
                if first + page.count - 1 > low:
                    break
                del pages[first]
        return sorted(acks.items())

    def next_frame(self, reader: Reader) -> bytes | None:
        """Return the next frame for a member, as far as its window has room; None: nothing now."""
        if reader.sent >= self._last or not reader.may_send:
            return None
        start = reader.sent + 1
        made = self._frames.get(start)
        if made is None:
            made = self._frame(start, reader.member)
        last, size, frame = made
        reader.note_sent(last, size)
        return frame

    def _frame(self, start: int, member: AgentId) -> tuple[int, int, bytes]:
        first_page = next(self._pages.irange(maximum=start, reverse=True), start)
        pages: list[tuple[int, int, bytes]] = []
        size, last, common = 0, start, True
        for first in self._pages.irange(first_page):
            page = self._pages[first]
            data = page.data
            if page.to:
                common = False
                if member not in page.to:
                    data = SKIPPED
            if pages and size + len(data) > FRAME_BYTES:
                break
            pages.append((first, page.count, data))
            size += len(data) + PAGE_OVERHEAD
            last = first + page.count - 1
        made = (last, size, encode_frame(StreamItems(self.group, pages)))
        if common:
            self._frames[start] = made
        return made
