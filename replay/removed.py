"""What the retention of a trace has removed: the record that lies beside the files that are left."""

import json
from pathlib import Path
from typing import Any, Final, Self, cast

import attrs

__all__ = ["REMOVED_FILE", "Removed"]

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
            found: Any = json.loads((directory / REMOVED_FILE).read_text(encoding="utf-8"))
            numbers = {int(key): int(value) for key, value in cast("dict[str, Any]", found["files"]).items()}
            return cls(int(found["server"]), int(found["position"]), numbers)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(-1, 0)

    def as_json(self) -> dict[str, Any]:
        """Return the record as it is written."""
        numbers = {str(key): value for key, value in sorted(self.numbers.items())}
        return {"server": self.server, "position": self.position, "files": numbers}
