"""An order book that its members replicate.

Every member has the whole book, and matches the same orders in the same order. Traders send orders to the
group and get the first answer; they notice neither that a member dies nor that a server does::

    quorate up examples/groups.xml
    python -m examples.order_book member          # in two or three terminals
    python -m examples.order_book buy 100 5
    python -m examples.order_book sell 99 3
    python -m examples.order_book show

Kill a member, or the replica of the server that is master: the book goes on. Start a member again: it gets
the book from the oldest one. Kill all members, and start one: it refuses to begin with an empty book.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator

from sortedcontainers import SortedList

from quorate import QuorateClientError, aconnect, connect
from quorate.groups import Group, Message, View, replicate

URL = "quorate://localhost:2560,localhost:2561,localhost:2562"
GROUP = "order-book"
PART = 1000
"""Orders in one part of the state."""


class OrderBook:
    """Buys, the dearest first, and sells, the cheapest first; of one price the older ones first."""

    def __init__(self) -> None:
        self.buys: SortedList = SortedList()
        self.sells: SortedList = SortedList()
        self.number = 0
        self.traded = 0

    def delivered(self, message: Message) -> bytes | None:
        """Execute an order, or answer a question."""
        if not message.request:
            return None
        order = json.loads(message.payload)
        if order["side"] == "show":
            return json.dumps(self.best()).encode()
        return json.dumps(self.match(order["side"], order["price"], order["amount"])).encode()

    def match(self, side: str, price: int, amount: int) -> dict[str, int]:
        """Trade with the best orders of the other side; what is left waits in the book."""
        own, other = (self.buys, self.sells) if side == "buy" else (self.sells, self.buys)
        sign = 1 if side == "buy" else -1
        traded = paid = 0
        while amount and other and sign * abs(other[0][0]) <= sign * price:
            key, number, there = other.pop(0)
            taken = min(amount, there)
            amount, traded, paid = amount - taken, traded + taken, paid + taken * abs(key)
            if there > taken:
                other.add((key, number, there - taken))
        if amount:
            self.number += 1
            own.add((-sign * price, self.number, amount))
        self.traded += traded
        return {"traded": traded, "paid": paid, "waiting": amount}

    def best(self) -> dict[str, int | None]:
        """Return the best prices, and how much was traded."""
        bid = -self.buys[0][0] if self.buys else None
        ask = self.sells[0][0] if self.sells else None
        return {"bid": bid, "ask": ask, "waiting": len(self.buys) + len(self.sells), "traded": self.traded}

    def view_changed(self, view: View) -> None:
        """Say how many members there are."""
        print(f"view {view.number} with {len(view.members)} members", flush=True)

    def provide_state(self) -> Iterator[bytes]:
        """Yield the book in parts of 1000 orders."""
        yield json.dumps([self.number, self.traded]).encode()
        orders = [["buy", *each] for each in self.buys] + [["sell", *each] for each in self.sells]
        for start in range(0, len(orders), PART):
            yield json.dumps(orders[start : start + PART]).encode()

    def receive_state(self, parts: Iterable[bytes]) -> None:
        """Take over the book of another member."""
        first, *rest = parts
        self.number, self.traded = json.loads(first)
        self.buys, self.sells = SortedList(), SortedList()
        for part in rest:
            for side, key, number, amount in json.loads(part):
                (self.buys if side == "buy" else self.sells).add((key, number, amount))
        print(f"the book has {len(self.buys) + len(self.sells)} orders", flush=True)


async def member(url: str) -> None:
    """Be a member until this program is stopped."""
    async with await aconnect(url, user="root", password="root") as connection:
        replica = await replicate(connection, GROUP, OrderBook())
        print("ready", flush=True)
        await replica.run()


def trade(url: str, order: dict[str, object]) -> dict[str, object]:
    """Send an order, or the question what the book is like; return the first answer."""
    with connect(url, user="root", password="root") as connection:
        answer: dict[str, object] = json.loads(Group(connection, GROUP).request(json.dumps(order).encode()))
        return answer


def main(arguments: list[str]) -> str | None:
    """Run the command that the arguments name. Return what went wrong, None if nothing did."""
    try:
        match arguments:
            case ["member", *rest] if len(rest) <= 1:
                asyncio.run(member(*rest or [URL]))
            case ["show", *rest] if len(rest) <= 1:
                print(trade(*rest or [URL], {"side": "show"}))
            case [("buy" | "sell") as side, price, amount, *rest] if len(rest) <= 1:
                print(trade(*rest or [URL], {"side": side, "price": int(price), "amount": int(amount)}))
            case _:
                return "usage: order_book member | show | buy PRICE AMOUNT | sell PRICE AMOUNT"
    except (QuorateClientError, ValueError) as error:
        return str(error)
    except KeyboardInterrupt:
        pass
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
