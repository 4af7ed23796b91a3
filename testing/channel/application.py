"""The application of a simulated replica: cells that entries change, and a chain over all of them.

It gives and takes its state in parts, as a server does, or as a whole, as a simple application does.
"""

import hashlib
from collections import deque

import attrs
import msgspec

from ...engine import Action, Marker, PrecopyRounds
from ...hachannel import Deliver, InstallPart, ProvideSnapshot

CELLS = 24
"""There are up to so many cells."""
PER_BUCKET = 4

Cell = tuple[bytes, int]
"""The chain of a cell, and the entry that changed it last."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """Some cells on their way."""

    marker: Marker
    start: Marker | None
    kept: list[int]
    cells: dict[int, Cell]
    gone: list[int]
    end: tuple[int, bytes] | None


def link(chain: bytes, index: int, stamp_ns: int, payload: bytes) -> bytes:
    """The chain after one more entry."""
    return hashlib.blake2b(b"%b %d %d %b" % (chain, index, stamp_ns, payload), digest_size=12).digest()


def _bucket(key: int) -> int:
    return key // PER_BUCKET


class Spoiled(ValueError):
    """A part of a state cannot be used."""


@attrs.frozen
class Saved:
    """The state of an application, as a disk keeps it."""

    index: int
    chain: bytes
    cells: dict[int, Cell]


class App:
    """The application of one process."""

    def __init__(self) -> None:
        self.index = 0
        self.chain = b""
        self.cells: dict[int, Cell] = {}
        self.spoiled = False
        """The next part cannot be read, or used."""
        self._passes: PrecopyRounds[int] | None = None
        self._token = 0
        self._start: Marker | None = None
        self._rest: deque[tuple[int, Cell]] | None = None
        """The end of a transfer, as of `_end`, and of the entry `_at`."""
        self._gone: list[int] = []
        self._end = (0, b"")
        self._at = 0
        self._staged: dict[int, Cell] = {}
        self._earlier: dict[int, Cell] = {}

    def deliver(self, event: Deliver) -> None:
        """One more link of the chain, and of that of one cell; now and then the cell goes."""
        self.index = event.index
        self.chain = link(self.chain, event.index, event.stamp_ns, event.payload)
        key = self.chain[0] % CELLS
        if self.chain[1] % 5 == 0:
            self.cells.pop(key, None)
        else:
            before = self.cells.get(key, (b"", 0))[0]
            self.cells[key] = (link(before, event.index, 0, event.payload), event.index)
        if self._passes is not None:
            self._passes.marks[key] = None

    @property
    def print(self) -> frozenset[tuple[int, Cell]]:
        """Equal for equal cells."""
        return frozenset(self.cells.items())

    def saved(self) -> Saved:
        """For a disk."""
        return Saved(self.index, self.chain, dict(self.cells))

    def load(self, saved: Saved) -> None:
        """From a disk."""
        self.index, self.chain, self.cells = saved.index, saved.chain, dict(saved.cells)

    # Giving

    def whole(self) -> bytes:
        """The state in one piece, a part that is the first and the last."""
        start = Marker(0)
        return msgspec.msgpack.encode(Part(start, start, [], self.cells, [], (self.index, self.chain)))

    def begin(self, event: ProvideSnapshot) -> None:
        """Parts are wanted."""
        start = Marker(0, min(event.have, self.index))
        if event.marker:
            known = msgspec.msgpack.decode(event.marker, type=Marker)
            if known.floor <= self.index and known.have <= self.index:
                place = known.place
                start = msgspec.structs.replace(known, place=None if place is None else (place[0], place[1]))
        self._token = event.token
        self._start = start
        self._rest, self._gone = None, []
        self._passes = PrecopyRounds[int](_bucket, self._changed, lambda: self.index, start, few=1)
        self._passes.begin(self.cells)
        while not self._passes.prepare():
            pass

    def _changed(self, key: int) -> int | None:
        cell = self.cells.get(key)
        return None if cell is None else cell[1]

    def next(self, token: int, index: int, cells: int) -> tuple[bytes, int | None, bool] | None:
        """The next part, of about so many cells; None when that transfer is not known.

        index: entries up to here that were not delivered are none for the application.
        """
        passes = self._passes
        if passes is None or token != self._token or self._is_spoiled():
            return None
        kept: list[int] = []
        send: dict[int, Cell] = {}
        while len(kept) + len(send) < cells and self._rest is None:
            step = passes.step()
            if step is None:
                if passes.finished:
                    self._freeze(passes, index)
                continue
            action, key = step
            if action is Action.KEEP:
                kept.append(key)
            elif action is Action.SEND:
                send[key] = self.cells[key]
            else:
                self._gone.append(key)
        rest = self._rest
        if rest is None:
            return self._part(passes, kept, send), None, False
        while rest and len(send) < cells:
            key, cell = rest.popleft()
            send[key] = cell
        if rest:
            return self._part(passes, kept, send), self._at, False
        self._passes = None
        return self._part(passes, kept, send, self._end), self._at, True

    def _freeze(self, passes: PrecopyRounds[int], index: int) -> None:
        """What is left, as of now."""
        self._at = max(self.index, index)
        self._end = (self.index, self.chain)
        self._rest = deque()
        for key in passes.rest():
            if key in self.cells:
                self._rest.append((key, self.cells[key]))
            else:
                self._gone.append(key)

    def _part(
        self,
        passes: PrecopyRounds[int],
        kept: list[int],
        cells: dict[int, Cell],
        end: tuple[int, bytes] | None = None,
    ) -> bytes:
        start, self._start = self._start, None
        gone, self._gone = self._gone, []
        return msgspec.msgpack.encode(Part(passes.marker, start, kept, cells, gone, end))

    # Taking

    def install(self, event: InstallPart) -> bytes:
        """A part of another one's state; the last one replaces this one's. Returns the marker.

        Raises Spoiled.
        """
        if self._is_spoiled():
            raise Spoiled("it does not fit")
        part = msgspec.msgpack.decode(event.data, type=Part)
        start = part.start
        if start is not None:
            resumed = start.whole or start.place is not None
            self._earlier = {**self._earlier, **self._staged} if resumed else {}
            self._staged = {}
            if start.have:
                self._earlier = {**self.cells, **self._earlier}
        elif event.number == 0:
            raise Spoiled("the first part is not the first")
        for key in part.kept:
            if key not in self._earlier:
                raise Spoiled(f"cell {key} is not here")
            self._staged[key] = self._earlier[key]
        self._staged.update(part.cells)
        for key in part.gone:
            self._staged.pop(key, None)
        if (part.end is None) != (event.index is None):
            raise Spoiled("it ends where it should not")
        if part.end is not None:
            self.index, self.chain = part.end
            self.cells = self._staged
            self._staged, self._earlier = {}, {}
        return msgspec.msgpack.encode(part.marker)

    def _is_spoiled(self) -> bool:
        spoiled, self.spoiled = self.spoiled, False
        return spoiled

    def settle(self, *, master: bool) -> None:
        """In a view no state is needed, and only a master gives one."""
        self._staged, self._earlier = {}, {}
        if not master:
            self._passes = None
