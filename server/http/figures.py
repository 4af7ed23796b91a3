"""The figures of a queue or a topic."""

from collections.abc import Mapping

import attrs

__all__ = ["DestinationFigures"]


@attrs.frozen
class DestinationFigures:
    """What a queue or a topic has and has done, in numbers by name."""

    kind: str
    name: str
    figures: Mapping[str, int]
