"""Packs: many opaque bodies in one field of a notification or of an agent's state.

What passes a pack on decodes no body: bodies lie one after the other in one value of bytes. What is to be
known of each body beside it, its priority say, is in columns. So a notification with 100 messages costs a
client connection, a link between servers and an agent little more than one with a single message.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

__all__ = ["Column", "ColumnValue", "Pack"]

ColumnValue = int | float | str | bool | None
"""What a column says of one body."""
Column = ColumnValue | list[ColumnValue]
"""One value for all bodies of a pack, or a list with one for each."""

_END_BYTES: Final = 4
MAX_DATA_BYTES: Final = 2**32 - 1
"""The most bytes that the bodies of a pack may have together."""


class Pack(msgspec.Struct, array_like=True, frozen=True):
    """A sequence of bodies, each of any bytes, with columns that describe them. Make one with `Pack.of`.

    A pack that came from outside may be damaged: call `check` before anything else.
    """

    data: bytes
    """The bodies, one after the other."""
    ends: bytes
    """Where each body ends in `data`: unsigned integers of 4 bytes, the lowest byte first."""
    columns: dict[str, Column] = {}
    """By name, one value for all bodies, or a list with one value for each."""

    @classmethod
    def of(cls, bodies: Iterable[bytes], **columns: Sequence[ColumnValue] | ColumnValue) -> "Pack":
        """Make a pack of these bodies.

        A column is one value for all bodies (a text is one value), or a sequence with one for each.
        Raises ValueError for a sequence of another length, and for bodies above `MAX_DATA_BYTES` together.
        """
        parts = list(bodies)
        size = 0
        ends: list[int] = []
        for part in parts:
            size += len(part)
            ends.append(size)
        if size > MAX_DATA_BYTES:
            raise ValueError(f"the bodies have {size} bytes; a pack holds at most {MAX_DATA_BYTES}")
        found = {name: _column(name, value, len(parts)) for name, value in columns.items()}
        return cls(b"".join(parts), struct.pack(f"<{len(ends)}I", *ends), found)

    @classmethod
    def joined(cls, packs: Sequence["Pack"]) -> "Pack":
        """Return one pack of the bodies of several, in this order.

        Where a pack lacks a column that another one has, its bodies have None there. Raises ValueError if the
        bodies are above `MAX_DATA_BYTES` together.
        """
        if len(packs) == 1:
            return packs[0]
        size, ends = 0, list[int]()
        for pack in packs:
            ends.extend([size + end for end in pack._offsets()] if size else pack._offsets())
            size += len(pack.data)
        if size > MAX_DATA_BYTES:
            raise ValueError(f"the packs have {size} bytes; a pack holds at most {MAX_DATA_BYTES}")
        names = dict.fromkeys(name for pack in packs for name in pack.columns)
        columns: dict[str, Column] = {
            name: _shortened([value for pack in packs for value in pack.column(name)]) for name in names
        }
        return cls(b"".join([pack.data for pack in packs]), struct.pack(f"<{len(ends)}I", *ends), columns)

    def __len__(self) -> int:
        return len(self.ends) // _END_BYTES

    def body(self, index: int) -> bytes:
        """Return one body, counted from 0. Raises IndexError if there is none."""
        begin, end = self._place(index)
        return self.data[begin:end]

    def size_of(self, index: int) -> int:
        """Return the length of one body in bytes, counted from 0. Raises IndexError if there is none."""
        begin, end = self._place(index)
        return end - begin

    def bodies(self) -> list[bytes]:
        """Return all bodies."""
        data = self.data
        return [data[begin:end] for begin, end in pairwise((0, *self._offsets()))]

    def sizes(self) -> list[int]:
        """Return the length of each body in bytes."""
        return [end - begin for begin, end in pairwise((0, *self._offsets()))]

    def value(self, name: str, index: int) -> ColumnValue:
        """Return what a column says of one body, counted from 0; None if the pack has no such column.

        Raises IndexError if there is no such body.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"the pack has {len(self)} bodies, and none with index {index}")
        column = self.columns.get(name)
        return column[index] if isinstance(column, list) else column

    def column(self, name: str) -> list[ColumnValue]:
        """Return what a column says of each body; None for each if the pack has no such column."""
        column = self.columns.get(name)
        return column if isinstance(column, list) else [column] * len(self)

    def part(self, first: int, count: int) -> "Pack":
        """Return the pack of `count` bodies from index `first` on. Raises IndexError if there are fewer."""
        if first == 0 and count == len(self):
            return self
        if first < 0 or count < 0 or first + count > len(self):
            raise IndexError(f"the pack has {len(self)} bodies: there are no {count} from {first} on")
        ends = self._offsets()[first : first + count]
        begin = self._place(first)[0] if count else 0
        moved = struct.pack(f"<{count}I", *[end - begin for end in ends])
        data = self.data[begin : ends[-1]] if count else b""
        return Pack(data, moved, self._columns(lambda column: column[first : first + count]))

    def take(self, indexes: Sequence[int]) -> "Pack":
        """Return the pack of the bodies with these indexes, in this order. Raises IndexError."""
        bodies = [self.body(index) for index in indexes]
        size, ends = 0, list[int]()
        for body in bodies:
            size += len(body)
            ends.append(size)
        packed = struct.pack(f"<{len(ends)}I", *ends)
        return Pack(b"".join(bodies), packed, self._columns(lambda column: [column[i] for i in indexes]))

    def with_columns(self, **columns: Sequence[ColumnValue] | ColumnValue) -> "Pack":
        """Return the pack with these columns added or replaced. Raises ValueError as `of` does."""
        found = {name: _column(name, value, len(self)) for name, value in columns.items()}
        return Pack(self.data, self.ends, {**self.columns, **found})

    def without(self, *names: str) -> "Pack":
        """Return the pack without these columns, which it need not have."""
        if self.columns.keys().isdisjoint(names):
            return self
        columns = {name: value for name, value in self.columns.items() if name not in names}
        return Pack(self.data, self.ends, columns)

    def check(self) -> None:
        """Raise ValueError, with one sentence, if the parts of the pack do not fit each other."""
        if len(self.ends) % _END_BYTES:
            raise ValueError(f"a pack is damaged: its ends have {len(self.ends)} bytes, no multiple of 4")
        ends = self._offsets()
        if (ends[-1] if ends else 0) != len(self.data) or any(a > b for a, b in pairwise((0, *ends))):
            raise ValueError("a pack is damaged: the ends of its bodies do not fit its data")
        for name, column in self.columns.items():
            if isinstance(column, list) and len(column) != len(ends):
                raise ValueError(
                    f"a pack is damaged: its column {name!r} has {len(column)} values for {len(ends)} bodies"
                )

    def _offsets(self) -> tuple[int, ...]:
        return struct.unpack(f"<{len(self)}I", self.ends)

    def _place(self, index: int) -> tuple[int, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"the pack has {len(self)} bodies, and none with index {index}")
        if index:
            begin, end = struct.unpack_from("<2I", self.ends, (index - 1) * _END_BYTES)
            return begin, end
        return 0, struct.unpack_from("<I", self.ends)[0]

    def _columns(self, cut: Callable[[list[ColumnValue]], list[ColumnValue]]) -> dict[str, Column]:
        return {
            name: cut(column) if isinstance(column, list) else column for name, column in self.columns.items()
        }


def _column(name: str, value: Sequence[ColumnValue] | ColumnValue, count: int) -> Column:
    if value is None or isinstance(value, int | float | str):
        return value
    values = list(value)
    if len(values) != count:
        raise ValueError(
            f"the column {name!r} has {len(values)} values for {count} bodies; give one for each"
        )
    return _shortened(values)


def _shortened(values: list[ColumnValue]) -> Column:
    """Return one value for a list of equal ones. 1 and True are not equal here."""
    if not values:
        return None
    first = values[0]
    kind = type(first)
    # 0.0 equals -0.0: floats stay as they are.
    alike = kind is not float and all(type(value) is kind and value == first for value in values)
    return first if alike else values
