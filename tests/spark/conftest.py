"""One Spark session for all tests that need one."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.replay import ReplayError, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    try:
        session = spark_session("quorate tests", cores=2, brief=True)
    except ReplayError as error:
        pytest.skip(str(error))
    yield session
    session.stop()
