"""What a selector is compiled into: closures over a row of values, with a logic of three values."""

import operator
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from ...agents import ColumnValue

__all__ = [
    "COMPARISONS",
    "OPERATIONS",
    "Pattern",
    "Row",
    "Value",
    "all_of",
    "any_of",
    "calculation",
    "compared",
    "constant",
    "is_null",
    "negation",
]

Row = Sequence[ColumnValue]
Value = Callable[[Row], ColumnValue]
"""An expression: its value for a message, None if it is unknown."""
COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@attrs.frozen
class Pattern:
    """A pattern of LIKE: its parts between the ``%``, None for ``_``. Matches without going back."""

    _parts: list[list[str | None]]

    def matches(self, text: str) -> bool:
        """Return whether the whole text fits."""
        first, *rest = self._parts
        if not _fits(first, text, 0):
            return False
        place = len(first)
        if not rest:
            return place == len(text)
        *middle, last = rest
        # The leftmost place of each part leaves most room for those after it.
        for part in middle:
            while place + len(part) <= len(text) and not _fits(part, text, place):
                place += 1
            place += len(part)
        return place + len(last) <= len(text) and _fits(last, text, len(text) - len(last))


def _fits(part: list[str | None], text: str, place: int) -> bool:
    if place + len(part) > len(text):
        return False
    return all(each is None or each == text[place + index] for index, each in enumerate(part))


def _is_number(value: ColumnValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def constant(value: ColumnValue) -> Value:
    """Return an expression whose value no message changes."""

    def same(_: Row) -> ColumnValue:
        return value

    return same


def is_null(value: Value, *, negated: bool) -> Value:
    """Return IS NULL, or IS NOT NULL."""

    def null(row: Row) -> ColumnValue:
        return (value(row) is None) is not negated

    return null


def compared(left: Value, compare: Callable[..., bool], sign: str, right: Value) -> Value:
    """Return the comparison of two expressions: unknown if one of them is, false for unlike types."""

    equality = sign in ("=", "<>")

    def comparison(row: Row) -> ColumnValue:
        one, other = left(row), right(row)
        if one is None or other is None:
            return None
        if type(one) is type(other):
            return compare(one, other) if equality or _is_number(one) else False
        return compare(one, other) if _is_number(one) and _is_number(other) else False

    return comparison


def _divided(one: float, other: float) -> float:
    if isinstance(one, int) and isinstance(other, int):
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) == (other < 0) else -quotient
    return one / other


OPERATIONS: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
}


def calculation(left: Value, operate: Callable[..., float], right: Value) -> Value:
    """Return an operation on two numbers: unknown if one is no number, or the result is none."""

    def calculated(row: Row) -> ColumnValue:
        one, other = left(row), right(row)
        if not (_is_number(one) and _is_number(other)):
            return None
        try:
            return operate(one, other)
        except ArithmeticError:
            return None

    return calculated


def negation(value: Value) -> Value:
    """Return NOT: unknown if the condition is."""

    def opposite(row: Row) -> ColumnValue:
        found = value(row)
        return None if found is None else not found

    return opposite


def all_of(values: Sequence[Value]) -> Value:
    """Return the conditions joined by AND."""
    return _joined(values, decisive=False)


def any_of(values: Sequence[Value]) -> Value:
    """Return the conditions joined by OR."""
    return _joined(values, decisive=True)


def _joined(values: Sequence[Value], *, decisive: bool) -> Value:
    """Return AND or OR: the decisive value if one has it, else unknown if one is unknown, else the other."""

    def junction(row: Row) -> ColumnValue:
        unknown = False
        for value in values:
            found = value(row)
            if found is decisive:
                return decisive
            unknown = unknown or found is None
        return None if unknown else not decisive

    return junction
