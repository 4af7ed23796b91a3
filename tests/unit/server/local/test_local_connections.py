"""Clients in the process of a replica: opening, the end of the mastership, what a former master left."""

from typing import Any

import pytest
from twisted.internet.defer import CancelledError

from quorate import ConnectionLost, ReactionError, Unavailable, local_server
from quorate.agents import connection_manager
from quorate.client import BadUrl
from quorate.client.local.registry import url_server

from .conftest import Account, Balance, Deposit, Place


def local_contexts(place: Place) -> dict[str, str]:
    """The contexts of collocated clients that the cluster has."""
    manager: Any = place.master().node.engine.find(connection_manager(0))
    found: dict[str, str] = manager.agent.local
    return found


def test_a_client_on_the_master_gets_its_answers_and_its_failures(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    connection = place.result(place.open(master))
    place.result(connection.send("alice", Deposit(5)))
    assert place.result(connection.request("alice", Deposit(7), reply=Balance)) == Balance(12)
    with pytest.raises(ReactionError):
        place.result(connection.request("alice", Deposit(-1)))
    place.result(connection.close())
    assert not connection.is_open
    place.net.until(lambda: not local_contexts(place))


def test_a_client_of_a_slave_opens_when_its_replica_becomes_master(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    slaves = place.slaves()
    opening = [place.open(slave) for slave in slaves]
    place.net.advance(1.0)
    assert [each.called for each in opening] == [False, False]
    place.kill(master)
    heir = place.master()
    connection = place.result(opening[slaves.index(heir)])
    assert place.result(connection.request("alice", Deposit(3), reply=Balance)) == Balance(3)
    assert not opening[1 - slaves.index(heir)].called


def test_a_new_master_closes_the_contexts_of_clients_of_the_former_one(place: Place) -> None:
    master = place.master()
    place.result(place.open(master, user="worker"))
    assert list(local_contexts(place).values()) == ["(local) worker"]
    former = set(local_contexts(place))
    place.kill(master)
    heir = place.master()
    place.net.until(lambda: not local_contexts(place))
    assert not any(heir.node.engine.find(each) for each in former)
    # The context of a client of this master is its own.
    place.result(place.open(heir))
    assert len(local_contexts(place)) == 1


def test_a_master_that_is_cut_off_ends_its_connections_and_a_new_one_waits(place: Place) -> None:
    master = place.master()
    connection = place.result(place.open(master))
    waiting = connection.receive()
    place.cut_off(master)
    with pytest.raises(ConnectionLost, match="no longer master"):
        place.result(waiting)
    again = place.open(master)
    place.net.advance(1.0)
    assert not again.called
    again.addErrback(lambda _: None).cancel()


def test_an_opening_that_takes_too_long_names_the_replica_and_its_role(place: Place) -> None:
    place.master()
    slave = place.slaves()[0]
    with pytest.raises(Unavailable, match=f"s0/{slave.context.replica.id} in this process .*it is slave"):
        place.result(place.open(slave, timeout=2))


def test_an_opening_that_is_cancelled_leaves_nothing_behind(place: Place) -> None:
    master = place.master()
    slave = place.slaves()[0]
    opening = place.open(slave)
    place.net.advance(0.1)
    opening.cancel()
    with pytest.raises(CancelledError):
        place.result(opening)
    place.kill(master)
    place.master()
    place.net.advance(1.0)
    manager = place.master().node.engine.find(connection_manager(0))
    assert manager is None


def test_an_opening_ends_when_its_replica_stops(place: Place) -> None:
    place.master()
    slave = place.slaves()[0]
    opening = place.open(slave)
    place.net.advance(0.1)
    slave.stop()
    with pytest.raises(Unavailable, match="has stopped"):
        place.result(opening)
    assert slave.local.name not in [each.local.name for each in place.slaves()]
    with pytest.raises(Unavailable, match="no server s0/"):
        local_server(slave.local.name)


@pytest.mark.parametrize("url", ["local:s0/", "local:s0/x", "local:s 0", "local:s0:1", "local://s0"])
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="local:s0/1"):
        url_server(url)


def test_a_name_that_stands_for_several_replicas_is_refused_with_their_names(place: Place) -> None:
    for url in ("local:", "local:s0"):
        with pytest.raises(Unavailable, match="s0/0, s0/1, s0/2"):
            url_server(url)
    assert url_server("local:s0/1") is place.replicas[1].local


def test_a_listener_is_called_in_the_thread_of_the_server_and_told_the_end(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    connection = place.result(place.open(master))
    got: list[Any] = []
    ends: list[Any] = []
    connection.listen(lambda received: got.append(received.notification), ends.append)
    place.result(connection.send("alice", Deposit(5)))
    assert place.result(connection.request("alice", Deposit(1))) == Balance(6)
    place.result(connection.send("alice", Deposit(-1)))
    place.net.until(lambda: len(got) == 2)
    assert got[0] == Balance(5)
    assert (got[1].error, got[1].message) == ("ValueError", "no debts")
    place.cut_off(master)
    place.net.until(lambda: bool(ends))
    assert isinstance(ends[0], ConnectionLost)
