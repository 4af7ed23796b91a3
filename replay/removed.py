"""What the retention of a trace has removed: the record that lies beside the files that are left."""

import json
import re
from pathlib import Path
from typing import Any, Final, Self, cast

import attrs

__all__ = ["CLOSED_FILE", "REMOVED_FILE", "Removed"]

CLOSED_FILE: Final = re.compile(r"(\d+)-(\d{6,})\.parquet")
"""The name of a trace file that its server has closed: the incarnation, and the number of the file in it."""
REMOVED_FILE: Final = "removed.json"
"""The name of the record in the directory of a trace."""


@attrs.frozen
class Removed:
    """How far the files of one replica's trace were removed on purpose."""

    server: int
    """The id of the server."""
    position: int
    """The highest position in the files that were removed."""
    numbers: dict[int, int] = attrs.field(factory=dict[int, int])
    """By incarnation: the number of the last file that was removed."""

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the record of a directory. Without one that can be read, nothing was removed."""
        try:
            return cls.parse((directory / REMOVED_FILE).read_bytes())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(-1, 0)

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Return the record that was written as `text`. Raises ValueError, KeyError, TypeError or so."""
        found: Any = json.loads(text)
        numbers = {int(key): int(value) for key, value in cast("dict[str, Any]", found["files"]).items()}
        return cls(int(found["server"]), int(found["position"]), numbers)

    def as_json(self) -> dict[str, Any]:
        """Return the record as it is written."""
        numbers = {str(key): value for key, value in sorted(self.numbers.items())}
        return {"server": self.server, "position": self.position, "files": numbers}
