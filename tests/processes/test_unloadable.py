"""Real processes: an agent's module that one replica, or every replica, lacks."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.server.processes.free_ports import free_ports

from .conftest import Start
from .replicas import LEDGER, Part, write_config
from .running import BOUND_S, ROOT, Running

LACKS = "which this replica cannot load: module ledger cannot be found"

pytestmark = pytest.mark.processes


def quorate(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "quorate", *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


@pytest.fixture
def begin(tmp_path: Path, start: Start) -> Callable[[int], Running]:
    """Start a replica of a cluster of three; replica N imports modules from the directory N."""
    write_config(
        tmp_path / "a3servers.xml",
        [Part("s0", 3, clients=False)],
        properties={"trace": "false"},
        hosts=["localhost"] * 3,
        ports=free_ports(6),
    )
    for number in range(3):
        (tmp_path / str(number)).mkdir()

    def begin(replica: int) -> Running:
        own = {"PYTHONPATH": f"{ROOT}:{tmp_path / str(replica)}"}
        command = ("-m", "quorate", "start", "a3servers.xml", "--server", "s0", "--replica", str(replica))
        return start(*command, cwd=tmp_path, env=own)

    return begin


def has_role(line: str) -> bool:
    return " master" in line or " slave" in line


def ends_with(replica: Running, sentence: str) -> None:
    assert replica.ended() == 1
    said = "\n".join(replica.rest())
    assert sentence in said
    assert "Traceback" not in said


def test_a_module_that_one_replica_lacks_stops_that_replica_and_no_other(
    begin: Callable[[int], Running], tmp_path: Path
) -> None:
    replicas = [begin(number) for number in range(3)]
    lines = [replica.until(has_role) for replica in replicas]
    lacking = next(number for number, line in enumerate(lines) if " slave" in line)
    deploy = ("deploy", "a3servers.xml", "--server", "s0", "ledger:Ledger")

    refused = quorate(tmp_path, *deploy, "--name", "nobody")
    assert refused.returncode == 1
    assert "module ledger cannot be found" in refused.stderr

    for number in {0, 1, 2} - {lacking}:
        (tmp_path / str(number) / "ledger.py").write_text(LEDGER)
    deployed = quorate(tmp_path, *deploy, "--name", "ledger")
    assert (deployed.returncode, deployed.stdout) == (0, "#0.0.1025\n"), deployed.stderr
    ends_with(replicas[lacking], LACKS)
    ends_with(begin(lacking), LACKS)
    shutil.rmtree(tmp_path / "data" / "s0" / str(lacking))
    ends_with(begin(lacking), LACKS)
    for number in {0, 1, 2} - {lacking}:
        assert replicas[number].process.poll() is None

    (tmp_path / str(lacking) / "ledger.py").write_text(LEDGER)
    begin(lacking).until(has_role)
