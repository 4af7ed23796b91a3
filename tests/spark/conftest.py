"""The sessions in which the jobs run: a test that takes `session` runs in both."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.replay import ReplayError, local_session, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    try:
        session = spark_session("quorate tests", cores=2, brief=True)
    except ReplayError as error:
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def local() -> Iterator[Any]:
    try:
        session = local_session(cores=2)
    except ReplayError as error:
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["local", "spark"])
def session(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)
