"""An account that several clients may use at the same time.

Deploy it on running servers, then talk to it::

    quorate up a3servers.xml
    quorate deploy a3servers.xml --server s0 examples.bank:Account --name alice
    python -m examples.bank
"""

import sys

import attrs

from quorate import Agent, Context, Notification, QuorateClientError, connect, reacts


@attrs.frozen
class Deposit(Notification):
    """Request to deposit money; a negative amount withdraws it."""

    amount: int


@attrs.frozen
class Balance(Notification):
    """Answer to `Deposit`: the amount in the account."""

    amount: int


@attrs.define
class Account(Agent):
    """A bank account; its state is one number."""

    balance: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        """Add the amount and answer with the balance. Raises ValueError if it would be negative."""
        if self.balance + note.amount < 0:
            raise ValueError(f"the balance is {self.balance}")
        self.balance += note.amount
        ctx.send(ctx.sender, Balance(self.balance))


def main() -> None:
    """Deposit twice; whichever replica is master answers."""
    url = "quorate://localhost:2560,localhost:2561,localhost:2562"
    try:
        with connect(url, user="root", password="root") as connection:
            connection.send("alice", Deposit(5))
            print(connection.request("alice", Deposit(7), reply=Balance, timeout=5))
    except QuorateClientError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
