"""Sentences for JSON that is no schedule: where it is wrong, and what belongs there."""

import re
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from ..channel.arguments import type_noun

__all__ = ["InvalidSchedule", "as_json", "convert", "syntax_error"]

T = TypeVar("T")

MAX_SHOWN = 80
"""Characters of a value in a sentence."""
_PATH = re.compile(r" - at `\$(.*?)`$")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")


class InvalidSchedule(ValueError):
    """Something that a schedule must not contain, in one sentence."""


def as_json(value: Any) -> str:
    """Return a value as it stands in a file, cut after MAX_SHOWN characters."""
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def syntax_error(error: Exception, data: bytes) -> str:
    """Return where a file is no JSON, in lines and columns as editors count them."""
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


def convert(plain: Any, kind: type[T], root: str = "") -> T:
    """Return decoded JSON as an instance of `kind`. Raises InvalidSchedule.

    root: the place of `plain` in the file, such as "shape".
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise InvalidSchedule(_sentence(str(error), plain, kind, root)) from None


def _sentence(text: str, plain: Any, kind: Any, root: str) -> str:
    found = _PATH.search(text)
    path, text = (found[1], text[: found.start()]) if found else ("", text)
    place = f"{root}{path}".lstrip(".")
    if text.startswith(("Expected `", "Invalid enum value")):
        hint = kind
        for name, position in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            plain = plain[name] if name else plain[int(position)]
            hint = get_type_hints(hint)[name] if name else get_args(hint)[0]
        return f"{place or 'it'} is {as_json(plain)}: give {type_noun(hint)}"
    field = _FIELD.match(text)
    if field is None:
        return f"{place}: {text}" if place else text
    if field[1] == "missing required":
        return f"{field[2]} is missing"
    return f"there is no field {field[2]!r}, but {', '.join(kind.__struct_fields__)}"
