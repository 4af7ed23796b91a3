"""Real processes: the replicas of a cluster get later agent code one by one, and switch together."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorate.server.processes.free_ports import free_ports

from .conftest import Start
from .replicas import Part, write_config
from .running import BOUND_S, ROOT, Running, until

FORMER = """
import attrs
from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Put(Notification, name="till-test.put"):
    amount: int


@attrs.define
class Till(Agent, name="till-test.till"):
    amount: int = 0

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        self.amount += note.amount
"""
LATER = """
import attrs
from typing import Any
from quorate import Agent, Context, Notification, reacts, upgrades


@attrs.frozen
class PutCents(Notification, name="till-test.put", version=2):
    cents: int

    @staticmethod
    @upgrades(from_version=1)
    def in_cents(values: dict[str, Any]) -> dict[str, Any]:
        return {"cents": values["amount"] * 100}


@attrs.define
class Till(Agent, name="till-test.till", version=2):
    cents: int = 0

    @staticmethod
    @upgrades(from_version=1)
    def in_cents(values: dict[str, Any]) -> dict[str, Any]:
        return {"cents": values["amount"] * 100}

    @reacts
    def put(self, ctx: Context, note: PutCents) -> None:
        self.cents += note.cents
"""
RELEASES = {
    "1": {"tills": FORMER},
    "2": {"tills": FORMER, "tills_2": LATER},
    "3": {"tills_2": LATER},
}
SWITCHED = "the server uses till-test.till/2 from here on"

pytestmark = pytest.mark.processes


def has_role(line: str) -> bool:
    return " master" in line or " slave" in line


class Place:
    """A cluster of three whose replicas import their agents from the directory of a release."""

    def __init__(self, place: Path, start: Start) -> None:
        self.place, self.start = place, start
        self.ports = free_ports(6)
        for release, modules in RELEASES.items():
            (place / release).mkdir()
            for name, text in modules.items():
                (place / release / f"{name}.py").write_text(text)

    def configure(self, release: str) -> None:
        write_config(
            self.place / "a3servers.xml",
            [Part("s0", 3, clients=False)],
            properties={"trace": "false", "agent_modules": " ".join(RELEASES[release])},
            hosts=["localhost"] * 3,
            ports=self.ports,
        )

    def begin(self, replica: int, release: str) -> Running:
        own = {"PYTHONPATH": f"{ROOT}:{self.place / release}"}
        command = ("-m", "quorate", "start", "a3servers.xml", "--server", "s0", "--replica", str(replica))
        return self.start(*command, cwd=self.place, env=own)

    def quorate(self, release: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command, *rest = arguments
        return subprocess.run(
            [sys.executable, "-m", "quorate", command, "a3servers.xml", *rest],
            cwd=self.place,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{self.place / release}"},
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

    def saved(self) -> bool:
        """Return whether all replicas have saved the state after their last entry."""
        (server,) = json.loads(self.quorate("1", "status", "--json").stdout)["servers"]
        return all(each.get("saved") == each.get("applied") for each in server["replicas"])

    def till(self) -> tuple[str, dict[str, Any]]:
        found = self.quorate("1", "inspect", "--server", "s0", "till", "--json")
        assert found.returncode == 0, found.stderr
        shown = json.loads(found.stdout)
        return shown["class"], shown["state"]


def test_replicas_restarted_one_by_one_switch_together_and_recover_without_the_former_class(
    tmp_path: Path, start: Start
) -> None:
    place = Place(tmp_path, start)
    place.configure("1")
    replicas = [place.begin(number, "1") for number in range(3)]
    for replica in replicas:
        replica.until(has_role)
    deployed = place.quorate("1", "deploy", "--server", "s0", "tills:Till", "--name", "till")
    assert deployed.returncode == 0, deployed.stderr

    place.configure("3")
    checked = place.quorate("3", "check", "--agents")
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
    assert "agents that are upgraded from till-test.till/1 to till-test.till/2: 1" in checked.stdout
    place.configure("2")
    for number in range(3):
        sent = place.quorate("1", "send", "--server", "s0", "till", "tills:Put", '{"amount": 5}')
        assert sent.returncode == 0, sent.stderr
        assert place.till() == ("till-test.till/1", {"amount": 5 * number + 5})
        place.quorate("1", "stop", "--server", "s0", "--replica", str(number))
        assert replicas[number].ended() == 0
        replicas[number] = place.begin(number, "2")
        replicas[number].until(has_role)

    until(lambda: place.till() == ("till-test.till/2", {"cents": 1500}), "the switch")
    logs = [tmp_path / "data" / "s0" / str(number) / "log" for number in range(3)]
    for log in logs:
        until(lambda log=log: SWITCHED in log.read_text(), "the switch of every replica")
    until(place.saved, "the state of every replica after the switch on its disk")

    place.configure("3")
    sent = place.quorate("1", "send", "--server", "s0", "till", "tills:Put", '{"amount": 1}')
    assert sent.returncode == 0, sent.stderr
    for replica in replicas:
        replica.end()
    replicas = [place.begin(number, "3") for number in range(3)]
    for replica in replicas:
        replica.until(has_role)
    assert place.till() == ("till-test.till/2", {"cents": 1600})
