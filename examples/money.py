"""Transfers of money: a message is taken, a database changed and a receipt sent, all or nothing.

Payments wait in the queue ``payments``. A worker takes one, moves the money between two accounts of a
PostgreSQL database, and puts a receipt into the queue ``receipts``. The three are one distributed
transaction: kill the worker, the database or the master of the servers at any moment, start the worker again,
and each payment is done once. It needs ``pip install psycopg[binary]``, and a database whose setting
``max_prepared_transactions`` is above 0::

    quorate up examples/money.xml
    python -m examples.money setup postgresql://localhost/bank
    python -m examples.money pay 100
    python -m examples.money work postgresql://localhost/bank
    python -m examples.money accounts postgresql://localhost/bank

The worker keeps its decisions in the file ``money-decisions.db``. A payment that cannot be made, because the
payer has too little, is receipted as refused.
"""

import sys
from typing import Any

import psycopg

from quorate import QuorateClientError, connect
from quorate.messaging import CommitUnfinished, Coordinator, Session, XASession

URL = "quorate://localhost:2560,localhost:2561,localhost:2562"
ACCOUNTS = 10
OPENING_BALANCE = 1000
DECISIONS = "money-decisions.db"


def setup(database: str) -> None:
    """Make the accounts, each with the same balance."""
    with psycopg.connect(database) as db:
        db.execute("create table account (number int primary key, balance int not null check (balance >= 0))")
        for number in range(ACCOUNTS):
            db.execute("insert into account values (%s, %s)", (number, OPENING_BALANCE))
    print(f"{ACCOUNTS} accounts were made.")


def pay(url: str, count: int) -> None:
    """Put payments into the queue: some of them more than the payer has."""
    with connect(url, user="root", password="root") as connection, Session(connection) as session:
        producer = session.producer("payments")
        for number in range(1, count + 1):
            amount = 100_000 if number % 10 == 0 else number % 7 + 1
            payer, payee = number % ACCOUNTS, (number * 3 + 1) % ACCOUNTS
            payment = {"number": number, "payer": payer, "payee": payee, "amount": amount}
            producer.send_nowait(payment)
        producer.flush()
    print(f"{count} payments wait.")


def transfer(db: Any, payment: dict[str, Any]) -> bool:
    """Move the money of a payment in the database. Return False if the payer has too little."""
    payer, payee, amount = payment["payer"], payment["payee"], payment["amount"]
    cursor = db.execute(
        "update account set balance = balance - %s where number = %s and balance >= %s",
        (amount, payer, amount),
    )
    if not cursor.rowcount:
        return False
    db.execute("update account set balance = balance + %s where number = %s", (amount, payee))
    return True


def work(database: str, url: str, decisions: str = DECISIONS, patience_s: float | None = None) -> int:
    """Make payments until none has come for `patience_s` seconds. Return how many were made or refused."""
    done = 0
    with (
        connect(url, user="root", password="root") as connection,
        XASession(connection) as session,
        psycopg.connect(database) as db,
        Coordinator(decisions) as coordinator,
    ):
        left = coordinator.recover(session, db)
        if left.committed or left.rolled_back:
            print(f"recovered: {left.committed} branches committed, {left.rolled_back} rolled back")
        receipts = session.producer("receipts")
        for message in session.consumer("payments", window=1, timeout_s=patience_s):
            payment = message.body
            assert isinstance(payment, dict)
            try:
                with coordinator.begin(session, db):
                    made = transfer(db, payment)
                    receipts.send({"number": payment["number"], "made": made})
            except CommitUnfinished as error:
                # It is committed here or there, and will be in both: nothing else may be done before.
                sys.exit(f"money: {error}; start the worker again")
            done += 1
    return done


def accounts(database: str) -> None:
    """Print the balances."""
    with psycopg.connect(database) as db:
        for number, balance in db.execute("select number, balance from account order by number"):
            print(f"account {number}: {balance}")


def main(arguments: list[str]) -> int:
    """Run one of the parts. Return the exit status."""
    match arguments:
        case ["setup", database]:
            setup(database)
        case ["pay", count, *rest] if count.isdecimal() and len(rest) <= 1:
            pay(*rest or [URL], int(count))
        case ["work", database, *rest] if len(rest) <= 3:
            url, decisions, patience = [*rest, *[URL, DECISIONS, ""][len(rest) :]]
            count = work(database, url, decisions, float(patience) if patience else None)
            print(f"{count} payments were handled.")
        case ["accounts", database]:
            accounts(database)
        case _:
            usage = "setup DATABASE | pay COUNT | work DATABASE [URL [DECISIONS]] | accounts DATABASE"
            print(f"usage: python -m examples.money {usage}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except (QuorateClientError, psycopg.Error, OSError) as error:
        sys.exit(f"money: {error}")
