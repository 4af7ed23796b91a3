"""Failover between machines: each replica in a network and a process name space of its own."""

import shutil
import signal
from pathlib import Path

import pytest

from .commands import roles
from .conftest import MakeNet, Start
from .running import Running, until

pytestmark = pytest.mark.processes


def configuration(addresses: list[str], **properties: str) -> str:
    given = {"secret": "hidden", "trace": "false", **properties}
    declared = "".join(f'<property name="{name}" value="{value}"/>' for name, value in given.items())
    replicas = "".join(
        f'<server id="{id}" hostname="{address}"><network domain="D1" port="16300"/></server>'
        for id, address in enumerate(addresses)
    )
    return f'<config>{declared}<domain name="D1"/><cluster id="0" name="s0">{replicas}</cluster></config>'


def test_a_master_on_another_machine_whose_port_refuses_is_replaced_before_its_lease_ends(
    make_net: MakeNet, start: Start, tmp_path: Path
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here, for process name spaces")
    net = make_net(3)
    config = tmp_path / "a3servers.xml"
    # Waiting for silence, or for the end of the lease, would take longer than this test may.
    config.write_text(configuration(net.addresses, refusal_ends="true", suspect_s="1000", lease_s="600"))
    replicas: list[Running] = []
    for id in range(3):
        words = ("-m", "quorate", "start", str(config), "--server", "s0", "--replica", str(id))
        apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        before = (*net.command(id), *apart)
        replicas.append(start(*words, "--data", str(tmp_path / "data"), before=before))
    until(lambda: sorted(roles(config).values()) == ["master", "slave", "slave"], "all are together")
    master = next(id for id, role in roles(config).items() if role == "master")
    replicas[master].signal(signal.SIGKILL)
    until(
        lambda: sorted(role for id, role in roles(config).items() if id != master) == ["master", "slave"],
        "another replica is master",
    )
