"""A shop whose orders are charged over HTTP and recorded in PostgreSQL, each once whatever fails.

The service does what agents cannot, as activities. Declare it before the service for clients::

    <service class="examples.payments:Payments" args="http://localhost:8080/charge postgresql:///shop"/>

Then, with running servers::

    quorate deploy a3servers.xml --server s0 examples.payments:Shop --name shop
    python -m examples.payments

The service creates the table ``payments``. The endpoint gets a POST of ``{"order": ..., "amount": ...}`` with
the header ``Idempotency-Key``, and answers with ``{"receipt": ...}``.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import attrs
from twisted.internet.defer import Deferred

from quorate import (
    ActivityCompleted,
    ActivityFailed,
    Agent,
    Context,
    Notification,
    QuorateClientError,
    ReplyTo,
    connect,
    reacts,
)
from quorate.services import (
    ActivityCall,
    ActivityService,
    PermanentError,
    ServiceContext,
    ServiceError,
    activity,
)

CREATE = "create table if not exists payments (key text primary key, buyer_order text, receipt text)"
INSERT = "insert into payments values (:'key', :'order', :'receipt') on conflict (key) do nothing"


@attrs.frozen
class Buy(Notification, name="shop.buy"):
    """Request to buy; answered with `Bought` or `NotBought`."""

    order: str
    amount: int


@attrs.frozen
class Bought(Notification, name="shop.bought"):
    """Answer: the order is charged and recorded."""

    order: str
    receipt: str


@attrs.frozen
class NotBought(Notification, name="shop.not-bought"):
    """Answer: the order cannot be charged, or not be recorded."""

    order: str
    reason: str


@attrs.frozen
class Charge(Notification, name="shop.charge"):
    """Input of the activity ``charge``."""

    order: str
    amount: int


@attrs.frozen
class Charged(Notification, name="shop.charged"):
    """Result of the activity ``charge``."""

    order: str
    receipt: str


@attrs.frozen
class Record(Notification, name="shop.record"):
    """Input of the activity ``record``, which has no result."""

    order: str
    receipt: str


@attrs.define
class Shop(Agent, name="shop.shop"):
    """Orders, and the buyers that wait for them."""

    buyers: dict[str, ReplyTo] = attrs.field(factory=dict[str, ReplyTo])
    receipts: dict[str, str] = attrs.field(factory=dict[str, str])
    """Of the orders that are charged."""
    recorded: list[str] = attrs.field(factory=list[str])
    """The orders that are charged and recorded, in the order in which that became known."""

    @reacts
    def buy(self, ctx: Context, note: Buy) -> None:
        """Have an order charged."""
        if note.order in self.receipts or note.order in self.buyers:
            raise ValueError(f"the order {note.order!r} was placed before; give each order its own name")
        self.buyers[note.order] = ctx.reply_to
        ctx.activity("charge", Charge(note.order, note.amount), key=f"charge {note.order}")

    @reacts
    def completed(self, ctx: Context, note: ActivityCompleted) -> None:
        """Have a charged order recorded; answer when it is."""
        if note.activity == "charge":
            charged = note.result(Charged)
            self.receipts[charged.order] = charged.receipt
            ctx.activity("record", Record(charged.order, charged.receipt), key=f"record {charged.order}")
        else:
            order = note.key.removeprefix("record ")
            self.recorded.append(order)
            ctx.send(self.buyers.pop(order), Bought(order, self.receipts[order]))

    @reacts
    def failed(self, ctx: Context, note: ActivityFailed) -> None:
        """Answer that an order is not charged, or not recorded."""
        order = note.key.partition(" ")[2]
        ctx.send(self.buyers.pop(order), NotBought(order, note.message))


class Payments(ActivityService):
    """Charges at an HTTP endpoint, and records in a database. Arguments: the two addresses."""

    def open(self, ctx: ServiceContext, args: str) -> "Deferred[None]":
        """Create the table. Raises ServiceError if the arguments are not two addresses."""
        try:
            self.endpoint, self.database = args.split()
        except ValueError:
            raise ServiceError(
                'Payments needs two addresses; write args="http://... postgresql://..."'
            ) from None
        self.ctx = ctx
        return ctx.in_thread(self.query, CREATE).addCallback(lambda _: ctx.status("ready"))

    @activity("charge", attempts=10, first_pause_s=0.5, timeout_s=10, concurrency=8)
    def charge(self, call: ActivityCall, note: Charge) -> Charged:
        """Charge an order. A second attempt with the same key is the same charge for the endpoint."""
        request = urllib.request.Request(
            self.endpoint,
            json.dumps({"order": note.order, "amount": note.amount}).encode(),
            {"Content-Type": "application/json", "Idempotency-Key": call.idempotency_key},
        )
        try:
            with urllib.request.urlopen(request, timeout=call.timeout_s) as answer:
                return Charged(note.order, str(json.load(answer)["receipt"]))
        except urllib.error.HTTPError as error:
            if 400 <= error.code < 500:
                raise PermanentError(f"the endpoint refuses: {error.code} {error.reason}") from error
            raise

    @activity("record", attempts=10, first_pause_s=0.5, timeout_s=10, concurrency=4)
    def record(self, call: ActivityCall, note: Record) -> None:
        """Insert a row, unless an earlier attempt has done it: the key is the primary key of the table."""
        self.query(INSERT, key=call.idempotency_key, order=note.order, receipt=note.receipt)

    def query(self, sql: str, **values: str) -> None:
        """Run a statement with ``psql``; a driver such as psycopg does the same with less work."""
        variables = [f"--set={name}={value}" for name, value in values.items()]
        command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *variables, self.database]
        done = subprocess.run(command, input=sql, capture_output=True, text=True, timeout=10, check=False)
        if done.returncode:
            raise OSError(done.stderr.strip() or f"psql has failed with status {done.returncode}")


def main() -> None:
    """Buy something."""
    try:
        with connect("quorate://localhost:2560", user="root", password="root") as connection:
            print(connection.request("shop", Buy("first order", 5), timeout=60))
    except QuorateClientError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
