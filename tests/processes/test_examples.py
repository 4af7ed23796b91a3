"""Examples of agents as a reader runs them: real servers, and the programs themselves."""

from collections.abc import Iterator

import pytest

from quorate import Servers

from .conftest import Start
from .running import ROOT

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """The servers of examples/orders.xml, on free ports."""
    with Servers(ROOT / "examples" / "orders.xml", free_ports=True, pythonpath=[ROOT]) as servers:
        yield servers


def test_orders_are_shipped_or_expire_though_the_master_of_the_shop_is_killed(
    servers: Servers, start: Start
) -> None:
    servers.create("examples.orders:Stock", "stock", server="stock", free={"apples": 4})
    servers.create("examples.orders:Billing", "billing", server="billing", accounts={"ann": 60})
    servers.create("examples.orders:Shop", "shop", prices={"apples": 30}, pay_within_s=3)
    buyer = start("-m", "examples.orders", servers.url())
    buyer.until("Placed(order=2, price=60")
    servers.kill_master("shop")
    assert buyer.rest()[1:] == [
        "Paid(order=1)",
        "OrderEnded(order=1, phase=<Phase.SHIPPED: 'shipped'>)",
        "Placed(order=2, price=60, pay_within_s=3.0)",
        "OrderEnded(order=2, phase=<Phase.EXPIRED: 'expired'>)",
    ]
    assert buyer.ended() == 0


def test_a_chat_room_shows_each_line_to_all_members_until_they_leave(servers: Servers, start: Start) -> None:
    servers.create("examples.chat_room:Room", "lobby")
    ann, bob = (start("-m", "examples.chat_room", name, servers.url()) for name in ("ann", "bob"))
    for member in (ann, bob):
        member.until("(has come)")
    ann.say("hello")
    bob.until("ann: hello")
    bob.say("hi")
    ann.until("bob: hi")
    bob.hang_up()
    ann.until("bob: (has left)")
    ann.hang_up()
    assert (ann.ended(), bob.ended()) == (0, 0)
    for member in (ann, bob):
        numbers = [int(line.split()[0]) for line in member.rest()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
