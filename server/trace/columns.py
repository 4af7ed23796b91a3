"""Reactions as columns."""

from array import array
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import accumulate, repeat
from operator import attrgetter
from typing import Any, BinaryIO

from ...engine.reaction import Reaction
from ...replay.schema import COLUMNS, IDENTITY, Origin, arrow_schema

__all__ = ["Columns", "traced_bytes"]

COMPRESSION_LEVEL = 1
ROW_GROUP_ROWS = 131_072
# Numbers that grow by little from row to row.
DELTAS = ("position", "index", "now_ns", "stamp", "cause", "number")


class Codes(dict[Any, int]):
    """Numbers for the distinct values of a text column, in the order in which they are first seen."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code


class Columns:
    """Collects reactions column by column, and writes them as one Parquet file.

    Not safe for use by several threads. ``size`` is the sum of `traced_bytes`.
    """

    def __init__(self, origin: Origin) -> None:
        self._arrow: Any = import_module("pyarrow")
        self._parquet: Any = import_module("pyarrow.parquet")
        self._origin = origin
        self._recorded = [(name, kind) for name, kind in COLUMNS.items() if name not in IDENTITY]
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._rows = 0
        self.size = 0
        self._chunks: list[list[Any]] = [[] for _ in self._recorded]
        self._codes = [Codes() for _ in self._recorded]

    def __len__(self) -> int:
        return self._rows

    def extend(self, reactions: Sequence[Reaction]) -> None:
        """Add rows: all of them, or none if one cannot be stored (raises)."""
        arrays: list[Any] = []
        for (name, kind), codes in zip(self._recorded, self._codes, strict=True):
            # Column by column: a tuple per row would keep the garbage collector busy.
            values = map(attrgetter(name), reactions)
            if kind == "string":
                arrays.append(self._numbers("int", map(codes.__getitem__, values)))
            elif kind == "binary":
                arrays.append(self._bytes("binary", list(values)))
            else:
                arrays.append(self._numbers(kind, values))
        for chunks, found in zip(self._chunks, arrays, strict=True):
            chunks.append(found)
        self._rows += len(reactions)
        for reaction in reactions:
            self.size += traced_bytes(reaction)

    def write(self, file: BinaryIO, dropped: int) -> None:
        """Write all rows as one Parquet file. ``dropped`` goes into its metadata."""
        arrow = self._arrow
        origin = self._origin
        rows = self._rows
        columns: list[Any] = [
            self._words(self._numbers("int", repeat(0, rows)), [origin.server]),
            self._numbers("int", repeat(origin.server_id, rows)),
            self._numbers("int", repeat(origin.replica, rows)),
            self._numbers("bigint", repeat(origin.incarnation, rows)),
        ]
        for (_, kind), codes, chunks in zip(self._recorded, self._codes, self._chunks, strict=True):
            if kind == "string":
                words = [text(value) for value in codes]
                chunks = [self._words(chunk, words) for chunk in chunks]
            columns.append(arrow.chunked_array(chunks))
        table = arrow.Table.from_arrays(columns, schema=arrow_schema(origin.metadata(dropped)))
        self._parquet.write_table(
            table,
            file,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            row_group_size=ROW_GROUP_ROWS,
            use_dictionary=[
                name for name, kind in COLUMNS.items() if kind != "binary" and name not in DELTAS
            ],
            column_encoding=dict.fromkeys(DELTAS, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        )

    # Not pyarrow.array: it imports pandas, which costs a server memory and half a second.

    def _numbers(self, kind: str, values: Iterable[int]) -> Any:
        arrow = self._arrow
        wide = kind == "bigint"
        buffer = array("q" if wide else "i", values)
        made: Any = arrow.int64() if wide else arrow.int32()
        return arrow.Array.from_buffers(made, len(buffer), [None, arrow.py_buffer(buffer)])

    def _bytes(self, kind: str, values: Sequence[bytes]) -> Any:
        arrow = self._arrow
        offsets = array("i", accumulate(map(len, values), initial=0))
        buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(b"".join(values))]
        return arrow.Array.from_buffers(getattr(arrow, kind)(), len(values), buffers)

    def _words(self, codes: Any, words: Sequence[str]) -> Any:
        encoded = self._bytes("string", [word.encode() for word in words])
        return self._arrow.DictionaryArray.from_arrays(codes, encoded)


def traced_bytes(reaction: Reaction) -> int:
    """Return how many bytes a row holds beside its numbers and words."""
    return len(reaction.payload) + len(reaction.state) + len(reaction.requests)


def text(value: object) -> str:
    """Return an agent id or a word as text that UTF-8 can hold."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
