"""Notifications that threads of a process send to agents: committed, dropped, or unknown."""

from concurrent.futures import Future
from typing import Any

import pytest

from quorate import DirectSend, ReactionError, Unavailable, UnknownAgentError
from quorate.server.local import direct_sends

from .conftest import Account, Deposit, Place


def outcome(place: Place, future: "Future[DirectSend]") -> DirectSend:
    place.net.until(future.done)
    return future.result()


def balance(place: Place) -> int:
    account: Any = place.master().node.engine.find("alice")
    return int(account.agent.balance)


def test_a_master_commits_and_a_slave_drops(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    assert outcome(place, master.local.direct_send_to("alice", Deposit(5))) is DirectSend.COMMITTED
    for slave in place.slaves():
        assert outcome(place, slave.local.direct_send_to("alice", Deposit(100))) is DirectSend.DROPPED
    place.net.advance(0.5)
    assert balance(place) == 5


def test_the_outcome_is_unknown_if_the_mastership_ends_before_the_commit(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    place.cut_off(master)
    sent = master.local.direct_send_to("alice", Deposit(5))
    assert outcome(place, sent) is DirectSend.UNKNOWN
    assert not master.local.is_master
    assert outcome(place, master.local.direct_send_to("alice", Deposit(5))) is DirectSend.DROPPED


def test_failures_in_the_agent_are_raised_by_the_future(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    with pytest.raises(ReactionError, match="no debts"):
        outcome(place, master.local.direct_send_to("alice", Deposit(-1)))
    with pytest.raises(UnknownAgentError, match="bob"):
        outcome(place, master.local.direct_send_to("bob", Deposit(1)))


def test_what_cannot_be_sent_is_refused_at_once(place: Place) -> None:
    master = place.master()
    wrong: Any = (3, "alice")
    for to, notification in ((3, Deposit(1)), ("alice", wrong)):
        with pytest.raises((TypeError, ValueError)):
            master.local.direct_send_to(to, notification)  # type: ignore[arg-type]
    place.kill(master)
    with pytest.raises(Unavailable, match="has stopped"):
        master.local.direct_send_to("alice", Deposit(1))


def test_threads_that_wait_for_no_outcome_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_sends, "MAX_DIRECT_SENDS", 3)
    master = place.master()
    place.deploy(master, Account, "alice")
    sent = [master.local.direct_send_to("alice", Deposit(1)) for _ in range(3)]
    with pytest.raises(Unavailable, match="wait for some"):
        master.local.direct_send_to("alice", Deposit(1))
    for each in sent:
        assert outcome(place, each) is DirectSend.COMMITTED
    assert outcome(place, master.local.direct_send_to("alice", Deposit(1))) is DirectSend.COMMITTED


def test_what_waits_for_room_in_the_server_is_sent_later_or_dropped_with_the_mastership(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    queue = master.node._mastership.queue
    queue.full = True
    held = master.local.direct_send_to("alice", Deposit(2))
    place.net.advance(0.2)
    assert not held.done()
    queue.full = False
    assert outcome(place, held) is DirectSend.COMMITTED
    queue.full = True
    held = master.local.direct_send_to("alice", Deposit(2))
    place.net.advance(0.1)
    place.cut_off(master)
    assert outcome(place, held) is DirectSend.DROPPED
