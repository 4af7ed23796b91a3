"""The network of namespaces cuts what it is told to, mends it, and leaves nothing behind."""

import signal
import subprocess
import sys

import pytest

from quorate.testing.servers.namespaces import Namespaces

from .conftest import MakeNet, Start
from .running import until

pytestmark = pytest.mark.processes

KNOCK = """
import socket
import sys

try:
    socket.create_connection((sys.argv[1], 9), timeout=0.3)
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("nothing")
"""
ABANDON = """
import os
import signal

from quorate.testing.servers.namespaces import Namespaces

net = Namespaces(1)
net.__enter__()
print(net.command(0)[-1], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def reaches(net: Namespaces, one: int, other: int) -> bool:
    """Whether packets go there and back: nobody listens, and that is what comes back."""
    command = [*net.command(one), sys.executable, "-c", KNOCK, net.addresses[other]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"


def names() -> str:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout


def test_what_is_cut_does_not_arrive_until_it_is_mended(make_net: MakeNet) -> None:
    net = make_net(3)
    assert reaches(net, 0, 1)
    net.cut((0, 1))
    assert not reaches(net, 0, 1)
    assert not reaches(net, 1, 0)
    assert reaches(net, 0, 2)
    net.mend((0, 1))
    assert reaches(net, 0, 1)
    net.split([0, 2], [1])
    assert not reaches(net, 2, 1)
    assert reaches(net, 2, 0)
    net.mend()
    net.unplug(2)
    assert not reaches(net, 2, 0)
    net.plug(2)
    assert reaches(net, 2, 1)


def test_processes_and_namespaces_end_with_the_network(make_net: MakeNet, start: Start) -> None:
    make_net(1)
    with Namespaces(1) as net:
        inside = start("-c", "import signal; print('here'); signal.pause()", before=net.command(0))
        inside.until("here")
    assert inside.ended() == -signal.SIGKILL
    assert net.command(0)[-1] not in names()


def test_what_a_killed_run_left_behind_is_removed_by_the_next_one(make_net: MakeNet, start: Start) -> None:
    make_net(1)
    killed = start("-c", ABANDON)
    left = killed.rest()[0]
    assert killed.ended() == -signal.SIGKILL
    assert left in names()
    with Namespaces(1):
        until(lambda: left not in names())
