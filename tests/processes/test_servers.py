"""Servers that a Python program starts, and that end with it."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from quorate import Servers, ServersError

from .replicas import LEDGER, Ask, Entry, Sum
from .running import BOUND_S

pytestmark = pytest.mark.processes

XML = """
<config>
  <property name="trace" value="false"/><property name="secret" value="hidden"/>
  <domain name="D1"/>
  <cluster id="0" name="s0">
    {replicas}
  </cluster>
  <server id="1" name="s1" hostname="far.example">
    <network domain="D1" port="16304"/>
    <nat sname="s0" replica="0" hostname="gate.example" port="9999"/>
  </server>
</config>
"""
REPLICA = """
<server id="{id}" hostname="near{id}.example">
  <network domain="D1" port="1630{id}"/>
  <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="ann secret"/>
  <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="256{id} 30"/>
</server>
"""
KILLED = """
import os, signal, sys
from quorate import Servers

servers = Servers(sys.argv[1], free_ports=True, only=["s1"])
servers.start()
print(servers.pid("s1", 0), servers.data.parent, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
PLUGIN_TESTS = """
import pytest

@pytest.mark.quorate_servers(only=["s1"])
def test_shows_the_servers(quorate_servers):
    assert quorate_servers.pid("s1") is None
"""


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    path = tmp_path / "a3servers.xml"
    path.write_text(XML.format(replicas="".join(REPLICA.format(id=id) for id in range(3))))
    (tmp_path / "ledger.py").write_text(LEDGER)
    return path


def until_gone(pid: int) -> None:
    pause = threading.Event()
    for _ in range(int(BOUND_S / 0.1)):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        pause.wait(0.1)
    raise AssertionError(f"process {pid} goes on")


def test_servers_run_on_free_ports_survive_kills_and_leave_nothing(xml: Path) -> None:
    with Servers(xml, free_ports=True, pythonpath=[xml.parent]) as servers:
        ledger = servers.create("ledger:Ledger", name="ledger", numbers=[1])
        with servers.connect("s0") as connection:
            connection.send("ledger", Entry(2), timeout=BOUND_S)
            master = servers.kill_master()
            assert servers.pid("s0", master) is None
            connection.send(ledger, Entry(3), timeout=BOUND_S)
            servers.start_replica("s0", master)
            other = servers.master()
            servers.pause("s0", other)
            answer = connection.request(ledger, Ask(), reply=Sum, timeout=BOUND_S)
            servers.resume("s0", other)
        assert answer == Sum([1, 2, 3])
        assert f"replica {master} of s0 starts" in servers.log("s0", master)
        with pytest.raises(ServersError, match="s1 has no TcpProxyService"):
            servers.connect("s1")
        with pytest.raises(ServersError, match=r"no replica s0\.7"):
            servers.kill("s0", 7)
        pids = [servers.pid("s0", replica) for replica in range(3)]
        place = servers.data.parent
    for pid in pids:
        assert pid is not None
        until_gone(pid)
    assert not place.exists()


def test_another_run_on_the_same_data_has_the_same_ports(xml: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Servers(xml, free_ports=True, data=data, pythonpath=[xml.parent]) as servers:
        servers.create("ledger:Ledger", name="ledger", numbers=[1])
        with servers.connect("s0") as connection:
            connection.send("ledger", Entry(2), timeout=BOUND_S)
    with (
        Servers(xml, free_ports=True, data=data, pythonpath=[xml.parent]) as servers,
        servers.connect("s0") as connection,
    ):
        assert connection.request("ledger", Ask(), reply=Sum, timeout=BOUND_S) == Sum([1, 2])
    xml.write_text(
        xml.read_text().replace(
            "<config>",
            '<config><server id="7" name="s7" hostname="h"><network domain="D1" port="1"/></server>',
        )
    )
    with pytest.raises(ServersError, match="remove the data of the earlier run, or use another directory"):
        Servers(xml, free_ports=True, data=data)


def test_servers_are_named_in_a_list(xml: Path) -> None:
    with pytest.raises(TypeError, match=r"only is 's1'; give the names of the servers in a list: \['s1'\]"):
        Servers(xml, only="s1")


def test_servers_that_do_not_start_say_why_and_leave_nothing(xml: Path) -> None:
    text = xml.read_text().replace("<config>", '<config><property name="agent_modules" value="nowhere"/>')
    xml.write_text(text)
    servers = Servers(xml, free_ports=True)
    with pytest.raises(ServersError, match=r"s0\.0.*: ended\..*\n(.*\n)*.*nowhere"):
        servers.start()
    assert not servers.data.parent.exists()


def test_processes_end_with_the_program_that_was_killed_and_its_directory_is_removed_later(
    xml: Path,
) -> None:
    command = [sys.executable, "-c", KILLED, str(xml)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    pid, place = done.stdout.split()
    until_gone(int(pid))
    assert Path(place).parent == Path(tempfile.gettempdir())
    Servers(xml, free_ports=True).stop()
    assert not Path(place).exists()


def test_the_fixture_starts_the_servers_beside_the_test_and_shows_them_if_it_fails(xml: Path) -> None:
    (xml.parent / "test_bank.py").write_text(PLUGIN_TESTS)
    plugin = ["-p", "no:quorate", "-p", "quorate.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "test_bank.py"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, cwd=xml.parent, env=env, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert "1 failed" in done.stdout
    assert "s1.0 ready, master" in done.stdout
