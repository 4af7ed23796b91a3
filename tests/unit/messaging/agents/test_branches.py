"""Branches of distributed transactions at the manager, through the notifications of clients."""

import pytest

from quorate.agents import Note, Notification, encode, outside
from quorate.messaging.agents.branches import (
    BranchEnded,
    Branches,
    CommitBranch,
    ForgetBranch,
    ListBranches,
    Prepare,
    Prepared,
    RollbackBranch,
    XidParts,
)
from quorate.messaging.agents.manager import MANAGER, MessagingManager
from quorate.messaging.agents.protocol import Reason, Refused, RolledBack

from .clients import Client, Site

XID: XidParts = (1, "transfer", "messages")


@pytest.fixture
def site() -> Site:
    site = Site()
    site.harness.deploy(MessagingManager, name=MANAGER)
    return site


@pytest.fixture
def client(site: Site) -> Client:
    return site.client()


def prepared(site: Site, client: Client) -> str:
    """Prepare a branch that has consumed "in" and published "out", and return the queue."""
    queue = site.queue()
    client.publish(queue, "in")
    client.consume(queue)
    assert client.texts() == ["in"]
    client.settle(queue, 1, transaction=5)
    client.publish(queue, "out", transaction=5)
    assert ask(client, Prepare(XID, 5, [queue], [2])) == Prepared(XID, read_only=False)
    return queue


def ask(client: Client, request: Notification) -> Notification:
    """Ask the manager, and return its answer."""
    client._site.post(client.id, MANAGER, [request])
    kinds = (Prepared, RolledBack, BranchEnded, Branches, Refused)
    (answer,) = [each for kind in kinds for each in client.take(kind)]
    return answer


def administer(site: Site, request: Notification) -> Notification:
    """Send a request of an administrator."""
    effects = site.harness.post(Note(MANAGER, outside(0), request.type_name, encode(request), 9))
    (answer,) = site.harness.decoded(effects.replies)
    site.advance(0)
    return answer


def in_doubt(client: Client) -> list[XidParts]:
    """Return the branches that are listed."""
    found = ask(client, ListBranches())
    assert isinstance(found, Branches)
    return [each.xid for each in found.found]


def test_a_branch_is_committed_from_another_connection_after_its_own_has_ended(
    site: Site, client: Client
) -> None:
    queue = prepared(site, client)
    client.end(queue)
    client.end(MANAGER)
    other = site.client()
    assert in_doubt(other) == [XID]
    assert site.depth(queue) == 1
    assert ask(other, CommitBranch(XID)) == BranchEnded(committed=True)
    other.consume(queue)
    assert other.texts() == ["out"]
    assert in_doubt(other) == []
    # The answer may have been lost: the same question again changes nothing.
    assert ask(other, CommitBranch(XID)) == BranchEnded(committed=True)
    assert other.texts() == []


def test_a_branch_that_is_rolled_back_returns_what_it_had_taken(site: Site, client: Client) -> None:
    queue = prepared(site, client)
    assert ask(client, RollbackBranch(XID)) == BranchEnded(committed=False)
    assert client.messages() == [("in", 1, 1)]
    refused = ask(client, CommitBranch(XID))
    assert isinstance(refused, Refused)
    assert refused.reason == Reason.HEURISTIC
    assert site.depth(queue) == 1


def test_a_destination_that_refuses_rolls_the_branch_back_at_once(site: Site, client: Client) -> None:
    full, other = site.queue("full", max_messages=1, full="reject"), site.queue("other")
    client.publish(full, "there")
    client.publish(full, "a", transaction=5)
    client.publish(other, "b", transaction=5)
    answer = ask(client, Prepare(XID, 5, [full, other], [1, 1]))
    assert isinstance(answer, RolledBack)
    assert "is full" in answer.text
    assert (site.depth(full), site.depth(other)) == (1, 0)
    assert in_doubt(client) == []


def test_a_destination_that_does_not_exist_rolls_the_branch_back(site: Site, client: Client) -> None:
    queue = site.queue()
    client.publish(queue, "a", transaction=5)
    answer = ask(client, Prepare(XID, 5, [queue, "queue:gone"], [1, 1]))
    assert isinstance(answer, RolledBack)
    assert "there is no queue gone" in answer.text
    assert site.depth(queue) == 0


def test_nothing_to_commit_is_said_at_once(client: Client, site: Site) -> None:
    del site
    assert ask(client, Prepare(XID, 5, [], [])) == Prepared(XID, read_only=True)
    assert in_doubt(client) == []


def test_an_identifier_is_used_once(site: Site, client: Client) -> None:
    queue = prepared(site, client)
    client.publish(queue, "second", transaction=6)
    for _ in range(2):
        refused = ask(client, Prepare(XID, 6, [queue], [1]))
        assert isinstance(refused, Refused)
        assert "was prepared already" in refused.text
    ask(client, CommitBranch(XID))
    assert client.texts() == ["out"]


@pytest.mark.parametrize("commit", [True, False])
def test_an_administrator_ends_a_branch_which_is_remembered_until_it_is_forgotten(
    site: Site, client: Client, *, commit: bool
) -> None:
    queue = prepared(site, client)
    request = CommitBranch(XID) if commit else RollbackBranch(XID)
    assert administer(site, request) == BranchEnded(commit)
    assert client.texts() == (["out"] if commit else ["in"])
    assert in_doubt(client) == [XID]
    refused = ask(client, RollbackBranch(XID) if commit else CommitBranch(XID))
    assert isinstance(refused, Refused)
    assert (refused.reason, "by an administrator" in refused.text) == (Reason.HEURISTIC, True)
    assert ask(client, ForgetBranch(XID)) == BranchEnded(commit)
    assert in_doubt(client) == []
    assert site.depth(queue) == 1


@pytest.mark.parametrize("request_", [CommitBranch(XID), RollbackBranch(XID), ForgetBranch(XID)])
def test_a_branch_that_nobody_has_prepared_is_refused(
    site: Site, client: Client, request_: Notification
) -> None:
    del site
    refused = ask(client, request_)
    assert isinstance(refused, Refused)
    assert refused.reason == Reason.NO_SUCH_TRANSACTION


def test_a_branch_in_doubt_is_not_forgotten(site: Site, client: Client) -> None:
    prepared(site, client)
    refused = ask(client, ForgetBranch(XID))
    assert isinstance(refused, Refused)
    assert refused.reason == Reason.IN_DOUBT
