"""Small files of text that people write: their text, or a sentence that says why there is none."""

import os
from pathlib import Path

__all__ = ["read_text", "reason", "write_private"]


def read_text(path: Path, most_bytes: int) -> str:
    """Return the text of a file. Raises OSError, or ValueError that says why it is no such text."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it has more than {most_bytes} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None


def reason(error: Exception) -> str:
    """Return why a file could not be read or written, in the words of the system where it has some."""
    return str(getattr(error, "strerror", None) or error)


def write_private(path: Path, text: str) -> None:
    """Write a file in the place of the former one, as a whole and for its owner only. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
