"""Peers of another cluster, and masters that have lost entries."""

from typing import Any

import attrs
import pytest

from quorate.hachannel.model.messages import Heartbeat
from quorate.hachannel.model.view import Seat, View, ViewNumber, Voter
from quorate.hachannel.replication.lineage import forgetful_master, is_foreign, successor
from quorate.hachannel.replication.peers import Link

NUMBER = ViewNumber(3, 0, 1)
LATER = ViewNumber(4, 1, 1)


def heartbeat(lineage: Voter | None = None, *, founded: bool = True, **values: Any) -> Heartbeat:
    said: dict[str, Any] = {
        "view": NUMBER,
        "promised": NUMBER,
        "active": True,
        "member": True,
        "master": True,
        "founded": founded,
        "exit": False,
        "commit": 5,
        "last": 5,
        "applied": 5,
        "trim": 0,
        "stable": 5,
        "lineage": lineage,
    }
    return Heartbeat(**{**said, **values})


def view(lineage: Voter | None = None) -> View:
    voters = (Voter(0, 1), Voter(1, 1))
    return View(NUMBER, voters, voters, 2, 0, seats=(Seat(0), Seat(1)), lineage=lineage)


def link(said: Heartbeat | None, **values: Any) -> Link:
    return attrs.evolve(Link(1, 0.0, connected=True, heartbeat=said), **values)


def test_a_peer_of_another_lineage_is_foreign() -> None:
    assert is_foreign(heartbeat(Voter(1, 7)), view(), founded=True)
    assert not is_foreign(heartbeat(Voter(1, 7)), view(Voter(1, 7)), founded=True)


@pytest.mark.parametrize(
    ("said", "mine", "founded"),
    [
        (None, view(), True),
        (heartbeat(Voter(1, 7)), None, True),
        (heartbeat(Voter(1, 7)), view(), False),
        (heartbeat(Voter(1, 7), founded=False), view(), True),
    ],
)
def test_no_peer_is_foreign_before_both_have_a_cluster(
    said: Heartbeat | None, mine: View | None, founded: bool
) -> None:
    assert not is_foreign(said, mine, founded=founded)


def test_a_cluster_begun_again_later_from_one_of_its_replicas_succeeds() -> None:
    other = link(heartbeat(Voter(1, 7)), foreign=True)
    assert successor([other], view()) == 1
    assert successor([other], view(Voter(0, 6))) == 1
    assert successor([other], view(Voter(0, 8))) is None


@pytest.mark.parametrize(
    "other",
    [
        link(heartbeat(Voter(1, 7))),
        link(heartbeat(Voter(1, 7)), foreign=True, connected=False),
        link(heartbeat(Voter(9, 7)), foreign=True),
        link(None, foreign=True),
    ],
)
def test_no_other_cluster_succeeds(other: Link) -> None:
    assert successor([other], view()) is None


def test_a_master_of_a_later_view_without_committed_entries_is_forgetful() -> None:
    master = link(heartbeat(view=LATER, last=4))
    assert forgetful_master([master], NUMBER, 5) is master


@pytest.mark.parametrize(
    "other",
    [
        link(None),
        link(heartbeat(view=LATER, last=5)),
        link(heartbeat(view=NUMBER, last=4)),
        link(heartbeat(view=LATER, last=4, master=False)),
        link(heartbeat(view=LATER, last=4, active=False)),
        link(heartbeat(view=LATER, last=4), foreign=True),
    ],
)
def test_no_other_master_is_forgetful(other: Link) -> None:
    assert forgetful_master([other], NUMBER, 5) is None
