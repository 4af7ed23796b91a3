"""Connections without a handshake have few places, and cannot keep the others out."""

from quorate.server.network.pending_connections import (
    MAX_KNOWN,
    MAX_KNOWN_PER_ADDRESS,
    MAX_UNKNOWN,
    MAX_UNKNOWN_PER_ADDRESS,
    PendingConnections,
)


def test_one_address_loses_its_own_oldest_connection() -> None:
    pending: PendingConnections[int] = PendingConnections()
    assert pending.add(-1, "b", known=False) is None
    for number in range(MAX_UNKNOWN_PER_ADDRESS):
        assert pending.add(number, "a", known=False) is None
    assert pending.add(100, "a", known=False) == 0
    assert pending.add(101, "a", known=False) == 1
    assert len(pending) == MAX_UNKNOWN_PER_ADDRESS + 1


def test_many_unknown_addresses_lose_the_oldest_of_all() -> None:
    pending: PendingConnections[int] = PendingConnections()
    lost = [pending.add(number, f"a{number}", known=False) for number in range(10_000)]
    assert lost[:MAX_UNKNOWN] == [None] * MAX_UNKNOWN
    assert lost[MAX_UNKNOWN:] == list(range(10_000 - MAX_UNKNOWN))
    assert len(pending) == MAX_UNKNOWN


def test_known_addresses_have_places_that_strangers_cannot_take() -> None:
    pending: PendingConnections[int] = PendingConnections()
    assert pending.add(-1, "known", known=True) is None
    for number in range(10_000):
        assert pending.add(number, f"a{number}", known=False) != -1
    for number in range(1, MAX_KNOWN_PER_ADDRESS):
        assert pending.add(-1 - number, "known", known=True) is None
    assert pending.add(-1000, "known", known=True) == -1


def test_known_addresses_together_are_bounded_too() -> None:
    pending: PendingConnections[int] = PendingConnections()
    for number in range(1000):
        pending.add(number, f"k{number}", known=True)
    assert len(pending) == MAX_KNOWN


def test_a_place_that_is_freed_is_used_again() -> None:
    pending: PendingConnections[int] = PendingConnections()
    for number in range(1000):
        assert pending.add(number, "a", known=False) is None
        pending.remove(number)
        pending.remove(number)
    assert len(pending) == 0
