"""The example money.py: messages and a PostgreSQL database in one transaction, killed at every step."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers
from quorate.messaging import Session

from . import postgres
from .conftest import Start
from .running import BOUND_S, ROOT

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(postgres.unavailable()), reason=postgres.unavailable() or "never"),
]

ACCOUNTS, OPENING, PAYMENTS = 10, 1000, 30
DYING = """
import os, sys
from quorate.messaging.client import coordinator, xa
from examples import money

class Dying(coordinator.DistributedTransaction):
    def _commit(self):
        step = sys.argv[1]
        session, db = self._participants
        session.tpc_prepare()
        if step == "one prepared": os._exit(9)
        db.tpc_prepare()
        if step == "both prepared": os._exit(9)
        self._coordinator._decide(self._gtrid, ["0", "1"])
        if step == "decided": os._exit(9)
        session.tpc_commit()
        if step == "one committed": os._exit(9)
        db.tpc_commit()
        os._exit(9)

coordinator.DistributedTransaction = Dying
money.work(*sys.argv[2:5])
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers(ROOT / "examples" / "money.xml", free_ports=True) as servers:
        yield servers


@pytest.fixture
def database() -> Iterator[str]:
    with postgres.running("max_prepared_transactions=20") as address:
        yield address


def check(servers: Servers, database: str) -> None:
    """Check that each payment was handled once, and drop the receipts."""
    with servers.connect() as connection, Session(connection, timeout=BOUND_S) as session:
        assert [message.body for message in session.browse("payments")] == []
        with session.consumer("receipts", timeout_s=1) as consumer:
            receipts = [message.body for message in consumer]
    numbers = [receipt["number"] for receipt in receipts if isinstance(receipt, dict)]
    assert Counter(numbers) == Counter(range(1, PAYMENTS + 1))
    expected = dict.fromkeys(range(ACCOUNTS), OPENING)
    for receipt in receipts:
        assert isinstance(receipt, dict)
        number = receipt["number"]
        assert receipt["made"] == (number % 10 != 0)
        if receipt["made"]:
            expected[number % ACCOUNTS] -= number % 7 + 1
            expected[(number * 3 + 1) % ACCOUNTS] += number % 7 + 1
    found = postgres.rows(database, "select balance from account order by number")
    assert [int(each) for each in found] == list(expected.values())
    assert postgres.rows(database, "select gid from pg_prepared_xacts") == []


def test_a_worker_that_dies_at_each_step_leaves_no_payment_half_done(
    servers: Servers, database: str, start: Start, tmp_path: Path
) -> None:
    url, decisions = servers.url(), str(tmp_path / "decisions.db")
    start("-m", "examples.money", "setup", database).rest()
    start("-m", "examples.money", "pay", str(PAYMENTS), url).rest()
    for step in ("one prepared", "both prepared", "decided", "one committed", "all committed"):
        dying = start("-c", DYING, step, database, url, decisions)
        assert dying.process.wait(BOUND_S) == 9, step
    worker = start("-m", "examples.money", "work", database, url, decisions, "8")
    worker.until("payments were handled")
    check(servers, database)


def test_payments_go_on_over_a_killed_master_and_a_killed_worker(
    servers: Servers, database: str, start: Start, tmp_path: Path
) -> None:
    url, decisions = servers.url(), str(tmp_path / "decisions.db")
    start("-m", "examples.money", "setup", database).rest()
    start("-m", "examples.money", "pay", str(PAYMENTS), url).rest()
    worker = start("-m", "examples.money", "work", database, url, decisions)
    with servers.connect() as connection, Session(connection, timeout=BOUND_S) as session:
        while len(list(session.browse("receipts"))) < 5:
            pass
    servers.kill_master()
    with servers.connect() as connection, Session(connection, timeout=BOUND_S) as session:
        while len(list(session.browse("receipts"))) < 10:
            pass
    worker.process.kill()
    last = start("-m", "examples.money", "work", database, url, decisions, "8")
    last.until("payments were handled")
    check(servers, database)


def test_a_wrong_command_line_ends_with_its_usage(start: Start) -> None:
    wrong = start("-m", "examples.money", "steal")
    assert wrong.process.wait(BOUND_S) == 2
    assert "usage: python -m examples.money" in "".join(wrong.rest())
