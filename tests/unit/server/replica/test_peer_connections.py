"""What a replica says of others with which it does not get on."""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from quorate.server.config import Network, Replica, Server
from quorate.server.network.handshake import NONCE_BYTES, SECRET, Acceptor
from quorate.server.network.hello import CHANNEL
from quorate.server.replica.peer_connections import CALLED_S, OTHER_FILE, STRANGER, PeerConnections

REASON = f"The {SECRET} of the two sides differs; mend it."


@pytest.fixture
def told() -> list[str]:
    """Lines for whoever has started the replica."""
    return []


@pytest.fixture
def side(told: list[str]) -> PeerConnections:
    """The side of the peers of replica 0, a slave."""
    replicas = tuple(Replica(id, "h", networks=(Network("D1", "h", id + 1),)) for id in range(3))
    driver: Any = SimpleNamespace(
        node=SimpleNamespace(
            role="slave", connected=None, disconnected=None, channel=SimpleNamespace(bar_founding=lambda: 0)
        ),
        call=lambda *_: None,
    )
    context: Any = SimpleNamespace(
        server=Server(0, "s0", True, replicas),
        replica=replicas[0],
        announce=told.append,
        reactor=Clock(),
        config=SimpleNamespace(digest="d"),
        settings=SimpleNamespace(secret=None),
        incarnation=1,
    )
    return PeerConnections(context, driver)


def test_replicas_that_refuse_for_one_reason_are_named_in_one_sentence(side: PeerConnections) -> None:
    assert side.turned_away == ""
    side._refused(2, REASON)
    side._refused(1, REASON)
    assert side.turned_away == f"no connection with replicas 1, 2: {REASON[:-1]}"
    side.peer_up(2, 1)
    assert side.turned_away == f"no connection with replica 1: {REASON[:-1]}"


def test_that_a_cluster_does_not_know_this_replica_is_said_first(side: PeerConnections) -> None:
    side._refused(1, REASON)
    side._refused(2, f"Replica 0 {STRANGER} s0.")
    assert side.turned_away == f"Replica 0 {STRANGER} s0"


def test_a_replica_that_serves_tells_once_of_another_secret_or_file(
    side: PeerConnections, told: list[str]
) -> None:
    for _ in range(3):
        side._refused(1, REASON)
    side._refused(2, f"Replica 2 {OTHER_FILE} replica 0 of s0.")
    side._refused(2, "Replica 2 is about to join again.")
    assert [line[:30] for line in told] == [f"no connection with replica {id}: T"[:30] for id in (1, 2)]


def test_a_replica_that_waits_says_it_as_the_reason_and_tells_it_when_it_serves(
    side: PeerConnections, told: list[str]
) -> None:
    side._driver.node.role = "joining"  # type: ignore[misc]
    side._refused(1, REASON)
    assert told == []
    side._driver.node.role = "slave"  # type: ignore[misc]
    side._refused(1, REASON)
    assert len(told) == 1


def test_one_that_runs_elsewhere_than_the_file_says_is_told_from_one_that_is_down(
    side: PeerConnections,
) -> None:
    side.peer_unreachable(1, "Connection was refused by other side: 111.")
    assert side.turned_away == ""
    side.called(1)
    side.peer_unreachable(1, "Connection was refused by other side: 111.")
    side.peer_unreachable(1, "Connection was refused by other side: 111.")
    assert side.turned_away.startswith(
        "no connection with replica 1: it runs, and nobody listens at h:2, where this replica looks for it; "
        "give all replicas the same file"
    )
    assert side.mute == set()
    side._context.reactor.advance(CALLED_S)
    side.peer_unreachable(1, "Connection was refused by other side: 111.")
    assert side.turned_away == "", "it has not called for long"


def test_one_whose_host_name_does_not_resolve_is_known_until_it_is_reached(side: PeerConnections) -> None:
    side.peer_unreachable(1, "DNS lookup failed: no-such-host.")
    assert (side.mute, side.astray) == ({1}, {1})
    side.peer_unreachable(1, "User timeout caused connection failure.")
    assert (side.mute, side.astray) == ({1}, set())


def test_one_that_answers_and_does_not_come_back_does_not_find_this_replica(side: PeerConnections) -> None:
    acceptor = Acceptor(lambda _: {}, secret=None, nonce=bytes(NONCE_BYTES), loopback=True)
    shaking = side._handshake(1, True)
    shaking.receive(acceptor.receive(shaking.first)[0])
    assert shaking.done
    assert acceptor.peer is not None
    assert acceptor.peer.purpose == CHANNEL
    assert side.turned_away == (
        "no connection with replica 1: an answer comes, but no connection to this replica at h:1; "
        "give all replicas the same file, or mend the network"
    )
    side.peer_up(1, 1)
    assert side.turned_away == ""
    shaking = side._handshake(1, False)
    acceptor = Acceptor(lambda _: {}, secret=None, nonce=bytes(NONCE_BYTES), loopback=True)
    shaking.receive(acceptor.receive(shaking.first)[0])
    assert side.turned_away == ""
