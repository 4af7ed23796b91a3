"""The example work_queue.py: workers and the master are killed, and each order is billed once."""

import pytest

from examples.work_queue import PRICE
from quorate import Servers
from quorate.messaging import Session

from .conftest import Start
from .running import BOUND_S, ROOT

pytestmark = pytest.mark.processes

ORDERS = 60


def test_each_order_is_billed_once_though_a_worker_and_the_master_are_killed(start: Start) -> None:
    with Servers(ROOT / "examples" / "work_queue.xml", free_ports=True) as servers:
        url = servers.url()
        workers = [start("-m", "examples.work_queue", "work", url, "12") for _ in range(2)]
        assert start("-m", "examples.work_queue", "put", str(ORDERS), url).rest() == [
            f"{ORDERS} orders are in the queue."
        ]
        workers[0].until("is for nothing, try 1")
        workers[0].process.kill()
        servers.kill_master()
        workers[1].until("orders are done")
        with servers.connect() as connection, Session(connection, timeout=BOUND_S) as session:
            bills = [message.body for message in session.browse("bills")]
            dead = [(message.body, message.dead_reason) for message in session.browse("dead")]
            assert list(session.browse("orders")) == []
        expected = [
            {"order": number, "amount": number % 10 * PRICE} for number in range(1, ORDERS + 1) if number % 10
        ]
        assert sorted(bills, key=str) == sorted(expected, key=str)
        nothing = [{"number": number, "pieces": 0} for number in range(10, ORDERS + 1, 10)]
        assert sorted((body for body, _ in dead), key=str) == sorted(nothing, key=str)
        assert {reason for _, reason in dead} == {"undeliverable"}
