"""Messages in transactions of the package transaction."""

from collections.abc import Iterator
from typing import Any

import pytest
import transaction

from quorate import Connection, Servers
from quorate.messaging import Session, TransactionRolledBack, XASession, join_transaction

from .running import BOUND_S
from .test_outbox import XML

pytestmark = pytest.mark.processes


class Other:
    """Another participant, which may refuse."""

    transaction_manager = transaction.manager

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.steps: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def step(_: object) -> None:
            self.steps.append(name)
            if name == "tpc_vote" and self.refuses:
                raise RuntimeError("no")

        return step

    def sortKey(self) -> str:
        """Return the last place."""
        return "z"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    path = tmp_path_factory.mktemp("data_manager") / "a3servers.xml"
    path.write_text(XML.replace('name="answers"', 'name="small" max_messages="1" full="reject"'))
    with Servers(path, free_ports=True) as servers:
        yield servers


@pytest.fixture
def connection(servers: Servers) -> Iterator[Connection]:
    with servers.connect("s0") as connection:
        yield connection


def bodies(connection: Connection, queue: str) -> list[Any]:
    """Return what waits in a queue."""
    with Session(connection, timeout=BOUND_S) as session:
        return [message.body for message in session.browse(queue)]


def test_messages_are_sent_when_all_vote_for_it_and_not_when_one_refuses(connection: Connection) -> None:
    with XASession(connection, timeout=BOUND_S) as session:
        join_transaction(session)
        transaction.get().join(Other())
        session.send("orders", "first")
        assert bodies(connection, "orders") == []
        transaction.commit()
        assert bodies(connection, "orders") == ["first"]
        join_transaction(session)
        transaction.get().join(Other(refuses=True))
        session.send("orders", "second")
        with pytest.raises(RuntimeError, match="no"):
            transaction.commit()
        transaction.abort()
        join_transaction(session)
        session.send("orders", "third")
        transaction.abort()
        assert bodies(connection, "orders") == ["first"]
        assert session.tpc_recover() == []


def test_a_destination_that_refuses_ends_the_whole_transaction(connection: Connection) -> None:
    other = Other()
    with XASession(connection, timeout=BOUND_S) as session:
        for _ in range(2):
            join_transaction(session)
            transaction.get().join(other)
            session.send("small", "too much")
            if bodies(connection, "small"):
                with pytest.raises(TransactionRolledBack, match="is full"):
                    transaction.commit()
                transaction.abort()
            else:
                transaction.commit()
    assert other.steps.count("tpc_finish") == 1
    assert other.steps.count("tpc_abort") == 1
