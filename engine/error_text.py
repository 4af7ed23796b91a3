"""The text of an exception of an agent's code, in a form that can be stored and sent."""

from typing import Final

from ..agents import AgentError
from ..agents.origin import raised_at

__all__ = ["MAX_ERROR_CHARS", "described", "error_text", "located", "printable", "reason_of", "summary"]

MAX_ERROR_CHARS: Final = 1000
"""Characters of a text; the rest is left out."""


def error_text(error: BaseException) -> str:
    """Return the text of an exception, bounded and in characters that can be encoded.

    The exception is that of an agent: its code may fail to make the text, which may have any length, and half
    a surrogate pair in it (from the name of a file, for example) could not be encoded.
    """
    try:
        return str(error)[:MAX_ERROR_CHARS].encode("utf-8", "backslashreplace").decode()[:MAX_ERROR_CHARS]
    except BaseException:  # also SystemExit, which must not end the process
        return "its message cannot be shown"


def described(error: BaseException) -> tuple[str, str]:
    """Return the name of an exception's class, and its text."""
    return type(error).__name__[:MAX_ERROR_CHARS], error_text(error)


def located(error: BaseException) -> str:
    """Return the class and the text of an exception, with file and line of the user's code that raised it."""
    return f"{': '.join(part for part in described(error) if part)}{raised_at(error)}"


def reason_of(error: BaseException) -> str:
    """Return why a class cannot be used: the sentence of an AgentError, `located` for anything else."""
    return error_text(error) if isinstance(error, AgentError) else located(error)


def summary(kind: str, message: str) -> str:
    """Return both in one text, as the trace holds it. A replay compares it, so its form must not change."""
    return f"{kind}: {message}"[:MAX_ERROR_CHARS]


def printable(text: str) -> str:
    """Return a text with everything that is no visible character escaped.

    A line of a log has to stay one line, and a terminal would obey control characters.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
