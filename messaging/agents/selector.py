"""Message selectors: conditions in a subset of SQL-92 over the properties of a message.

Source: Jakarta Messaging 3.1, section 3.8. A selector is compiled once, into closures over a row of values,
one for each name that it has. Logic has three values: a comparison with a property that a message does not
have is unknown, and a message is selected only if the whole is true.

Where the standard is silent: values of unlike types are neither equal nor unequal, so that both ``=`` and
``<>`` are false; arithmetic with what is no number, and a division by zero, are unknown; the division of two
integers is an integer, cut toward zero, as in Java; a name alone is a condition, unknown if its value is no
bool.
"""

import operator
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

import attrs

from ...agents import ColumnValue, Pack
from .conditions import (
    COMPARISONS,
    OPERATIONS,
    Pattern,
    Row,
    Value,
    all_of,
    any_of,
    calculation,
    compared,
    constant,
    is_null,
    negation,
)
from .protocol import DEFAULT_PRIORITY, PROPERTY_PREFIX

__all__ = ["MAX_SELECTOR_CHARS", "Selector", "SelectorError"]

MAX_SELECTOR_CHARS: Final = 8192
_MAX_NESTING: Final = 64
"""Brackets and signs within each other. Python's own stack bounds the closures."""
_MAX_TERMS: Final = 1000
"""Names, literals and operators of a selector."""


_HEADERS: Final = {
    "JMSPriority": "priority",
    "JMSMessageID": "id",
    "JMSTimestamp": "time",
    "JMSCorrelationID": "correlation",
    "JMSType": "type",
    "JMSDeliveryMode": "mode",
    "JMSXGroupID": "group",
}
"""Names of headers, with the columns of a pack that have them."""
_DEFAULTS: Final[dict[str, ColumnValue]] = {"priority": DEFAULT_PRIORITY, "mode": "PERSISTENT"}
"""What a message has where a column says nothing."""
_KEYWORDS: Final = frozenset(
    ["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"]
)
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
      | (?P<sign><>|<=|>=|[=<>+\-*/(),])
    )""",
    re.VERBOSE,
)


class SelectorError(ValueError):
    """Raised for a text that is no selector. The sentence names line and column, both from 1."""


class _Token(NamedTuple):
    kind: str
    """``text``, ``number``, ``name``, ``sign``, ``keyword`` or ``end``."""
    text: str
    place: int
    """Index of its first character."""


class _Term(NamedTuple):
    """A compiled part of a selector."""

    value: Value
    kind: str
    """``bool``, ``number``, ``text``, or ``any`` if only a message says what it is."""
    token: _Token
    literal: bool = False


@attrs.frozen
class Selector:
    """A compiled selector."""

    text: str
    names: tuple[str, ...]
    """The names in it: of properties, or of headers such as ``JMSPriority``."""
    _condition: Value

    @classmethod
    def compile(cls, text: str) -> "Selector | None":
        """Compile a selector. Return None for an empty one, which selects everything.

        Raises SelectorError, with the place and what is expected there.
        """
        if not text.strip():
            return None
        parser = _Parser(text)
        condition = parser.whole()
        return cls(text, tuple(parser.names), condition)

    def matches(self, values: dict[str, ColumnValue]) -> bool:
        """Return whether a message with these properties and headers, by name, is selected."""
        return self._condition([values.get(name) for name in self.names]) is True

    def select(self, pack: Pack) -> list[int]:
        """Return the indexes of the messages in a pack that are selected."""
        condition = self._condition
        if not self.names:
            return list(range(len(pack))) if condition(()) is True else []
        columns = [_column(pack, name) for name in self.names]
        return [index for index, row in enumerate(zip(*columns, strict=True)) if condition(row) is True]


def _column(pack: Pack, name: str) -> list[ColumnValue]:
    column = _HEADERS.get(name)
    if column is None:
        return pack.column(PROPERTY_PREFIX + name)
    values = pack.column(column)
    default = _DEFAULTS.get(column)
    return values if default is None else [default if value is None else value for value in values]


class _Parser:
    """A Pratt parser, from tokens to closures."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_SELECTOR_CHARS:
            raise SelectorError(f"the selector has {len(text)} characters; the most are {MAX_SELECTOR_CHARS}")
        self._text = text
        self._tokens = list(self._scan())
        if len(self._tokens) > _MAX_TERMS:
            raise SelectorError(
                f"the selector has {len(self._tokens)} words and signs; the most are {_MAX_TERMS}"
            )
        self._at = 0
        self._nesting = 0
        self.names: dict[str, int] = {}
        """The place of each name in a row."""

    def whole(self) -> Value:
        """Return the compiled selector."""
        condition = self._condition(self._disjunction())
        token = self._next()
        if token.kind != "end":
            self._fail(token, "expected an operator, AND, OR or the end")
        return condition

    # Tokens

    def _scan(self) -> Iterator[_Token]:
        place, text = 0, self._text
        end = len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                place += len(text[place:]) - len(text[place:].lstrip())
                flaw = "a text without its closing quote" if text[place] == "'" else "no part of a selector"
                self._fail(_Token("sign", text[place], place), flaw)
            kind = match.lastgroup or ""
            word = match[kind]
            place = match.end()
            if kind == "number" and re.match(r"[\w$.]", text[place : place + 1]):
                self._fail(_Token(kind, word, match.start(kind)), "not a number: a digit begins it")
            if kind == "name" and word.upper() in _KEYWORDS:
                kind, word = "keyword", word.upper()
            yield _Token(kind, word, match.start(kind if kind != "keyword" else "name"))
        yield _Token("end", "", end)

    def _peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _takes(self, *texts: str) -> _Token | None:
        """Take the next token if it is one of these signs or keywords."""
        token = self._peek()
        if token.kind in ("sign", "keyword") and token.text in texts:
            self._at += 1
            return token
        return None

    def _expect(self, text: str) -> None:
        if self._takes(text) is None:
            self._fail(self._peek(), f"expected {text}")

    def _fail(self, token: _Token, flaw: str) -> NoReturn:
        before = self._text[: token.place]
        line = before.count("\n") + 1
        column = token.place - (before.rfind("\n") + 1) + 1
        found = repr(token.text) if token.kind != "end" else "the end"
        raise SelectorError(f"the selector is wrong at line {line}, column {column}, {found}: {flaw}")

    # Conditions

    def _disjunction(self) -> _Term:
        left = self._conjunction()
        if self._peek()[:2] != ("keyword", "OR"):
            return left
        values = [self._condition(left)]
        while self._takes("OR"):
            values.append(self._condition(self._conjunction()))
        return _Term(any_of(values), "bool", left.token)

    def _conjunction(self) -> _Term:
        left = self._negation()
        if self._peek()[:2] != ("keyword", "AND"):
            return left
        values = [self._condition(left)]
        while self._takes("AND"):
            values.append(self._condition(self._negation()))
        return _Term(all_of(values), "bool", left.token)

    def _negation(self) -> _Term:
        token = self._takes("NOT")
        if token is None:
            return self._predicate()
        self._enter(token)
        term = _Term(negation(self._condition(self._negation())), "bool", token)
        self._nesting -= 1
        return term

    def _condition(self, term: _Term) -> Value:
        if term.kind == "bool":
            return term.value
        if term.kind != "any":
            self._fail(term.token, "a condition is expected here; compare it with something")
        value = term.value

        def condition(row: Row) -> ColumnValue:
            found = value(row)
            return found if isinstance(found, bool) else None

        return condition

    def _predicate(self) -> _Term:
        left = self._sum()
        sign = self._takes(*COMPARISONS)
        if sign is not None:
            return self._comparison(left, sign, self._sum())
        if self._takes("IS"):
            negated = self._takes("NOT") is not None
            self._expect("NULL")
            return self._null(left, negated)
        negated = self._takes("NOT") is not None
        token = self._peek()
        if self._takes("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            found = self._between(left, low, self._sum())
        elif self._takes("IN"):
            found = self._member(left)
        elif self._takes("LIKE"):
            found = self._like(left)
        elif negated:
            self._fail(token, "expected BETWEEN, IN or LIKE after NOT")
        else:
            return left
        return _Term(negation(found), "bool", left.token) if negated else _Term(found, "bool", left.token)

    def _comparison(self, left: _Term, sign: _Token, right: _Term) -> _Term:
        kinds = {left.kind, right.kind} - {"any"}
        if len(kinds) > 1:
            self._fail(sign, f"a {left.kind} is never compared with a {right.kind}")
        if sign.text not in ("=", "<>") and kinds & {"text", "bool"}:
            self._fail(sign, f"a {kinds.pop()} is compared with = or <> only")
        if left.kind == right.kind == "bool" and not (left.literal or right.literal):
            self._fail(sign, "two conditions are joined by AND or OR, not compared")
        return _Term(compared(left.value, COMPARISONS[sign.text], sign.text, right.value), "bool", left.token)

    def _null(self, left: _Term, negated: bool) -> _Term:
        if left.kind != "any" or left.token.kind != "name":
            self._fail(left.token, "only a property is compared with NULL")
        return _Term(is_null(left.value, negated=negated), "bool", left.token)

    def _between(self, left: _Term, low: _Term, high: _Term) -> Value:
        for term in (left, low, high):
            if term.kind not in ("any", "number"):
                self._fail(term.token, "BETWEEN takes numbers")
        return all_of(
            [
                compared(left.value, operator.ge, ">=", low.value),
                compared(left.value, operator.le, "<=", high.value),
            ]
        )

    def _member(self, left: _Term) -> Value:
        if left.kind not in ("any", "text") or left.literal:
            self._fail(left.token, "IN takes a property")
        self._expect("(")
        members: set[str] = set()
        while True:
            token = self._next()
            if token.kind != "text":
                self._fail(token, "expected a text in quotes")
            members.add(_unquoted(token.text))
            if self._takes(")"):
                break
            self._expect(",")
        value = left.value

        def member(row: Row) -> ColumnValue:
            found = value(row)
            return None if found is None else found in members if isinstance(found, str) else False

        return member

    def _like(self, left: _Term) -> Value:
        if left.kind not in ("any", "text") or left.literal:
            self._fail(left.token, "LIKE takes a property")
        token = self._next()
        if token.kind != "text":
            self._fail(token, "expected a pattern in quotes")
        escape = ""
        if self._takes("ESCAPE"):
            character = self._next()
            escape = _unquoted(character.text) if character.kind == "text" else ""
            if len(escape) != 1:
                self._fail(character, "expected one character in quotes")
        pattern = self._pattern(token, escape)
        value = left.value

        def like(row: Row) -> ColumnValue:
            found = value(row)
            return None if found is None else pattern.matches(found) if isinstance(found, str) else False

        return like

    def _pattern(self, token: _Token, escape: str) -> "Pattern":
        parts: list[list[str | None]] = [[]]
        characters = iter(_unquoted(token.text))
        for character in characters:
            if character == escape:
                escaped = next(characters, "")
                if escaped not in ("%", "_", escape):
                    self._fail(token, f"after the escape character {escape!r} comes %, _ or itself")
                parts[-1].append(escaped)
            elif character == "%":
                parts.append([])
            else:
                parts[-1].append(None if character == "_" else character)
        return Pattern(parts)

    # Values

    def _sum(self) -> _Term:
        left = self._product()
        while (sign := self._takes("+", "-")) is not None:
            left = self._calculated(left, sign, self._product())
        return left

    def _product(self) -> _Term:
        left = self._signed()
        while (sign := self._takes("*", "/")) is not None:
            left = self._calculated(left, sign, self._signed())
        return left

    def _calculated(self, left: _Term, sign: _Token, right: _Term) -> _Term:
        for term in (left, right):
            if term.kind not in ("any", "number"):
                self._fail(sign, f"{sign.text} takes numbers, not a {term.kind}")
        literal = left.literal and right.literal
        return _Term(calculation(left.value, OPERATIONS[sign.text], right.value), "number", sign, literal)

    def _signed(self) -> _Term:
        sign = self._takes("+", "-")
        if sign is None:
            return self._primary()
        self._enter(sign)
        term = self._signed()
        self._nesting -= 1
        if term.kind not in ("any", "number"):
            self._fail(sign, f"{sign.text} takes a number, not a {term.kind}")
        factor = -1 if sign.text == "-" else 1
        value = calculation(constant(factor), operator.mul, term.value)
        return _Term(value, "number", sign, term.literal)

    def _primary(self) -> _Term:
        token = self._next()
        if token.kind == "text":
            text = _unquoted(token.text)
            return _Term(constant(text), "text", token, literal=True)
        if token.kind == "number":
            number = int(token.text) if token.text.isdecimal() else float(token.text)
            return _Term(constant(number), "number", token, literal=True)
        if token.text in ("TRUE", "FALSE") and token.kind == "keyword":
            truth = token.text == "TRUE"
            return _Term(constant(truth), "bool", token, literal=True)
        if token.kind == "name":
            return _Term(operator.itemgetter(self._name(token)), "any", token)
        if token[:2] != ("sign", "("):
            self._fail(token, "expected a property, a number, a text in quotes, TRUE, FALSE or (")
        self._enter(token)
        term = self._disjunction()
        self._nesting -= 1
        self._expect(")")
        # What is in brackets is a value: its first token says no more than where it begins.
        return term._replace(token=token)

    def _name(self, token: _Token) -> int:
        name = token.text
        if name.startswith("JMS") and name not in _HEADERS and not name.startswith("JMSX"):
            known = ", ".join(each for each in _HEADERS if not each.startswith("JMSX"))
            self._fail(token, f"there is no such header; those of selectors are {known}")
        return self.names.setdefault(name, len(self.names))

    def _enter(self, token: _Token) -> None:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            self._fail(token, f"it is nested more than {_MAX_NESTING} deep")


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
