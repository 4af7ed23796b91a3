"""Chunks: the parts of a state, cut into pieces at one end and joined at the other. A leaf, pure."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import attrs

from ..model.messages import Chunk
from ..model.submitters import Rows
from ..model.view import Tag

SLACK = 64
"""The last piece of a part may be longer than `piece_bytes` by one part in `SLACK`."""
MAX_PART_BYTES = 1 << 30
"""A larger part is refused."""


class Parts:
    """The parts that an application has provided in advance, each made shortly before it is needed.

    An exception of the iterable is raised by the call that needs the part. After that the object must not be
    used: the remaining parts would seem not to exist.
    """

    def __init__(self, parts: Iterable[bytes] = ()) -> None:
        """Copy a sequence, because it may change later; draw only the first part from any other iterable."""
        listed = isinstance(parts, Sequence)
        self._here: deque[bytes] = deque(parts if listed else ())
        self._following: Iterator[bytes] | None = None if listed else iter(parts)
        self._prefetch()

    def __bool__(self) -> bool:
        return bool(self._here)

    def pop(self) -> bytes:
        """Remove and return the next part. There must be one."""
        popped = self._here.popleft()
        self._prefetch()
        return popped

    def _prefetch(self) -> None:
        if not self._here and self._following is not None:
            for part in self._following:
                self._here.append(part)
                return
            self._following = None


@attrs.define(eq=False)
class OutgoingChunks:
    """The chunks of the donor, each kept until the learner has acknowledged it."""

    token: int
    piece_bytes: int
    """Size of a piece; the last one of a part may be shorter, or longer by one part in `SLACK`."""
    window: int
    """Largest number of pieces in flight."""
    acked: int = 0
    """Number of pieces that the learner has."""
    acked_bytes: int = 0
    """Bytes of these pieces."""
    sent: int = 0
    """Number of pieces sent; those that seem lost do not count."""
    _pieces: deque[Chunk] = attrs.field(factory=deque[Chunk])
    _next: int = 0

    def put(self, data: bytes, at: Tag | None, submitters: Rows = ()) -> None:
        """Cut a part into pieces.

        at: in the last part, the entry that the whole state follows; else None. submitters: the table of
        submitters after that entry.
        """
        start = 0
        while True:
            # A short end of a part is sent with the piece before it.
            more = len(data) - start > self.piece_bytes + self.piece_bytes // SLACK
            piece = data[start : start + self.piece_bytes] if more else data[start:]
            start += len(piece)
            end = (None, ()) if more else (at, submitters)
            self._pieces.append(Chunk(self.token, self._next, piece, more, *end))
            self._next += 1
            if not more:
                return

    @property
    def empty(self) -> bool:
        """Whether the learner has acknowledged every piece."""
        return self.acked == self._next

    @property
    def wants_part(self) -> bool:
        """Whether all pieces were sent and the window has room for more."""
        return self.sent == self._next and self.sent - self.acked < self.window

    def due(self) -> Iterator[Chunk]:
        """Yield the pieces that fit into the window; they count as sent."""
        while self.sent < self._next and self.sent - self.acked < self.window:
            piece = self._pieces[self.sent - self.acked]
            self.sent += 1
            yield piece

    def ack(self, count: int) -> bool:
        """Note that the learner has the first `count` pieces; return whether that is new."""
        if not self.acked < count <= self._next:
            return False
        for _ in range(count - self.acked):
            self.acked_bytes += len(self._pieces.popleft().data)
        self.acked = count
        self.sent = max(self.sent, count)
        return True

    def again(self) -> None:
        """Consider all pieces lost that were sent and not acknowledged."""
        self.sent = self.acked


@attrs.define(eq=False)
class IncomingChunks:
    """The chunks that a learner has received, in order, on their way to the application."""

    window: int
    """Half the number of pieces that may wait for the application."""
    confirmed: int = 0
    """Number of pieces that the application has confirmed, or that begin an incomplete part."""
    confirmed_bytes: int = 0
    """Bytes of the parts that the application has got."""
    _waiting: deque[Chunk] = attrs.field(factory=deque[Chunk])
    _part: list[bytes] = attrs.field(factory=list[bytes])
    _part_bytes: int = 0
    _unconfirmed: bool = False
    """The application has got a part that it has not confirmed."""

    def add(self, piece: Chunk) -> None:
        """Add a piece that arrived. One that is out of order or without room is ignored, and sent again."""
        expected = self.confirmed + self._unconfirmed + len(self._waiting)
        if piece.number == expected and len(self._waiting) < 2 * self.window:
            self._waiting.append(piece)

    def part(self) -> tuple[bytes, Chunk] | None:
        """Return the next part and its last piece; None until it is complete and the one before confirmed."""
        while self._waiting and not self._unconfirmed:
            piece = self._waiting.popleft()
            self._part.append(piece.data)
            self._part_bytes += len(piece.data)
            if piece.more:
                self.confirmed += 1
                continue
            data = self._part[0] if len(self._part) == 1 else b"".join(self._part)
            self.confirmed_bytes += len(data)
            self._part, self._part_bytes = [], 0
            self._unconfirmed = True
            return data, piece
        return None

    @property
    def too_large(self) -> bool:
        """Whether the part that arrives exceeds `MAX_PART_BYTES`."""
        return self._part_bytes > MAX_PART_BYTES

    def confirm(self) -> bool:
        """Note that the application has stored its part. Return whether it had one."""
        unconfirmed, self._unconfirmed = self._unconfirmed, False
        self.confirmed += unconfirmed
        return unconfirmed
