"""The terminal that commands print tables and coloured lines on."""

from rich.console import Console

__all__ = ["console", "short_bytes"]


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or wide enough for a table in a file."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = 200
    return made


def short_bytes(size: float) -> str:
    """Return a number of bytes in the unit that makes it short."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.0f} TiB"
