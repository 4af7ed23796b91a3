"""A Spark session for work on this machine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]


def spark_session(
    name: str = "quorate replay", *, cores: int | None = None, memory: str = "1g"
) -> "SparkSession":
    """Return a quiet local Spark session; a session that is already active is returned as it is.

    It is a context manager: leaving the ``with`` block stops Spark.
    Raises SparkMissing or JavaNotFound (both ReplayError) with a sentence that says what to install.
    """
    raise NotImplementedError
