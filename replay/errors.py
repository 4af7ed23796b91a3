"""Errors that end a replay before it has a result."""

from importlib import import_module

__all__ = ["JavaNotFound", "NoTrace", "ReplayError", "SparkMissing", "require"]


class ReplayError(Exception):
    """The replay could not run; the text is one sentence that says what to do."""


class SparkMissing(ReplayError):
    """A library that the replay needs is not installed."""


class JavaNotFound(ReplayError):
    """Spark needs Java 17 or newer and there is none."""


class NoTrace(ReplayError):
    """The given places hold no trace that can be read."""


def require(*modules: str) -> None:
    """Import modules of the replay's own dependencies. Raises SparkMissing for the first that is missing."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise SparkMissing(
                f"the replay needs {(error.name or module).partition('.')[0]}, which is not installed: "
                "run `pip install 'quorate[replay]'`."
            ) from error
