"""The commands about agents, timers and dead letters, on one real server."""

import getpass
import json
from typing import Any

import pytest
from click.testing import CliRunner

from quorate.client import connect
from quorate.server.cli import agents, deadletters, delete, pause, resume, timers

from .conftest import MakeSite
from .replicas import Entry, Part, Site

pytestmark = pytest.mark.processes

ALARM = """
import attrs

from ledger import Entry
from quorate import Agent, Context, reacts


@attrs.define
class Alarm(Agent):
    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        ctx.timer(note.number, note)
"""


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    return make_site(Part("s0"), modules={"alarm": ALARM})


def test_the_commands_about_agents_timers_and_dead_letters(site: Site) -> None:
    def run(module: Any, *args: object) -> tuple[int, str, str]:
        done = CliRunner().invoke(module.command, [str(site.xml), "--server", "s0", *map(str, args)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def shown(module: Any, *args: object) -> Any:
        status, out, err = run(module, *args, "--json")
        assert status == 0, err
        return json.loads(out)

    site.deploy("ledger:Ledger")
    site.deploy("alarm:Alarm")
    with connect(site.url(), user="root", password="root") as connection:
        (ledger,) = shown(agents, "--class", "ledger:Ledger")["agents"]
        assert [row["name"] for row in shown(agents, "--name", "al*")["agents"]] == ["alarm"]

        assert run(pause, "ledger") == (0, f"{ledger['id']} paused\n", "")
        for number in range(3):
            connection.send("ledger", Entry(number))
        connection.flush()
        (row,) = shown(agents, "--name", ledger["id"])["agents"]
        assert (row["paused"], row["held"]) == (True, 3)
        assert "3 waiting" in run(agents, "--name", "ledger")[1]
        assert run(resume, "ledger@s0") == (0, f"{ledger['id']} resumed, 3 delivered\n", "")
        assert site.ledger(0) == [0, 1, 2]

        for number in (2000, 1000):
            connection.send("alarm", Entry(number))
        connection.flush()
        first, second = shown(timers, "alarm")["timers"]
        assert first["due"] < second["due"]
        assert "--limit" in run(timers, "--limit", 1)[2]
        assert run(timers, "alarm", "--cancel", first["number"])[0] == 0
        # Among all timers are those of client connections.
        assert [row for row in shown(timers)["timers"] if row["type"] == "ledger:Entry"] == [second]
        again = run(timers, "alarm", "--cancel", first["number"])
        assert (again[0], "has no timer" in again[2]) == (1, True)

        proxies = [row["id"] for row in shown(agents, "--all")["agents"] if "1000000000000" in row["id"]]
        assert proxies
        for agent in (proxies[0], "0.0.2", "0.0.3"):
            for module in (delete, pause):
                refused = run(module, agent)
                assert (refused[0], "belongs to the platform" in refused[2]) == (1, True), refused
        for module in (delete, pause, resume, timers):
            missing = run(module, "bob")
            assert missing[0] == 1
            assert "There is no agent bob on server s0" in missing[2]

        assert run(delete, "alarm")[0] == 0
        assert "ledger:Entry" not in run(timers, "--json")[1]

    assert (
        site.run("send", str(site.xml), "--server", "s0", "late", "ledger:Entry", '{"number": 9}').returncode
        == 1
    )
    (letter,) = shown(deadletters)["dead_letters"]
    assert (letter["to"], letter["whole"]) == ("late", True)
    assert "unknown agent" in run(deadletters)[1]
    resent = run(deadletters, "--resend", letter["number"], "--resend", 99, "--to", "ledger")
    assert resent[:2] == (1, f"resent: {letter['number']}\n")
    assert "No dead letter is kept with the number 99" in resent[2]
    assert site.ledger(0) == [0, 1, 2, 9]
    assert run(deadletters, "--drop", letter["number"])[0] == 1
    assert shown(deadletters)["dead_letters"] == []
    assert run(deadletters, "--drop", 1, "--resend", 1)[0] == 2

    lines = [json.loads(line) for line in (site.directory() / "audit.log").read_text().splitlines()]
    assert {line["user"] for line in lines} == {getpass.getuser()}
    acts = [(line["act"], line["outcome"]) for line in lines]
    assert ("quorate.delete", "done") in acts
    assert any(act == "quorate.pause" and "platform" in outcome for act, outcome in acts), acts
    assert not any("list" in act for act, _ in acts)
