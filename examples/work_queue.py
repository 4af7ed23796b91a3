"""A work queue: orders are put into a queue, workers do them, and each order is done once.

Start the servers of `examples/work_queue.xml`, and run the program in several terminals::

    quorate up examples/work_queue.xml
    python -m examples.work_queue work
    python -m examples.work_queue work
    python -m examples.work_queue put 100

Each worker takes orders in transactions: what it takes from the queue ``orders`` and what it puts into the
queue ``bills`` counts at once or not at all. Kill a worker in the middle of an order: another one gets it
once the server has not heard of the worker for 5 s. Kill the replica that is master: the workers go on with
the next one. An order for nothing cannot be done: it comes back a few times, and then lies in the queue
``dead``.

    python -m examples.work_queue bills
    quorate queue list examples/work_queue.xml --server s0
"""

import sys
from typing import Any

from quorate import QuorateClientError, connect
from quorate.messaging import Session

URL = "quorate://localhost:2560,localhost:2561,localhost:2562"
PRICE = 25


def put(url: str, count: int) -> None:
    """Put orders into the queue, urgent ones before the others."""
    with connect(url, user="root", password="root") as connection, Session(connection) as session:
        producer = session.producer("orders")
        for number in range(1, count + 1):
            order = {"number": number, "pieces": number % 10}
            producer.send_nowait(order, priority=9 if number % 10 == 9 else 4)
        producer.flush()
    print(f"{count} orders are in the queue.")


def bill(order: dict[str, Any]) -> dict[str, Any]:
    """Return the bill for an order. Raises ValueError for one that cannot be done."""
    if not order["pieces"]:
        raise ValueError(f"order {order['number']} is for nothing")
    return {"order": order["number"], "amount": order["pieces"] * PRICE}


def work(url: str, patience_s: float | None = None) -> int:
    """Do orders until none has come for `patience_s` seconds. Return how many were done."""
    done = 0
    with (
        connect(url, user="root", password="root") as connection,
        Session(connection, transacted=True) as session,
    ):
        bills = session.producer("bills")
        for message in session.consumer("orders", window=10, timeout_s=patience_s):
            assert isinstance(message.body, dict)
            try:
                bills.send(bill(message.body))
            except ValueError as error:
                print(f"{error}, try {message.delivery_count}")
                session.rollback()
                continue
            session.commit()
            done += 1
    return done


def show(url: str) -> None:
    """Print the bills, and leave them in the queue."""
    with connect(url, user="root", password="root") as connection, Session(connection) as session:
        for message in session.browse("bills"):
            print(message.body)


def main(arguments: list[str]) -> int:
    """Run one of the parts. Return the exit status."""
    match arguments:
        case ["put", count, *rest] if count.isdecimal():
            put(*rest or [URL], int(count))
        case ["work", *rest] if len(rest) <= 2:
            patience_s = float(rest[1]) if len(rest) == 2 else None
            print(f"{work(rest[0] if rest else URL, patience_s)} orders are done.")
        case ["bills", *rest] if len(rest) <= 1:
            show(*rest or [URL])
        case _:
            print("usage: python -m examples.work_queue put COUNT | work | bills  [URL]", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except QuorateClientError as error:
        sys.exit(f"work_queue: {error}")
