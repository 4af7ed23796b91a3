r"""Orders over three servers: a shop with three replicas, a stock server and a billing server.

Start the servers, create an agent on each of them, and buy something::

    quorate up examples/orders.xml

    quorate deploy examples/orders.xml --server stock examples.orders:Stock --name stock \
        --state '{"free": {"apples": 100}}'
    quorate deploy examples/orders.xml --server billing examples.orders:Billing --name billing \
        --state '{"accounts": {"ann": 500}}'
    quorate deploy examples/orders.xml --server shop examples.orders:Shop --name shop \
        --state '{"prices": {"apples": 30}, "pay_within_s": 5}'
    python -m examples.orders

The program places two orders and pays one of them. That one is shipped; the other one expires after 5 s. Kill
the master of the shop meanwhile, ``kill -9 $(cat examples/data/shop/0/pid)``: the next one goes on. ``quorate
stop examples/orders.xml`` stops the servers; their data are in ``examples/data``.

The shop reserves at the stock, and sets a timer for the payment. A paid order is charged at billing, then
shipped. An order that is not paid in time is released at the stock. Notifications between servers arrive
exactly once and in order, and timers survive the master, so no step needs to be tried again.
"""

import enum
import sys
from queue import SimpleQueue

import attrs

from quorate import (
    Agent,
    AgentId,
    Connection,
    ConnectionClosed,
    Context,
    Notification,
    QuorateClientError,
    ReplyTo,
    UnknownAgent,
    connect,
    reacts,
)
from quorate.client import Received

URL = "quorate://localhost:2570,localhost:2571,localhost:2572"
STOCK = "stock@stock"
BILLING = "billing@billing"


class Phase(enum.Enum):
    """Phase of an order. The last four are its ends."""

    RESERVING = "reserving"
    UNPAID = "unpaid"
    CHARGING = "charging"
    SHIPPING = "shipping"
    SHIPPED = "shipped"
    EXPIRED = "expired"
    DECLINED = "declined"
    OUT_OF_STOCK = "out of stock"


# Between customers and the shop.


@attrs.frozen
class PlaceOrder(Notification, name="orders.place"):
    """Request for an order; answered with `Placed` or `Refused` when the stock has answered."""

    item: str
    quantity: int


@attrs.frozen
class Placed(Notification, name="orders.placed"):
    """Answer: the items are reserved until the order is paid, for so many seconds since it was placed."""

    order: int
    price: int
    pay_within_s: float


@attrs.frozen
class PayOrder(Notification, name="orders.pay"):
    """Payment for an order; answered with `Paid` or `Refused`. The client that pays is told what follows."""

    order: int
    account: str


@attrs.frozen
class Paid(Notification, name="orders.paid"):
    """Answer: the account was charged. `OrderEnded` follows when the order is shipped."""

    order: int


@attrs.frozen
class Refused(Notification, name="orders.refused"):
    """Answer: an order was not placed, or was not paid and has ended."""

    reason: str


@attrs.frozen
class OrderEnded(Notification, name="orders.ended"):
    """Notification to the client of an order that was shipped, or has expired. It answers no request."""

    order: int
    phase: Phase


@attrs.frozen
class AskOrder(Notification, name="orders.ask"):
    """Request for the phase of an order; answered with `OrderPhase`."""

    order: int


@attrs.frozen
class OrderPhase(Notification, name="orders.phase"):
    """Answer to `AskOrder`."""

    order: int
    phase: Phase


# Between the shop, the stock and billing.


@attrs.frozen
class Reserve(Notification, name="orders.reserve"):
    """Request to reserve items; answered with `Reserved` or `OutOfStock`."""

    order: int
    item: str
    quantity: int


@attrs.frozen
class Reserved(Notification, name="orders.reserved"):
    """Answer: the items are kept for the order until `Release` or `Ship`."""

    order: int


@attrs.frozen
class OutOfStock(Notification, name="orders.out-of-stock"):
    """Answer: there are not so many items."""

    order: int


@attrs.frozen
class Release(Notification, name="orders.release"):
    """Command to put what is reserved for an order back."""

    order: int


@attrs.frozen
class Ship(Notification, name="orders.ship"):
    """Command to ship what is reserved for an order; answered with `Shipped`."""

    order: int


@attrs.frozen
class Shipped(Notification, name="orders.shipped"):
    """Answer: the items have left the stock."""

    order: int


@attrs.frozen
class Charge(Notification, name="orders.charge"):
    """Request to take money from an account; answered with `Charged` or `Declined`."""

    order: int
    account: str
    amount: int


@attrs.frozen
class Charged(Notification, name="orders.charged"):
    """Answer: the money is taken."""

    order: int


@attrs.frozen
class Declined(Notification, name="orders.declined"):
    """Answer: the account has not enough money, or does not exist."""

    order: int
    reason: str


# The timers of the shop.


@attrs.frozen
class PaymentDue(Notification, name="orders.payment-due"):
    """Timer: an order that is not paid by now expires."""

    order: int


@attrs.frozen
class ForgetOrder(Notification, name="orders.forget"):
    """Timer: an order that has ended long ago is forgotten."""

    order: int


@attrs.define
class Order:
    """An order, as the shop keeps it."""

    customer: AgentId
    """The client that is told how the order ends."""
    price: int
    request: ReplyTo
    """The latest request of the client about the order, to be answered."""
    timer: int
    """The timer for the payment."""
    phase: Phase = Phase.RESERVING


@attrs.define
class Shop(Agent, name="orders.shop"):
    """Takes orders from customers to their ends."""

    prices: dict[str, int]
    pay_within_s: float = 900.0
    """Time from placing an order until it expires."""
    keep_s: float = 3600.0
    """Time for which the phase of an order that has ended can be asked for."""
    max_orders: int = 1000
    """Orders that are kept, with those that have ended. When there are so many, no other one is placed."""
    placed: int = 0
    orders: dict[int, Order] = attrs.field(factory=dict[int, Order])
    charging: list[int] = attrs.field(factory=list[int])
    """Orders that billing has not answered about, in the order in which it was asked."""

    @reacts
    def place(self, ctx: Context, note: PlaceOrder) -> None:
        """Reserve at the stock, and set the timer for the payment."""
        if note.item not in self.prices or note.quantity < 1:
            ctx.send(ctx.sender, Refused(f"{note.quantity} of {note.item!r} cannot be bought here"))
        elif len(self.orders) >= self.max_orders:
            ctx.send(ctx.sender, Refused("the shop has too many orders; try again later"))
        else:
            self.placed += 1
            price = self.prices[note.item] * note.quantity
            timer = ctx.timer(self.pay_within_s, PaymentDue(self.placed))
            self.orders[self.placed] = Order(ctx.sender, price, ctx.reply_to, timer)
            ctx.send(STOCK, Reserve(self.placed, note.item, note.quantity))

    @reacts
    def reserved(self, ctx: Context, note: Reserved) -> None:
        """Tell the customer; release what was reserved too late."""
        order = self.orders.get(note.order)
        if order is not None and order.phase is Phase.RESERVING:
            order.phase = Phase.UNPAID
            ctx.send(order.request, Placed(note.order, order.price, self.pay_within_s))
        else:
            ctx.send(STOCK, Release(note.order))

    @reacts
    def out_of_stock(self, ctx: Context, note: OutOfStock) -> None:
        """End the order, unless it has expired meanwhile."""
        order = self.orders.get(note.order)
        if order is not None and order.phase is Phase.RESERVING:
            ctx.cancel(order.timer)
            ctx.send(order.request, Refused("there is not so much in stock"))
            self._end(ctx, note.order, Phase.OUT_OF_STOCK)

    @reacts
    def pay(self, ctx: Context, note: PayOrder) -> None:
        """Have the account charged. From now on the order does not expire."""
        order = self._order(note.order)
        if order.phase is not Phase.UNPAID:
            ctx.send(ctx.sender, Refused(f"order {note.order} is {order.phase.value}"))
            return
        ctx.cancel(order.timer)
        order.phase, order.customer, order.request = Phase.CHARGING, ctx.sender, ctx.reply_to
        self.charging.append(note.order)
        ctx.send(BILLING, Charge(note.order, note.account, order.price))

    @reacts
    def charged(self, ctx: Context, note: Charged) -> None:
        """Tell the customer, and have the order shipped."""
        self.charging.remove(note.order)
        order = self.orders[note.order]
        order.phase = Phase.SHIPPING
        ctx.send(order.request, Paid(note.order))
        ctx.send(STOCK, Ship(note.order))

    @reacts
    def declined(self, ctx: Context, note: Declined) -> None:
        """End the order, and release what is reserved."""
        self.charging.remove(note.order)
        ctx.send(self.orders[note.order].request, Refused(note.reason))
        ctx.send(STOCK, Release(note.order))
        self._end(ctx, note.order, Phase.DECLINED)

    @reacts
    def shipped(self, ctx: Context, note: Shipped) -> None:
        """Tell the customer; the order has ended well."""
        self._end(ctx, note.order, Phase.SHIPPED)
        ctx.send(self.orders[note.order].customer, OrderEnded(note.order, Phase.SHIPPED))

    @reacts
    def payment_due(self, ctx: Context, note: PaymentDue) -> None:
        """Let an order that is not paid expire, and tell the customer."""
        order = self.orders.get(note.order)
        if order is None or order.phase not in (Phase.RESERVING, Phase.UNPAID):
            return
        if order.phase is Phase.UNPAID:
            ctx.send(STOCK, Release(note.order))
            ctx.send(order.customer, OrderEnded(note.order, Phase.EXPIRED))
        else:
            # The answer of the stock is still to come: `reserved` releases the items then.
            ctx.send(order.request, Refused("the stock has not answered in time"))
        self._end(ctx, note.order, Phase.EXPIRED)

    @reacts
    def forget(self, _: Context, note: ForgetOrder) -> None:
        """Forget an order that has ended."""
        del self.orders[note.order]

    @reacts
    def ask(self, ctx: Context, note: AskOrder) -> None:
        """Answer with the phase of an order."""
        ctx.send(ctx.sender, OrderPhase(note.order, self._order(note.order).phase))

    @reacts
    def unknown_agent(self, ctx: Context, note: UnknownAgent) -> None:
        """Decline what cannot be charged. Log that an agent is missing, unless it is a client that left."""
        if note.type == Charge.type_name:
            # Billing, or its server in its place, answers in order.
            self.declined(ctx, Declined(self.charging[0], "there is no billing at present"))
        if note.type in (Charge.type_name, Reserve.type_name, Ship.type_name, Release.type_name):
            ctx.log(f"there is no agent {note.agent} for {note.type}; deploy it")

    def _order(self, number: int) -> Order:
        if number not in self.orders:
            raise ValueError(f"there is no order {number}, or it has ended more than {self.keep_s:g} s ago")
        return self.orders[number]

    def _end(self, ctx: Context, number: int, phase: Phase) -> None:
        self.orders[number].phase = phase
        ctx.timer(self.keep_s, ForgetOrder(number))


@attrs.define
class Reservation:
    """Items that are kept for an order."""

    item: str
    quantity: int


@attrs.define
class Stock(Agent, name="orders.stock"):
    """Items: free, reserved for an order, or shipped. Their sum does not change."""

    free: dict[str, int]
    reserved: dict[int, Reservation] = attrs.field(factory=dict[int, Reservation])
    shipped: dict[str, int] = attrs.field(factory=dict[str, int])

    @reacts
    def reserve(self, ctx: Context, note: Reserve) -> None:
        """Keep items for an order, if there are enough."""
        if self.free.get(note.item, 0) < note.quantity:
            ctx.send(ctx.sender, OutOfStock(note.order))
            return
        self.free[note.item] -= note.quantity
        self.reserved[note.order] = Reservation(note.item, note.quantity)
        ctx.send(ctx.sender, Reserved(note.order))

    @reacts
    def release(self, _: Context, note: Release) -> None:
        """Put items back."""
        kept = self.reserved.pop(note.order)
        self.free[kept.item] += kept.quantity

    @reacts
    def ship(self, ctx: Context, note: Ship) -> None:
        """Let items leave the stock."""
        kept = self.reserved.pop(note.order)
        self.shipped[kept.item] = self.shipped.get(kept.item, 0) + kept.quantity
        ctx.send(ctx.sender, Shipped(note.order))


@attrs.define
class Billing(Agent, name="orders.billing"):
    """Money: of the accounts, or taken. Its sum does not change."""

    accounts: dict[str, int]
    taken: int = 0

    @reacts
    def charge(self, ctx: Context, note: Charge) -> None:
        """Take money from an account, if there is enough."""
        if self.accounts.get(note.account, 0) < note.amount:
            ctx.send(ctx.sender, Declined(note.order, f"{note.account!r} cannot pay {note.amount}"))
            return
        self.accounts[note.account] -= note.amount
        self.taken += note.amount
        ctx.send(ctx.sender, Charged(note.order))


def buy(connection: Connection, account: str | None) -> bool:
    """Place an order, and pay it if there is an account. Return whether the shop will tell how it ends."""
    placed = connection.request("shop", PlaceOrder("apples", 2), reply=(Placed, Refused))
    print(placed, flush=True)
    if not isinstance(placed, Placed) or account is None:
        return isinstance(placed, Placed)
    paid = connection.request("shop", PayOrder(placed.order, account), reply=(Paid, Refused))
    print(paid, flush=True)
    return isinstance(paid, Paid)


def main(url: str = URL) -> None:
    """Place two orders, pay the first one only, and print how they end."""
    news: SimpleQueue[Received | QuorateClientError | None] = SimpleQueue()
    try:
        with connect(url, user="root", password="root") as connection:
            connection.listen(news.put, news.put)
            for account in ("ann", None):
                if buy(connection, account):
                    latest = news.get()
                    if not isinstance(latest, Received):
                        raise latest or ConnectionClosed("the connection was closed")
                    print(latest.notification, flush=True)
    except QuorateClientError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:2])
