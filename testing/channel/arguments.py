"""Checks of the types of arguments, and the nouns that error sentences have for types."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["check_seed", "check_types", "is_whole", "type_noun"]

_NOUNS: dict[Any, str] = {
    **{int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "null"},
    **{list: "a list", tuple: "a list", dict: "an object"},
}


def is_whole(value: object) -> bool:
    """Return whether `value` is a whole number, which True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_seed(seed: object) -> None:
    """Raise ValueError unless `seed` is a whole number from 0."""
    if not isinstance(seed, int) or not is_whole(seed) or seed < 0:
        raise ValueError(f"seed is {seed!r}: give a whole number, from 0")


def check_types(instance: object) -> None:
    """Raise ValueError unless the fields of an attrs instance have the types of its annotations."""
    for name, kind in get_type_hints(type(instance)).items():
        value = getattr(instance, name)
        fits = is_whole(value) if kind in (int, float) else isinstance(value, kind)
        if not (fits or (kind is float and isinstance(value, float))):
            raise ValueError(f"{name} is {value!r}: give {type_noun(kind, f'{kind.__name__}(...)')}")


def type_noun(hint: Any, other: str = "an object") -> str:
    """Return what to give for a type hint, such as "a number or null"; `other` for a class."""
    origin = get_origin(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if origin in (Union, UnionType):
        return " or ".join(type_noun(each, other) for each in get_args(hint))
    return _NOUNS.get(origin or hint, other)
