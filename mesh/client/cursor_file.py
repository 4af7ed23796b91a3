"""Files with cursors: where a persistent subscription is, kept by its subscriber."""

import os
import tempfile
from pathlib import Path

from ..frames import Cursor
from .errors import MeshError
from .subscriber import decode_cursor, encode_cursor

__all__ = ["read_cursor", "save_cursor"]


def read_cursor(cursor: Path | str | bytes | None) -> tuple[Path | None, Cursor | None]:
    """Return the file of a cursor and what is in it. Raises MeshError if that cannot be read."""
    if cursor is None:
        return None, None
    if isinstance(cursor, bytes):
        return None, decode_cursor(cursor)
    path = Path(cursor)
    try:
        return path, decode_cursor(path.read_bytes())
    except FileNotFoundError:
        return path, None
    except (OSError, ValueError) as error:
        raise MeshError(f"the cursor {path} cannot be used: {error}") from None


def save_cursor(path: Path, cursor: Cursor) -> None:
    """Write a cursor, whole or not at all. Raises MeshError."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
            file.write(encode_cursor(cursor))
        os.replace(file.name, path)
    except OSError as error:
        raise MeshError(f"the cursor {path} cannot be written: {error}") from None
