"""Errors that end a replay before it has a result."""

__all__ = ["JavaNotFound", "NoTrace", "ReplayError", "SparkMissing"]


class ReplayError(Exception):
    """The replay could not run; the text is one sentence that says what to do."""


class SparkMissing(ReplayError):
    """pyspark, pyarrow or pandas is not installed."""


class JavaNotFound(ReplayError):
    """Spark needs Java 17 or newer and there is none."""


class NoTrace(ReplayError):
    """The given places hold no trace that can be read."""
