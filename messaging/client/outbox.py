"""Outbox and inbox: messages and a database without two-phase commit, exactly once by identifiers.

A program writes what it wants to send into a table of its database, in the transaction that changes the rest
of it; later it sends what is in the table, each message with an identifier that the destination takes once.
On the other side, the identifier of a received message goes into a table in the transaction that handles it.
SQLite and PostgreSQL are known; others work if their driver has the parameters ``?`` or ``%s``.
"""

import base64
import json
import time
import uuid
from typing import Any, Final

from .blocking import Session
from .bodies import Body, Encoded, encode_body
from .destinations import Destination, address_of, named
from .message import Message
from .session_base import MessageOptions
from .tracing import tracer

__all__ = ["Inbox", "Outbox"]

_BATCH: Final = 500
"""Messages that `Outbox.forward` reads, sends and removes at a time."""


class _Table:
    """A table of a database, through a connection of DB-API 2.0."""

    def __init__(self, database: Any) -> None:
        self._db = database
        bases = type(database).__mro__
        self._sqlite = any(base.__module__.partition(".")[0] in ("sqlite3", "_sqlite3") for base in bases)

    def _run(self, statement: str, *values: Any) -> Any:
        """Execute a statement, whose parameters are written as ``?``. Return the cursor."""
        cursor = self._db.cursor()
        cursor.execute(statement if self._sqlite else statement.replace("?", "%s"), values)
        return cursor


class Outbox(_Table):
    """Messages that are to be sent, in the table ``quorate_outbox`` of a database.

    ::

        outbox = Outbox(database)
        outbox.create()                                # once
        database.execute("insert into orders ...")
        outbox.put("orders", {"id": 7})
        database.commit()                              # both, or none
        outbox.forward(session)                        # now, later, or in another program

    One program at a time forwards; it may be killed at any moment.
    """

    def create(self) -> None:
        """Make the table unless it exists, and commit."""
        number = "integer primary key autoincrement" if self._sqlite else "bigserial primary key"
        self._run(
            f"create table if not exists quorate_outbox (number {number}, id text not null, "
            "destination text not null, encoding text, body text not null, options text not null)"
        )
        self._db.commit()

    def put(self, destination: Destination | str, body: Body, **options: Any) -> None:
        """Add a message, in the present transaction of the database. options: see `MessageOptions`.

        Raises TypeError or ValueError for what cannot be sent.
        """
        if "duplicate_id" in options:
            raise TypeError("a message of an outbox has a duplicate_id of its own; leave it out")
        reply_to = options.pop("reply_to", None)
        if reply_to is not None:
            options["reply_to"] = named(reply_to).address
        following = tracer()
        if following is not None:
            options["properties"] = {**options.get("properties", {}), **following.put_off()}
        MessageOptions(**_restored(options)).columns()
        encoding, data = encode_body(body)
        self._run(
            "insert into quorate_outbox (id, destination, encoding, body, options) values (?, ?, ?, ?, ?)",
            uuid.uuid4().hex,
            named(destination).address,
            encoding,
            base64.b64encode(data).decode(),
            json.dumps(options),
        )

    def forward(self, session: Session) -> int:
        """Send all messages in the order in which they were put, and return how many there were.

        Each is removed, and the removal committed, when its destination has it. If that fails in between, a
        message is sent once more with the same identifier, which its destination then drops. The connection
        of the database must have no transaction under way, and the session none at all.
        """
        if session.transacted:
            raise ValueError("an outbox is forwarded by a session without transactions")
        count = 0
        while True:
            rows = self._run(
                "select number, id, destination, encoding, body, options from quorate_outbox "
                "order by number limit ?",
                _BATCH,
            ).fetchall()
            if not rows:
                self._db.commit()
                return count
            producers: dict[str, Any] = {}
            for _, identity, address, encoding, body, options in rows:
                if address not in producers:
                    producers[address] = session.producer(address_of(address))
                given = {**_restored(json.loads(options)), "duplicate_id": identity}
                producers[address].send_nowait(Encoded(encoding, base64.b64decode(body)), **given)
            for producer in producers.values():
                producer.flush()
            self._run("delete from quorate_outbox where number <= ?", rows[-1][0])
            self._db.commit()
            count += len(rows)


def _restored(options: dict[str, Any]) -> dict[str, Any]:
    reply_to = options.get("reply_to")
    return options if reply_to is None else {**options, "reply_to": address_of(reply_to)}


class Inbox(_Table):
    """Identifiers of messages that were handled, in the table ``quorate_inbox`` of a database.

    ::

        for message in session.consumer("orders"):     # a session with Ack.CLIENT or Ack.INDIVIDUAL
            if inbox.is_new(message):
                database.execute("update stock ...")
            database.commit()
            message.ack()
    """

    def create(self) -> None:
        """Make the table unless it exists, and commit."""
        self._run(
            "create table if not exists quorate_inbox (id text primary key, at double precision not null)"
        )
        self._db.commit()

    def is_new(self, message: Message) -> bool:
        """Return whether a message was not handled before, and remember it in the present transaction."""
        cursor = self._run(
            "insert into quorate_inbox (id, at) values (?, ?) on conflict do nothing", message.id, time.time()
        )
        return bool(cursor.rowcount)

    def forget(self, older_than_s: float) -> int:
        """Forget what was handled before so many seconds, and commit. Return how many there were.

        Choose a time in which each message is acknowledged, also after failures: a week, for example.
        """
        cursor = self._run("delete from quorate_inbox where at < ?", time.time() - older_than_s)
        self._db.commit()
        return int(cursor.rowcount)
