"""The chat of examples/chat_room.py, with simulated servers whose masters are killed."""

import pytest

from examples.chat_room import (
    KEPT_LINES,
    Join,
    Joined,
    Leave,
    Line,
    NotAllowed,
    Room,
    Said,
    Say,
)
from quorate import RequestTimeout
from quorate.testing import SimulatedCluster


@pytest.mark.parametrize("seed", range(4))
def test_members_get_the_same_lines_in_order_while_masters_are_killed(seed: int) -> None:
    with SimulatedCluster(seed=seed) as cluster:
        cluster.create(Room, name="lobby")
        clients = {name: cluster.client(name) for name in ("ann", "bob")}
        for name, client in clients.items():
            assert isinstance(client.request("lobby", Join(name)), Joined)
        for number in range(3, 15):
            said = clients["ann" if number % 2 else "bob"].begin_request("lobby", Say(str(number)))
            if number % 4 == 0:
                cluster.kill_master()
                cluster.restart()
            assert said.result() == Said(number)
        lines = [Line(number, "ann" if number % 2 else "bob", str(number)) for number in range(3, 15)]
        come = [Line(1, "ann", "(has come)"), Line(2, "bob", "(has come)")]
        for name, expected in (("ann", [*come, *lines]), ("bob", [*come[1:], *lines])):
            assert [clients[name].receive().notification for _ in expected] == expected
            with pytest.raises(RequestTimeout):
                clients[name].receive(timeout=5)


def test_a_member_that_leaves_or_whose_connection_ends_is_removed() -> None:
    with SimulatedCluster() as cluster:
        cluster.create(Room, name="lobby")
        ann, bob, cid = (cluster.client(name) for name in ("ann", "bob", "cid"))
        for client in (ann, bob, cid):
            client.request("lobby", Join(client.name), reply=Joined)
        bob.send("lobby", Leave())
        cid.close()
        # The room notices when the next line cannot be delivered.
        ann.request("lobby", Say("hello"), reply=Said)
        lines = [ann.receive().notification for _ in range(6)]
        assert lines[3:] == [
            Line(4, "bob", "(has left)"),
            Line(5, "ann", "hello"),
            Line(6, "cid", "(has left)"),
        ]
        room = cluster.state("lobby")
        assert isinstance(room, Room)
        assert list(room.members.values()) == ["ann"]


def test_what_the_room_does_not_allow_is_refused_with_a_reason() -> None:
    with SimulatedCluster(1) as cluster:
        cluster.create(Room, name="lobby", max_members=1)
        ann, bob = cluster.client("ann"), cluster.client("bob")
        for note, reason in (
            (Say("hello"), "not a member"),
            (Join(" "), "1 to 40 characters"),
            (Join("ann"), ""),
            (Join("anna"), "here as ann"),
            (Say("x" * 2001), "at most 2000"),
        ):
            answer = ann.request("lobby", note)
            assert isinstance(answer, NotAllowed) == bool(reason)
            assert reason in getattr(answer, "reason", "")
        assert "another name" in bob.request("lobby", Join("ann"), reply=NotAllowed).reason
        assert "full" in bob.request("lobby", Join("bob"), reply=NotAllowed).reason


def test_the_room_keeps_and_shows_the_last_lines_only() -> None:
    with SimulatedCluster(1) as cluster:
        cluster.create(Room, name="lobby")
        ann = cluster.client()
        ann.request("lobby", Join("ann"), reply=Joined)
        for number in range(KEPT_LINES + 5):
            ann.send_nowait("lobby", Say(str(number)))
        ann.flush()
        joined = cluster.client().request("lobby", Join("bob"), reply=Joined)
        assert [line.text for line in joined.lines] == [str(number) for number in range(5, KEPT_LINES + 5)]
