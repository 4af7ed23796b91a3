"""Words for values that are not what they should be, of Python and of a file alike."""

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["as_json", "check_seed", "check_types", "is_whole", "with_allowed"]

MAX_SHOWN = 80
"""Characters of a value in a sentence."""
_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}
_PATH = re.compile(r"at `\$((?:\.\w+)+)`")


def as_json(value: Any) -> str:
    """A value as it stands in a file, cut when it is long."""
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def is_whole(value: object) -> bool:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_seed(seed: object) -> None:
    """Whether it is a seed. Raises ValueError."""
    if not isinstance(seed, int) or not is_whole(seed) or seed < 0:
        raise ValueError(f"seed is {seed!r}: give a whole number, from 0")


def check_types(instance: Any) -> None:
    """Whether the fields of an attrs class with plain types are of these. Raises ValueError."""
    for name, kind in get_type_hints(type(instance)).items():
        value = getattr(instance, name)
        if kind is float:
            fits = is_whole(value) or isinstance(value, float)
        else:
            fits = is_whole(value) if kind is int else isinstance(value, kind)
        if not fits:
            raise ValueError(f"{name} is {value!r}: give {_WORDS.get(kind) or f'{kind.__name__}(...)'}")


def with_allowed(error: Exception, kind: type) -> str:
    """The text of an error of msgspec; where a word is not one of a few, with those."""
    text, found = str(error), _PATH.search(str(error))
    if not text.startswith("Invalid enum value") or found is None:
        return text
    hint: Any = kind
    for name in found.group(1).split(".")[1:]:
        hint = get_type_hints(hint).get(name) if isinstance(hint, type) else None
    allowed = ", ".join(map(repr, _literals(hint)))
    return f"{text}: one of {allowed}" if allowed else text


def _literals(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for part in get_args(hint):
            yield from _literals(part)
