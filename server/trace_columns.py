"""Reactions as columns."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, BinaryIO

import msgspec

from ..engine.trace import Reaction
from ..replay.schema import COLUMNS, arrow_schema

__all__ = ["Columns"]

IDENTITY = 4
COMPRESSION_LEVEL = 1
ROW_GROUP_ROWS = 131_072
# Numbers that grow by little from row to row.
DELTAS = ("position", "index", "now_ns", "stamp")


class Codes(dict[Any, int]):
    """Numbers for the distinct values of a text column, in the order in which they are first seen."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code


class Columns:
    """Collects reactions column by column, and writes them as one Parquet file.

    Not safe for use by several threads. ``size`` is the bytes of payloads and states it holds.
    """

    def __init__(self, identity: tuple[str, int, int, int]) -> None:
        self._arrow: Any = import_module("pyarrow")
        self._parquet: Any = import_module("pyarrow.parquet")
        self._identity = identity
        self._recorded = list(COLUMNS.items())[IDENTITY:]
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._rows = 0
        self.size = 0
        self._chunks: list[list[Any]] = [[] for _ in self._recorded]
        self._codes = [Codes() for _ in self._recorded]

    def __len__(self) -> int:
        return self._rows

    def extend(self, reactions: Sequence[Reaction]) -> None:
        """Add rows: all of them, or none if one cannot be stored (raises)."""
        arrow = self._arrow
        rows: Iterable[tuple[Any, ...]] = map(msgspec.structs.astuple, reactions)
        arrays: list[Any] = []
        size = 0
        for (_, kind), codes, values in zip(
            self._recorded, self._codes, zip(*rows, strict=True), strict=True
        ):
            if kind == "string":
                arrays.append(arrow.array(list(map(codes.__getitem__, values)), arrow.int32()))
            elif kind == "binary":
                arrays.append(arrow.array(values, arrow.binary()))
            else:
                arrays.append(arrow.array(values, arrow.int64() if kind == "bigint" else arrow.int32()))
        for reaction in reactions:
            size += len(reaction.payload) + len(reaction.state)
        for chunks, array in zip(self._chunks, arrays, strict=True):
            chunks.append(array)
        self._rows += len(reactions)
        self.size += size

    def write(self, file: BinaryIO, dropped: int) -> None:
        """Write all rows as one Parquet file. ``dropped`` goes into its metadata."""
        arrow = self._arrow
        server, *numbers = self._identity
        columns: list[Any] = [self._constant([server])]
        columns += [
            arrow.repeat(arrow.scalar(number, getattr(arrow, "int64" if wide else "int32")()), self._rows)
            for number, wide in zip(numbers, (False, False, True), strict=True)
        ]
        for (_, kind), codes, chunks in zip(self._recorded, self._codes, self._chunks, strict=True):
            if kind == "string":
                words = arrow.array([text(value) for value in codes], arrow.string())
                build: Callable[[Any, Any], Any] = arrow.DictionaryArray.from_arrays
                chunks = [build(chunk, words) for chunk in chunks]
            columns.append(arrow.chunked_array(chunks))
        table = arrow.Table.from_arrays(columns, schema=arrow_schema(dropped))
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

    def _constant(self, words: list[str]) -> Any:
        arrow = self._arrow
        zeros = arrow.repeat(arrow.scalar(0, arrow.int32()), self._rows)
        return arrow.DictionaryArray.from_arrays(zeros, arrow.array(words, arrow.string()))


def text(value: object) -> str:
    """Return an agent id or a word as text that UTF-8 can hold."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
