"""Rows: an attribute of an agent that is a sorted table, beside the rest of its state.

A reaction costs what it touches of a table, however long the table is: only rows that were put or removed are
saved, compared between replicas, written to disks and sent to other replicas.
"""

import typing
from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import attrs
from sortedcontainers import SortedDict

from .names import AgentError
from .state_types import check_encodable, check_no_any, decoder, encoder, may_hold_sets

__all__ = ["MemoryTable", "RowChange", "RowKind", "RowTable", "Rows", "row_kind"]

K = TypeVar("K", int, str)
V = TypeVar("V")

_MIN_KEY: Final = -(2**63)
_MAX_KEY: Final = 2**63 - 1
MAX_KEY_CHARS: Final = 1024
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
_ABSENT: Final = object()

RowChange = tuple[str, int | str, bytes | None]
"""The attribute, the key and the encoded value; None: the row is removed."""


class RowTable(Protocol):
    """The rows of a table before the present reaction, encoded, in the order of their keys."""

    def __len__(self) -> int: ...

    def get(self, key: Any, /) -> bytes | None:
        """Return the value of a key, None if there is none."""
        ...

    def irange(
        self, low: Any, high: Any, inclusive: tuple[bool, bool], reverse: bool = False
    ) -> Iterator[Any]:
        """Yield keys in order, between two of them; None: no limit."""
        ...


class MemoryTable:
    """A table that no server keeps: of an agent that is run again, or alone in a test."""

    def __init__(self) -> None:
        self._rows: SortedDict[Any, bytes] = SortedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Any, /) -> bytes | None:
        """Return the value of a key, None if there is none."""
        return self._rows.get(key)

    def irange(
        self, low: Any, high: Any, inclusive: tuple[bool, bool], reverse: bool = False
    ) -> Iterator[Any]:
        """Yield keys in order, between two of them; None: no limit."""
        return self._rows.irange(low, high, inclusive, reverse)

    def apply(self, changes: Iterable[RowChange]) -> None:
        """Put and remove rows."""
        for _, key, value in changes:
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value


_EMPTY: Final[RowTable] = MemoryTable()
_UNCHANGED: Final[SortedDict[Any, bytes | None]] = SortedDict()
"""Nothing is ever put into these two."""


@attrs.frozen
class RowKind:
    """The types of a table."""

    key: type[int] | type[str]
    value: Any
    as_they_are: bool
    """The values are bytes, which are not encoded."""

    def encoded(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises TypeError or ValueError."""
        if self.as_they_are:
            if not isinstance(value, bytes):
                raise TypeError(f"a value of these rows is bytes, not {type(value).__name__}")
            data = value
        else:
            data = encoder.encode(value)
            # What cannot be read again must not be kept.
            self.decoded(data)
        if len(data) > MAX_VALUE_BYTES:
            raise ValueError(f"the value has {len(data)} bytes; a row holds {MAX_VALUE_BYTES} at most")
        return data

    def decoded(self, data: bytes) -> Any:
        """Return the value in the bytes. Raises ValueError if they do not fit the type."""
        return data if self.as_they_are else decoder(self.value).decode(data)


def row_kind(annotation: Any, where: str) -> RowKind | None:
    """Return the types of an attribute that is annotated with `Rows`, None for any other.

    Raises AgentError if they cannot be those of rows.
    """
    if annotation is not Rows and typing.get_origin(annotation) is not Rows:
        return None
    types = typing.get_args(annotation)
    if len(types) != 2 or types[0] not in (int, str):
        raise AgentError(f"{where}: write Rows[int, V] or Rows[str, V], with the type V of the values")
    key, value = types
    check_encodable(value, where)
    check_no_any(value, where)
    if may_hold_sets(value):
        raise AgentError(f"{where}: a value of rows has no sets, whose order differs between replicas")
    return RowKind(key, value, value is bytes)


class Rows(Generic[K, V]):
    """A sorted table of an agent: keys are int (64 bits) or str, values of any type that can be stored.

    ::

        @attrs.define
        class Ledger(Agent, name="bank.ledger"):
            total: int = 0
            entries: Rows[int, Entry] = attrs.field(factory=Rows[int, Entry])

    ``rows[key]`` returns a copy: to change a value, put it again. What a reaction changes is undone if it
    raises. A table is empty when its agent is created. It is not part of what `AgentSpec.save` saves.
    """

    __slots__ = ("__orig_class__", "_changes", "_count", "_kind", "_table")

    def __init__(self) -> None:
        self._kind: RowKind | None = None
        # Both are shared by all rows until they get their own: most reactions change none.
        self._table: RowTable = _EMPTY
        self._changes: SortedDict[Any, bytes | None] = _UNCHANGED
        self._count = 0
        """How many rows the changes add."""

    # For the engine

    @classmethod
    def of(cls, kind: RowKind, table: RowTable | None = None) -> "Rows[Any, Any]":
        """Return rows of these types on a table; None: on an empty one that nobody keeps."""
        rows: Rows[Any, Any] = cls()
        rows._kind = kind
        if table is not None:
            rows._table = table
        return rows

    def changes(self, attribute: str) -> list[RowChange]:
        """Return what was put and removed, in the order of the keys."""
        return [(attribute, key, value) for key, value in self._changes.items()]

    @property
    def changed(self) -> bool:
        """Whether something was put or removed."""
        return bool(self._changes)

    @property
    def kind(self) -> RowKind:
        """The types. Raises TypeError if nothing has named them."""
        if self._kind is None:
            self._kind = row_kind(getattr(self, "__orig_class__", Rows), "Rows")
        assert self._kind is not None
        return self._kind

    # For agents

    def __len__(self) -> int:
        return len(self._table) + self._count

    def __bool__(self) -> bool:
        return len(self) > 0

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __getitem__(self, key: K) -> V:
        data = self._find(key)
        if data is None:
            raise KeyError(key)
        return cast("V", self.kind.decoded(data))

    @typing.overload
    def get(self, key: K) -> V | None: ...
    @typing.overload
    def get(self, key: K, default: V) -> V: ...
    def get(self, key: K, default: V | None = None) -> V | None:
        """Return the value of a key, or `default`."""
        data = self._find(key)
        return default if data is None else cast("V", self.kind.decoded(data))

    def __setitem__(self, key: K, value: V) -> None:
        self._check_key(key)
        data = self.kind.encoded(value)
        if self._find(key) is None:
            self._count += 1
        self._change(key, data)

    def __delitem__(self, key: K) -> None:
        if self._find(key) is None:
            raise KeyError(key)
        self._count -= 1
        if self._table.get(key) is None:
            del self._changes[key]
        else:
            self._change(key, None)

    def _change(self, key: K, data: bytes | None) -> None:
        if self._changes is _UNCHANGED:
            self._changes = SortedDict()
        self._changes[key] = data

    def pop(self, key: K, *default: V) -> V:
        """Remove a row, and return its value, or `default` if there is none. Raises KeyError without."""
        data = self._find(key)
        if data is None:
            if default:
                return default[0]
            raise KeyError(key)
        del self[key]
        return cast("V", self.kind.decoded(data))

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def keys(self, low: K | None = None, high: K | None = None, *, reverse: bool = False) -> Iterator[K]:
        """Yield the keys from `low` to `high`, without `high`, in order. Rows may change meanwhile."""
        key: Any = high if reverse else low
        inclusive = not reverse
        while True:
            key = self._next(key, low, high, inclusive=inclusive, reverse=reverse)
            if key is None:
                return
            yield key
            inclusive = False

    def items(
        self, low: K | None = None, high: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """Yield keys and values from `low` to `high`, without `high`, in the order of the keys."""
        for key in self.keys(low, high, reverse=reverse):
            yield key, self[key]

    def first(self) -> K | None:
        """Return the smallest key, None if there is none."""
        return next(self.keys(), None)

    def last(self) -> K | None:
        """Return the greatest key, None if there is none."""
        return next(self.keys(reverse=True), None)

    def floor(self, key: K) -> K | None:
        """Return the greatest key up to `key`, None if there is none."""
        return cast("K | None", self._next(key, None, None, inclusive=True, reverse=True))

    def ceiling(self, key: K) -> K | None:
        """Return the smallest key from `key` on, None if there is none."""
        return cast("K | None", self._next(key, None, None, inclusive=True, reverse=False))

    def drop(self, low: K | None = None, high: K | None = None) -> int:
        """Remove the rows from `low` to `high`, without `high`. Return how many there were."""
        count = 0
        for key in list(self.keys(low, high)):
            del self[key]
            count += 1
        return count

    def __repr__(self) -> str:
        return f"<Rows, {len(self)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows):
            return NotImplemented
        return list(self.items()) == list(other.items())  # pyright: ignore

    __hash__ = None  # type: ignore[assignment]

    def _check_key(self, key: object) -> None:
        kind = self.kind.key
        if type(key) is not kind:
            raise TypeError(f"a key of these rows is {kind.__name__}, not {type(key).__name__}")
        if isinstance(key, int) and not _MIN_KEY <= key <= _MAX_KEY:
            raise ValueError(f"the key {key} has more than 64 bits")
        if isinstance(key, str) and len(key) > MAX_KEY_CHARS:
            raise ValueError(f"the key has {len(key)} characters; a key has {MAX_KEY_CHARS} at most")

    def _find(self, key: object) -> bytes | None:
        found: Any = self._changes.get(key, _ABSENT)
        return self._table.get(key) if found is _ABSENT else found

    def _next(self, key: Any, low: Any, high: Any, *, inclusive: bool, reverse: bool) -> Any:
        """Return the next key after `key` in one direction; None for `key`: from the end of the table on."""
        least, most = (None, key) if reverse else (key, None)
        edges = (True, inclusive) if reverse else (inclusive, True)
        changes = self._changes
        stored = self._table.irange(least, most, edges, reverse)
        if changes:
            one = next((each for each in stored if changes.get(each, b"") is not None), None)
            changed: Any = changes.irange(least, most, edges, reverse)
            other = next((each for each in changed if changes[each] is not None), None)
        else:
            one, other = next(stored, None), None
        if one is None or other is None:
            found = other if one is None else one
        else:
            found = max(one, other) if reverse else min(one, other)
        if found is None or (high is not None and found >= high) or (low is not None and found < low):
            return None
        return found
