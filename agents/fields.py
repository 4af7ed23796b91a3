"""Fields of attrs classes, dataclasses and msgspec Structs, and of classes not decorated yet."""

import dataclasses
import inspect
import re
from typing import Any, Final, cast

import attrs
import msgspec

__all__ = ["annotations_of", "declared_fields", "field_names", "is_decorated", "is_frozen", "lost_fields"]

_NO_FIELD: Final = re.compile(r"(\w+\.)*(ClassVar|InitVar|KW_ONLY)\b")
_MARKERS: Final = ("__attrs_attrs__", "__dataclass_fields__")
"""Attributes that attrs and dataclasses give to each class that they decorate."""


def annotations_of(cls: type) -> dict[str, Any]:
    """Return the annotations in the body of a class; {} if one names a class that is defined later."""
    try:
        return inspect.get_annotations(cls)
    except NameError:  # Python 3.14 evaluates annotations when they are read
        return {}


def declared_fields(cls: type) -> list[str]:
    """Return the annotated names in the body of a class that are fields once the class is decorated."""
    return [name for name, kind in annotations_of(cls).items() if not _is_no_field(kind)]


def _is_no_field(kind: Any) -> bool:
    text = kind if isinstance(kind, str) else repr(kind)
    return kind is dataclasses.KW_ONLY or _NO_FIELD.match(text) is not None


def is_decorated(cls: type) -> bool:
    """Return whether attrs or dataclasses have decorated the class itself, not only a base of it."""
    return any(marker in vars(cls) for marker in _MARKERS)


def field_names(kind: Any) -> list[str] | None:
    """Return the fields of an attrs class, a dataclass or a Struct; None for anything else."""
    if not isinstance(kind, type):
        return None
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    for marker in ("__dataclass_fields__", "__struct_fields__"):
        if hasattr(kind, marker):
            return list(getattr(kind, marker))
    return None


def lost_fields(kind: Any) -> list[str]:
    """Return the private fields of an attrs class or dataclass, whose values msgspec leaves out."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return []
    return [name for name in field_names(kind) or () if name.startswith("_")]


def is_frozen(cls: type[Any]) -> bool:
    """Return whether the fields of an attrs class, a dataclass or a Struct cannot be assigned."""
    if issubclass(cls, msgspec.Struct):
        return bool(cls.__struct_config__.frozen)
    if dataclasses.is_dataclass(cls):
        return bool(cast("Any", cls).__dataclass_params__.frozen)
    try:
        # attrs.inspect tells it since attrs 25.4. A frozen class refuses whatever it is called with.
        cast("Any", cls).__setattr__(None, "", None)
    except attrs.exceptions.FrozenError:
        return True
    except (AttributeError, TypeError):
        pass
    return False
