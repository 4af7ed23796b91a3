"""Collocated clients and threads in real processes whose master is killed: examples/collocated.py."""

import threading
from pathlib import Path

import pytest

from examples.collocated import AddJob, AskTotal, Total
from quorate.client import Connection, connect

from .conftest import MakeSite
from .replicas import Part, Site
from .running import BOUND_S

pytestmark = pytest.mark.processes

JOBS = 300
WATCHING = """
import threading
from pathlib import Path

from examples.collocated import AddJob
from quorate import QueueGap, local_server
from quorate.services import Service


def watch() -> None:
    server = local_server(timeout=60)
    with open(Path(__file__).with_name(f"seen.{server.replica}"), "a") as seen:
        for item in server.queue("results"):
            if isinstance(item, QueueGap):
                print("gap", file=seen, flush=True)
                continue
            print(item.notification.id, item.master, file=seen, flush=True)
            if item.notification.id == 1:
                outcome = server.direct_send_to("jobs", AddJob(1000)).result(60)
                print("sent", outcome.value, file=seen, flush=True)


class Watch(Service):
    @classmethod
    def on_replica(cls, replica):
        threading.Thread(target=watch, daemon=True).start()

    def init(self, ctx, args, first_time):
        pass
"""
"""A service: a thread of every replica writes down what is put into a queue, and sends once."""


def total(client: Connection, jobs: int) -> Total:
    """The totals, as soon as so many jobs are done."""
    pause = threading.Event()
    for _ in range(int(BOUND_S / 0.05)):
        found = client.request("jobs", AskTotal(), reply=Total)
        if found.jobs >= jobs:
            return found
        pause.wait(0.05)
    raise AssertionError(f"only {found} after a long time")


def seen(site: Site, replica: int, lines: int) -> list[list[str]]:
    """What the thread of a replica has written down, as soon as it has so many lines."""
    pause = threading.Event()
    for _ in range(int(BOUND_S / 0.05)):
        words = [line.split() for line in (site.place / f"seen.{replica}").read_text().splitlines()]
        if len(words) >= lines:
            return words
        pause.wait(0.05)
    raise AssertionError(f"replica {replica} has seen {len(words)} of {lines}: {words[-3:]}")


def test_collocated_clients_do_every_job_once_and_threads_see_it_on_every_replica(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # the configuration is checked here
    services = '<service class="examples.collocated:Worker"/><service class="watching:Watch"/>'
    site = make_site(Part("s0", 3, services=services), modules={"watching": WATCHING})
    site.deploy("examples.collocated:Jobs")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(1, JOBS + 1):
            client.send_nowait("jobs", AddJob(number))
        total(client, JOBS // 6)
        master = site.master()
        site.kill(master)
        # The thread of each replica has sent a job, and only that of the master was committed.
        squares = sum(number**2 for number in range(1, JOBS + 1)) + 1000**2
        assert total(client, JOBS + 1) == Total(JOBS + 1, squares)
    for replica in (*site.slaves(), site.master()):
        lines = seen(site, replica, JOBS + 2)
        assert lines[0] == ["1", "False"]
        assert lines[1] == ["sent", "dropped"]
        assert [int(id) for id, _ in lines if id != "sent"] == list(range(1, JOBS + 2))
    # It was killed, so what it has written may end anywhere, and begins as that of the others.
    assert seen(site, master, 2)[:2] == [["1", "True"], ["sent", "committed"]]
