"""Imports of the modules that a configuration names, as a server would import them when it starts."""

import contextlib
import importlib
import sys

from ...agents.origin import raised_at

MAX_ERROR_TEXT = 200
"""Characters of an exception's text that are shown."""


def import_problem(module: str) -> str:
    """Import a module; return why that failed and what to do, without a full stop, or "" if it succeeded.

    The code is the user's and may raise anything: every exception but KeyboardInterrupt becomes a text. What
    it prints goes to the standard error.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module == missing or module.startswith(f"{missing}."):
            remedy = "install it, or run quorate in the directory that holds it"
            return f"there is no module {missing!r} here; {remedy}"
        return f"it needs the module {missing!r}{raised_at(error)}; install it"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit of a script without a guard, too.
        return f"{type(error).__name__}: {one_line(error)}{raised_at(error)}; correct the module"
    return ""


def one_line(error: BaseException) -> str:
    """Return the text of an exception on one line, without a full stop, and not too long."""
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= MAX_ERROR_TEXT else text[: MAX_ERROR_TEXT - 3] + "..."
