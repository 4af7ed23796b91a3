"""The terminal that commands print tables and coloured lines on."""

from rich.console import Console

__all__ = ["console"]


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or wide enough for a table in a file."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = 200
    return made
