"""The origin of an exception: file and line of the user's code that raised it."""

import sys
from types import CodeType
from typing import Any, Final

__all__ = ["raised_at"]

_TOOLS: Final = frozenset({"attr", "attrs", "msgspec", __name__.partition(".")[0]}) | sys.stdlib_module_names
"""Packages whose files are not shown: the error is in the code that calls them."""


def raised_at(error: BaseException) -> str:
    """Return ``" (bank.py, line 12)"`` for the innermost line of user code, "" if there is none.

    The text is the same on every replica that runs the same code: it has no directories.
    """
    if isinstance(error, SyntaxError):
        return ""  # Its text has the place already.
    place, step = "", error.__traceback__
    while step is not None:
        frame = step.tb_frame
        if _is_shown(frame.f_code, frame.f_globals):
            place = f" ({_file(frame.f_code.co_filename)}, line {step.tb_lineno})"
        step = step.tb_next
    return place


def _is_shown(code: CodeType, module: dict[str, Any]) -> bool:
    package = str(module.get("__name__", "")).partition(".")[0]
    return package not in _TOOLS and not code.co_filename.startswith("<")


def _file(path: str) -> str:
    """Return the name of a file, for the one of a package with the name of the package."""
    *directories, name = path.replace("\\", "/").split("/")
    return f"{directories[-1]}/{name}" if name == "__init__.py" and directories else name
