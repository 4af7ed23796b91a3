"""The application of a simulated replica: cells that entries change, and a hash chain over all entries.

It provides and installs its state in parts, as a server does, or as a whole, as a simple application does.
"""

import hashlib
from collections import deque

import attrs
import msgspec

from ...engine import Action, Marker, PrecopyRounds
from ...hachannel import Deliver, InstallPart, ProvideSnapshot

CELLS = 24
"""The most cells that there are."""
PER_BUCKET = 4

Cell = tuple[bytes, int]
"""The hash chain of a cell, and the index of the entry that changed it last."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """A part of a state: cells that are sent, kept or gone."""

    marker: Marker
    start: Marker | None
    kept: list[int]
    cells: dict[int, Cell]
    gone: list[int]
    end: tuple[int, bytes] | None


def link(chain: bytes, index: int, stamp_ns: int, payload: bytes) -> bytes:
    """Return the hash chain after one more entry."""
    return hashlib.blake2b(b"%b %d %d %b" % (chain, index, stamp_ns, payload), digest_size=12).digest()


def _bucket(key: int) -> int:
    return key // PER_BUCKET


class Spoiled(ValueError):
    """Raised when a part of a state cannot be used."""


@attrs.frozen
class Saved:
    """The state of an application on a disk."""

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
        """Whether it fails to read, or to install, the next part."""
        self._passes: PrecopyRounds[int] | None = None
        self._token = 0
        self._start: Marker | None = None
        self._rest: deque[tuple[int, Cell]] | None = None
        """The last cells of a transfer, captured with `_end` at the index `_at`."""
        self._gone: list[int] = []
        self._end = (0, b"")
        self._at = 0
        self._staged: dict[int, Cell] = {}
        self._earlier: dict[int, Cell] = {}

    def deliver(self, event: Deliver) -> None:
        """Apply an entry: extend the chain, and change or remove one cell."""
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
        """Return the cells in a form that can be compared."""
        return frozenset(self.cells.items())

    def saved(self) -> Saved:
        """Return the state for a disk."""
        return Saved(self.index, self.chain, dict(self.cells))

    def load(self, saved: Saved) -> None:
        """Load the state from a disk."""
        self.index, self.chain, self.cells = saved.index, saved.chain, dict(saved.cells)

    # The donor

    def whole(self) -> bytes:
        """Return the state in one piece, which is the first and the last part."""
        start = Marker(0)
        return msgspec.msgpack.encode(Part(start, start, [], self.cells, [], (self.index, self.chain)))

    def begin(self, event: ProvideSnapshot) -> None:
        """Begin to provide the state in parts."""
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
        """Return the next part of about `cells` cells, with its index and whether it is the last; None for
        another token.

        index: entries up to here that were not delivered are not for the application.
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
        """Capture the remaining cells, in their present state."""
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

    # The learner

    def install(self, event: InstallPart) -> bytes:
        """Install a part of another replica's state; the last one replaces the own state. Return its marker.

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
        """Drop the state of transfers when a view begins; only a master continues to provide its state."""
        self._staged, self._earlier = {}, {}
        if not master:
            self._passes = None
