"""Prices: published to many, and asked for by one.

A market publishes prices to the topics of a tree, ``prices.eu.wheat`` for example. Who watches
``prices.eu.*`` gets those of Europe; who keeps books has a durable subscription for ``prices.#``, and misses
nothing while it is away. A dealer answers requests for a quote, which wait in the queue ``quotes``::

    quorate up examples/prices.xml
    python -m examples.prices watch prices.eu.*
    python -m examples.prices books
    python -m examples.prices market 100
    python -m examples.prices dealer
    python -m examples.prices ask wheat 10

Kill the replica that is master: all of them go on, and nobody gets a price twice.
"""

import random
import sys

from quorate import QuorateClientError, connect
from quorate.messaging import Ack, Session, Topic

URL = "quorate://localhost:2560,localhost:2561,localhost:2562"
REGIONS = ("eu", "us")
GOODS = {"wheat": 210.0, "rye": 180.0, "oats": 240.0}


def market(url: str, count: int) -> None:
    """Publish prices."""
    rng = random.Random(7)
    with connect(url, user="root", password="root") as connection, Session(connection) as session:
        for number in range(1, count + 1):
            region, good = rng.choice(REGIONS), rng.choice(list(GOODS))
            price = round(GOODS[good] * rng.uniform(0.95, 1.05), 2)
            # A price of a minute ago is of no use to anybody.
            session.producer(Topic(f"prices.{region}.{good}")).send_nowait(
                {"number": number, "price": price}, ttl_s=60
            )
        session.sync()
    print(f"{count} prices were published.")


def watch(url: str, pattern: str, patience_s: float | None = None) -> int:
    """Print prices whose topics match a pattern. Return how many there were."""
    count = 0
    with (
        connect(url, user="root", password="root") as connection,
        Session(connection) as session,
        session.consumer(Topic(pattern), timeout_s=patience_s) as consumer,
    ):
        print(f"watching {pattern}", flush=True)
        for message in consumer:
            assert isinstance(message.body, dict)
            print(f"{message.destination.title} {message.body['price']}")
            count += 1
    return count


def books(url: str, patience_s: float | None = None) -> dict[str, int]:
    """Count the prices of each topic, also those that came while nobody kept the books."""
    kept: dict[str, int] = {}
    with (
        connect(url, user="root", password="root") as connection,
        Session(connection, client_id="books", ack=Ack.CLIENT) as session,
    ):
        for message in session.consumer(Topic("prices.#"), durable="all", timeout_s=patience_s):
            kept[message.destination.title] = kept.get(message.destination.title, 0) + 1
            message.ack()
    for title, count in sorted(kept.items()):
        print(f"{title}: {count}")
    return kept


def dealer(url: str, patience_s: float | None = None) -> int:
    """Answer requests for quotes. Return how many there were."""
    count = 0
    with connect(url, user="root", password="root") as connection, Session(connection) as session:
        for message in session.consumer("quotes", timeout_s=patience_s):
            assert isinstance(message.body, dict)
            price = GOODS.get(message.body["good"])
            answer = {"total": price * message.body["tons"]} if price else {"refused": "not dealt in here"}
            session.reply(message, answer)
            count += 1
    return count


def ask(url: str, good: str, tons: int) -> str:
    """Ask for a quote, and return the answer as a sentence."""
    with connect(url, user="root", password="root") as connection, Session(connection) as session:
        answer = session.request("quotes", {"good": good, "tons": tons}, timeout=30).body
    assert isinstance(answer, dict)
    if "refused" in answer:
        return f"{good} is {answer['refused']}."
    return f"{tons} t of {good} cost {answer['total']}."


def main(arguments: list[str]) -> int:
    """Run one of the parts. Return the exit status."""
    match arguments:
        case ["market", count, *rest] if count.isdecimal() and len(rest) <= 1:
            market(rest[0] if rest else URL, int(count))
        case ["watch", pattern, *rest] if len(rest) <= 2:
            print(f"{watch(rest[0] if rest else URL, pattern, _patience(rest))} prices came.")
        case ["books", *rest] if len(rest) <= 2:
            books(rest[0] if rest else URL, _patience(rest))
        case ["dealer", *rest] if len(rest) <= 2:
            print(f"{dealer(rest[0] if rest else URL, _patience(rest))} quotes were given.")
        case ["ask", good, tons, *rest] if tons.isdecimal() and len(rest) <= 1:
            print(ask(rest[0] if rest else URL, good, int(tons)))
        case _:
            usage = "market COUNT | watch PATTERN | books | dealer | ask GOOD TONS"
            print(f"usage: python -m examples.prices {usage}  [URL]", file=sys.stderr)
            return 2
    return 0


def _patience(rest: list[str]) -> float | None:
    return float(rest[1]) if len(rest) == 2 else None


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except QuorateClientError as error:
        sys.exit(f"prices: {error}")
