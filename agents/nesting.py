"""The bound on how deep the values of notifications and states may be nested."""

from itertools import chain
from typing import Any, Final

import msgspec

__all__ = ["MAX_NESTING", "TOO_DEEP", "nested_too_deep"]

MAX_NESTING: Final = 100
"""Lists, tuples, maps and objects within one another, in a notification or in an agent's state.

Decoding nests a call for each of them. The bound is far below `engine.recursion.REACTION_DEPTH`, so that what
one replica or client can encode every other one can decode, from whatever depth of its own stack."""

TOO_DEEP: Final = (
    f"its values are nested more than {MAX_NESTING} deep; send or store a list with references instead"
)
"""What is wrong with such a value, and the remedy."""

_MAP: Final[Any] = dict
"""The type of maps, in a form that a type checker does not follow to keys and values of unknown types."""
_CONTAINERS: Final = frozenset((list, tuple, _MAP))
_decode: Final = msgspec.msgpack.Decoder().decode


def nested_too_deep(data: bytes) -> bool:
    """Return whether an encoded value is nested deeper than `MAX_NESTING`.

    Bytes that are no MessagePack are not: whoever decodes them finds out. It takes about as long as decoding.
    """
    if len(data) <= MAX_NESTING:
        return False
    try:
        level: list[Any] = [_decode(data)]
    except RecursionError:
        return True
    except (ValueError, TypeError):
        return False
    for _ in range(MAX_NESTING):
        # The keys of a map may be arrays, which decode as tuples.
        level = [
            part
            for value in level
            if type(value) in _CONTAINERS
            for part in (chain(value, value.values()) if type(value) is _MAP else value)
            if type(part) in _CONTAINERS
        ]
        if not level:
            return False
    return True
