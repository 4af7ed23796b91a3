"""The text of an exception of an agent's code, in a form that can be stored and sent."""

from typing import Final

__all__ = ["MAX_ERROR_CHARS", "described", "error_text", "summary"]

MAX_ERROR_CHARS: Final = 1000
"""Characters of a text; the rest is left out."""


def error_text(error: BaseException) -> str:
    """The text of an exception.

    It is the agent's: its own code may fail at it, it may be of any length, and half a surrogate pair in it,
    of a file's name say, would make whatever holds the text impossible to encode.
    """
    try:
        return str(error)[:MAX_ERROR_CHARS].encode("utf-8", "backslashreplace").decode()[:MAX_ERROR_CHARS]
    except BaseException:  # it ends nothing either, by SystemExit say
        return "its message cannot be shown"


def described(error: BaseException) -> tuple[str, str]:
    """The name of an exception's class, and its text."""
    return type(error).__name__[:MAX_ERROR_CHARS], error_text(error)


def summary(kind: str, message: str) -> str:
    """Both in one text, as the trace has it: a replay compares it."""
    return f"{kind}: {message}"[:MAX_ERROR_CHARS]
