"""The sessions in which the jobs run: every test here runs in both."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.replay import ReplayError, local_session, spark_session


@pytest.fixture(scope="session", params=["local", "spark"])
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    try:
        made = (
            local_session(cores=2)
            if request.param == "local"
            else spark_session("quorate tests", cores=2, brief=True)
        )
    except ReplayError as error:
        pytest.skip(str(error))
    yield made
    made.stop()
