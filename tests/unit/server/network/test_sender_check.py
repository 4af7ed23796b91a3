"""Another server can send in its own name, and in that of servers behind it."""

from pathlib import Path

import pytest

from quorate.agents import (
    AgentId,
    Create,
    Delete,
    ListAgents,
    Note,
    Pause,
    RefuseCreate,
    Resume,
    UnknownAgent,
    connection_manager,
    factory,
    outside,
)
from quorate.agents.manager import Open
from quorate.agents.proxy import ConnectionEnded
from quorate.server.config import load
from quorate.server.network.rate_limit import LOG_LINES
from quorate.server.network.sender_check import REFUSED_TYPE, SenderCheck

HERE = 1
DOMAINS = {1: "A", 2: "A B", 3: "B", 4: "B C", 5: "C", 6: "A", 7: "A D", 8: "D"}
"""Server 1 reaches 2, 6 and 7 directly; 3, 4 and 5 are behind 2, and 8 is behind 7."""


class Rig:
    def __init__(self, place: Path) -> None:
        path = place / "a3servers.xml"
        declared = "".join(f'<domain name="{name}"/>' for name in "ABCD")
        servers = "".join(
            f'<server id="{id}" hostname="localhost">'
            + "".join(f'<network domain="{name}" port="{id * 100 + ord(name)}"/>' for name in names.split())
            + "</server>"
            for id, names in DOMAINS.items()
        )
        path.write_text(f"<config>{declared}{servers}</config>")
        self.lines: list[str] = []
        self.counts: list[str] = []
        self.check = SenderCheck(load(path), HERE, self.lines.append, self.counts.append)

    def accepts(self, neighbour: int, note: Note) -> bool:
        (found,) = self.check.screened(0.0, neighbour, [note])
        return found is note


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def note(server: int, to: AgentId | str = "alice", type: str = "t") -> Note:
    return Note(to, AgentId(server, server, 1025), type, b"")


@pytest.mark.parametrize(("neighbour", "servers"), [(2, {2, 3, 4, 5}), (6, {6}), (7, {7, 8})])
def test_a_neighbour_speaks_for_itself_and_for_the_servers_behind_it(
    rig: Rig, neighbour: int, servers: set[int]
) -> None:
    assert {server for server in range(10) if rig.accepts(neighbour, note(server))} == servers


def test_a_refused_notification_is_named_and_replaced_by_one_for_nobody(rig: Rig) -> None:
    good, forged = note(2), note(6, "alice", "bank:Pay")
    found = rig.check.screened(0.0, 2, [good, forged, good])
    assert found == [good, Note(outside(HERE), outside(2), REFUSED_TYPE, b""), good]
    assert rig.counts == ["refused_notifications"]
    (line,) = rig.lines
    for word in ("server 2 sent 'bank:Pay' from #6.6.1025 to 'alice'", "refused"):
        assert word in line


def test_many_refused_notifications_write_few_lines(rig: Rig) -> None:
    rig.check.screened(0.0, 2, [note(6)] * 1000)
    assert len(rig.lines) == LOG_LINES
    assert len(rig.counts) == 1000


def test_nobody_else_speaks_for_the_services_of_this_server(rig: Rig) -> None:
    assert not rig.accepts(2, Note(factory(HERE), outside(HERE), Create.type_name, b""))


@pytest.mark.parametrize("type", [Open.type_name, ConnectionEnded.type_name, "t"])
def test_other_servers_send_nothing_to_the_connection_manager(rig: Rig, type: str) -> None:
    assert not rig.accepts(2, note(2, connection_manager(HERE), type))
    assert not rig.accepts(2, note(2, str(connection_manager(HERE)), type))


def test_other_servers_create_and_administer_agents_and_no_more(rig: Rig) -> None:
    for to in (factory(HERE), str(factory(HERE))):
        for expected in (Create, Delete, ListAgents, Pause, Resume, UnknownAgent):
            assert rig.accepts(2, note(2, to, expected.type_name))
        for other in (RefuseCreate.type_name, "t"):
            assert not rig.accepts(2, note(2, to, other))


def test_platform_agents_of_servers_behind_this_one_are_left_to_them(rig: Rig) -> None:
    assert rig.accepts(2, note(2, connection_manager(8), "t"))
