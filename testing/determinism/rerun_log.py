"""Entries that are applied again in a process with another hash seed: what goes in and comes out. Pure.

The parent and the child exchange one MessagePack value each way, version 1 of both.
"""

from typing import Any

import attrs
import msgspec

from ...agents import Context

__all__ = ["EntryResult", "Job", "JobResult", "ReactionResult", "Step", "stable_text"]

MAX_STEPS = 20_000
"""Lines of one reaction that are traced."""
_MAX_DEPTH = 6
_MAX_CHARS = 20_000


class Job(msgspec.Struct, array_like=True, frozen=True):
    """The entries of a log, and the engine that applies them."""

    server: int
    names: dict[str, int]
    routes: dict[int, int] | None
    settings: dict[str, Any]
    """The fields of `EngineSettings`."""
    modules: dict[str, str]
    """Modules of agents, and the files from which they can be loaded where they cannot be imported."""
    entries: list[tuple[int, int, bytes]]
    """Index, time stamp in nanoseconds, payload."""
    traced: int = 0
    """The position of the reaction whose steps are wanted; 0: of none."""
    version: int = 1


class ReactionResult(msgspec.Struct, array_like=True, frozen=True):
    """One reaction of the log, as it ended in this process."""

    position: int
    cls: str
    type: str
    outputs: bytes
    error: str
    method: tuple[str, int, str]
    """File, line and name of the method that reacted; empty if there is none."""


class EntryResult(msgspec.Struct, array_like=True, frozen=True):
    """One entry of the log, as it ended in this process."""

    index: int
    reactions: list[ReactionResult]
    digest: bytes


class Step(msgspec.Struct, array_like=True, frozen=True):
    """One line that the traced reaction is about to run, and the variables at that moment."""

    file: str
    line: int
    function: str
    variables: str


class JobResult(msgspec.Struct, array_like=True, frozen=True):
    """All entries, or why they could not be applied."""

    entries: list[EntryResult]
    steps: list[Step]
    failure: str = ""
    version: int = 1


def stable_text(value: Any, depth: int = 0) -> str:
    """Return a value as text that is equal in every process: without addresses, with sets sorted."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if depth > _MAX_DEPTH:
        return type(value).__qualname__
    if isinstance(value, Context):
        outcome = value.outcome
        return "" if outcome is None else stable_text((outcome.sends, outcome.timers), depth + 1)
    items: list[str]
    if isinstance(value, set | frozenset):
        items = sorted(stable_text(each, depth + 1) for each in _items(value))
    elif isinstance(value, dict):
        items = [
            f"{stable_text(key, depth + 1)}: {stable_text(each, depth + 1)}" for key, each in _pairs(value)
        ]
    elif isinstance(value, list | tuple):
        items = [stable_text(each, depth + 1) for each in _items(value)]
    elif isinstance(value, msgspec.Struct):
        items = [stable_text(getattr(value, name), depth + 1) for name in value.__struct_fields__]
    elif attrs.has(_class(value)):
        items = [stable_text(getattr(value, name, None), depth + 1) for name in _fields(value)]
    else:
        items = []
    return f"{_name(value)}({', '.join(items)})"[:_MAX_CHARS]


def _name(value: Any) -> str:
    return str(_class(value).__qualname__)


def _class(value: Any) -> Any:
    return value.__class__


def _items(value: Any) -> list[object]:
    return list(value)


def _fields(value: Any) -> list[str]:
    return [field.name for field in attrs.fields(_class(value))]


def _pairs(value: Any) -> list[tuple[object, object]]:
    return list(value.items())
