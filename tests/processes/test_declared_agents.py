"""Agents that the configuration declares, on real servers whose processes are killed."""

from pathlib import Path

import pytest

from quorate import Servers, UnknownAgentError
from quorate.demo.ports import free_ports

pytestmark = pytest.mark.processes

BOUND_S = 60.0
REPLICA = """
<server id="{id}" hostname="localhost">
  <network domain="D1" port="{port}"/>
  <service class="ConnectionManager" args="root root"/><service class="TcpProxyService" args="{client}"/>
</server>
"""
ALICE = '<agent class="ledger:Ledger" name="alice" args=\'{"numbers": [1]}\'/>'
BOB = '<agent class="ledger:Ledger" name="bob"/>'
LEDGER = """
import attrs
from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Add(Notification):
    number: int


@attrs.frozen
class Numbers(Notification):
    numbers: list[int]


@attrs.define
class Ledger(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.numbers.append(note.number)
        ctx.send(ctx.sender, Numbers(self.numbers))
"""


def xml(ports: list[int], *agents: str) -> str:
    replicas = "".join(REPLICA.format(id=id, port=ports[id], client=ports[3 + id]) for id in range(3))
    properties = '<property name="administrators" value="root"/>'
    return (
        f'<config><domain name="D1"/><cluster id="0" name="s0">{properties}{"".join(agents)}{replicas}'
        "</cluster></config>"
    )


def start(file: Path) -> Servers:
    return Servers(file, data=file.parent / "data", pythonpath=[file.parent])


def test_declared_agents_are_made_once_over_kills_deletion_and_later_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger.py").write_text(LEDGER)
    monkeypatch.syspath_prepend(tmp_path)
    from ledger import Add, Numbers  # type: ignore[import-not-found]

    file = tmp_path / "a3servers.xml"
    ports = free_ports(6)
    file.write_text(xml(ports, ALICE))
    with start(file) as servers, servers.connect("s0") as connection:
        assert connection.request("alice", Add(2), reply=Numbers, timeout=BOUND_S) == Numbers([1, 2])
        servers.kill_master()
        assert connection.request("alice", Add(3), reply=Numbers, timeout=BOUND_S) == Numbers([1, 2, 3])
        connection.delete("alice", timeout=BOUND_S)
    file.write_text(xml(ports, ALICE, BOB))
    with start(file) as servers, servers.connect("s0") as connection:
        assert connection.request("bob", Add(4), reply=Numbers, timeout=BOUND_S) == Numbers([4])
        with pytest.raises(UnknownAgentError):
            connection.request("alice", Add(5), reply=Numbers, timeout=BOUND_S)
