"""What is wrong with what a schedule says, in words for whoever wrote it: the place, and what is expected."""

import re
from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from ..channel.arguments import as_json, with_allowed

__all__ = ["broken_json", "problem"]

_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "an object",
}
_AT = re.compile(r" - at `\$(.*?)`$")
_EXPECTED = re.compile(r"Expected `(.+?)`, got")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")


def broken_json(error: Exception, data: bytes) -> str:
    """Where a file is no JSON, in lines and columns as editors count them."""
    found = _BYTE.fullmatch(str(error))
    if isinstance(error, UnicodeError):
        return "it is no text in UTF-8"
    if "truncated" in str(error):
        return "it is no whole JSON object: something is missing at its end"
    if found is None:
        return f"it is no JSON: {error}"
    before = data[: int(found[2])]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return f"it is no JSON at line {line}, column {column}: {found[1]}"


def problem(error: Exception, kind: type, plain: Any, root: str = "") -> str:
    """What msgspec has against `plain` as a `kind`, which stands at `root`."""
    text, at = str(error), ""
    found = _AT.search(text)
    if found is not None:
        text, at = text[: found.start()], found[1]
    name = f"{root}{at}".lstrip(".") or "it"
    expected, field = _EXPECTED.match(text), _FIELD.match(text)
    if expected is not None:
        return f"{name} is {as_json(_value(plain, at))}: give {_wanted(expected[1], at, kind)}"
    if text.startswith("Invalid enum value"):
        number = int in get_args(get_type_hints(kind).get(at.rpartition(".")[2]))
        first = "a whole number or " if number else ""
        return f"{name} is {as_json(_value(plain, at))}: give {first}one of {_allowed(at, kind)}"
    if field is None:
        return f"{root}{at}: {text}".lstrip(".: ")
    if field[1] == "missing required":
        return f"{field[2]} is missing"
    names: Sequence[str] = getattr(kind, "__struct_fields__", ())
    return f"there is no field {field[2]!r}, but {', '.join(names)}"


def _wanted(types: str, at: str, kind: type) -> str:
    """In words; a text that is one of a few is said with those."""
    words = [_NOUNS.get(each, each) for each in types.split(" | ")]
    allowed = _allowed(at, kind)
    return " or ".join(f"one of {allowed}" if allowed and word == "a text" else word for word in words)


def _allowed(at: str, kind: type) -> str:
    error = msgspec.ValidationError(f"Invalid enum value at `${at}`")
    return with_allowed(error, kind).partition(": one of ")[2]


def _value(plain: Any, at: str) -> Any:
    for key, position in re.findall(r"\.(\w+)|\[(\d+)\]", at):
        plain = plain[key] if key else plain[int(position)]
    return plain
