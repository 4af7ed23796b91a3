"""Random faults for whole servers in real processes: `python -m tests.processes.server_campaign --seed 7`.

A cluster of three, s0, and a plain server, s1. Clients send numbers to a ledger on s0, and to one on s1 by
way of s0, through whatever a seed does to the replicas (`plans.py`); s1 is killed, too. The ledgers of all
replicas are compared while they grow, and at the end: every number that was acknowledged is on every replica
and on s1, once and in the order of its client. A service writes down that it acts: never two at a time, and
once for the first time.
"""

import contextlib
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from quorate.client import connect
from quorate.server.admin.connection import AdminError
from quorate.testing.servers.namespaces import Namespaces

from .campaign import SETTLE_S, Campaign, Member
from .plans import Plan, Step
from .replicas import ACTS, Entry, Part, Site, agreed
from .running import ROOT, Running
from .seeds import main
from .sequences import Wrong, check, one_at_a_time

CLIENTS = 3
PART = 5
"""Numbers that a client sends before it waits for their acknowledgement."""
PACE_S = 0.02
EACH = 1_000_000
"""Client n sends numbers from n times this on."""
PLAIN = "s1"


class Feeder(threading.Thread):
    """A client that sends until it is told to end."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._next = number * EACH
        self.sent: list[int] = []
        self.acknowledged: list[int] = []
        self.enough = threading.Event()
        self.reconnections = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with connect(self._url, user="root", password="root", timeout=SETTLE_S) as client:
                while not self.enough.wait(PACE_S):
                    numbers = range(self._next, self._next + PART)
                    self._next += PART
                    for number in numbers:
                        self.sent.append(number)
                        client.send_nowait("ledger", Entry(number), timeout=SETTLE_S)
                        client.send_nowait("forwarder", Entry(number), timeout=SETTLE_S)
                    client.flush(SETTLE_S)
                    self.acknowledged += numbers
                    self.reconnections = client.reconnections
        except Exception as error:
            self.error = error


class ServerCampaign(Campaign):
    """A run of one plan. The members are the replicas of s0."""

    def __init__(
        self, plan: Plan, place: Path, net: Namespaces | None, broken: str, say: Callable[[str], None]
    ) -> None:
        """broken: Python that all processes run first."""
        super().__init__(plan, place, net, broken, say)
        if broken:
            (place / "sitecustomize.py").write_text(broken)
        self._chance = random.Random(plan.seed)
        self._acts = place / "acts.txt"
        self._acts.touch()
        sys.path.insert(0, str(place))
        (place / "acts.py").write_text(ACTS)
        attributes = f'durability="{"disk" if plan.disk else "memory"}" ack="{plan.mode}"'
        service = f'<service class="acts:Acts" args="{self._acts}"/>'
        part = Part("s0", plan.members, attributes=attributes, services=service)
        hosts = ("localhost",) * 9 if net is None else net.addresses
        secret = {} if net is None else {"secret": "of the campaign"}
        try:
            self.site = Site(place, part, Part(PLAIN), hosts=hosts, suspect_s=1, **secret)
        finally:
            sys.path.remove(str(place))
        self._plain = Member(0)
        self._feeders = [Feeder(self.site.url(), number) for number in range(CLIENTS)]
        self._orders: dict[str, list[int]] = {}
        self._members_then: list[int] = list(range(plan.members))
        self.ledgers = 0
        """Compared so far."""

    def run(self) -> None:
        try:
            self._start_plain()
            for member in self._members:
                self._start(member)
            self._until(self._whole, "that there is a cluster")
            self.site.deploy("ledger:Ledger", PLAIN)
            self.site.deploy("ledger:Ledger")
            self.site.deploy("ledger:Forwarder")
            for feeder in self._feeders:
                feeder.start()
            for step in self.plan.steps:
                self._let_pass(step.after_s)
                self._do(step)
            self.undo_all()
            self._until(self._whole, "that all are together again")
            for feeder in self._feeders:
                feeder.enough.set()
            self._until(lambda: not any(map(threading.Thread.is_alive, self._feeders)), "that clients end")
            self._until(self._complete, "that all have everything")
            self._finish()
        finally:
            for member in [*self._members, self._plain]:
                if member.process is not None:
                    member.process.end()

    # What happens

    def _do(self, step: Step) -> None:
        super()._do(step)
        if self._plain.process is not None and self._chance.random() < 0.2:
            self.counts["kill s1"] += 1
            self._note("kill s1")
            self._kill(self._plain)
            self._later(step.for_s, "start s1", self._start_plain)

    def _launch(self, server: str, replica: int) -> Running:
        options = ["--server", server, "--replica", replica, "--data", self.place / "data"]
        before = self._net.command(replica) if self._net is not None else ()
        env = {"PYTHONPATH": f"{ROOT}:{self.place}"}
        return Running(
            ["-m", "quorate", "start", self.site.xml, *options], cwd=self.place, before=before, env=env
        )

    def _start(self, member: Member) -> None:
        if member.process is None:
            member.lives += 1
            member.process = self._launch("s0", member.me)

    def _start_plain(self) -> None:
        if self._plain.process is None:
            self._plain.process = self._launch(PLAIN, 0)

    def _lose(self, member: Member) -> None:
        self._kill(member)
        for path in self.site.directory(member.me).glob("journal.db*"):
            path.unlink()

    def _ask_to_leave(self, process: Running) -> None:
        process.signal(signal.SIGTERM)

    # What is seen

    def _look(self) -> None:
        self._looked = time.monotonic()
        for member in [*self._members, self._plain]:
            if member.process is not None and (status := member.process.process.poll()) is not None:
                raise Wrong(f"a replica ended with status {status}: {member.process.rest()[-5:]}")
        for feeder in self._feeders:
            if feeder.error is not None:
                raise Wrong(f"a client could not go on: {feeder.error!r}")
        self._compare()

    def _compare(self) -> None:
        """Those that can be asked have pieces of one order."""
        for member in self._members:
            if member.process is not None and not member.frozen and self._feeders[0].sent:
                with contextlib.suppress(AssertionError, AdminError):
                    self._orders[str(member.me)] = self.site.ledger(member.me)
                    self.ledgers += 1
        longest = max(self._orders.values(), key=len, default=[])
        for name, order in self._orders.items():
            if order != longest[: len(order)]:
                raise Wrong(f"replica {name} has {order[-5:]} where another has {longest[: len(order)][-5:]}")

    def _whole(self) -> bool:
        if any(member.process is None or member.frozen for member in self._members) or self._cuts:
            return False
        if self._unplugged:
            return False
        statuses = self.site.statuses()
        if len(statuses) != self.plan.members or sorted(one["role"] for one in statuses)[0] != "master":
            return False
        self._members_then = statuses[0]["members"]
        return len({one["view"] for one in statuses}) == 1 and len(self._members_then) == self.plan.members

    def _seniority(self) -> list[int]:
        if not any(member.frozen for member in self._members):
            views = [(status["view"], status["members"]) for status in self.site.statuses()]
            self._members_then = max(views)[1] if views else self._members_then
        return [*self._members_then, *(me for me in range(self.plan.members) if me not in self._members_then)]

    # The end

    def _complete(self) -> bool:
        sent = sum(len(feeder.sent) for feeder in self._feeders)
        try:
            found = [self.site.ledger(member.me) for member in self._members]
            found.append(self.site.ledger(0, server=PLAIN))
        except (AssertionError, AdminError):
            return False
        return all(len(numbers) >= sent for numbers in found) and agreed(self.site.statuses())

    def _finish(self) -> None:
        sent = {f"client {number}": feeder.sent for number, feeder in enumerate(self._feeders)}
        safe = [number for feeder in self._feeders for number in feeder.acknowledged]
        check(self.site.ledgers(), sent=sent, acknowledged=safe, ended=self._orders)
        check({PLAIN: self.site.ledger(0, server=PLAIN)}, sent=sent, acknowledged=safe)
        tenures: dict[str, tuple[float, float]] = {}
        for line in self._acts.read_text().splitlines():
            name, moment = line.split()
            tenures[name] = (tenures.get(name, (float(moment), 0.0))[0], float(moment))
        one_at_a_time(tenures)
        if (firsts := sum(name.endswith("True") for name in tenures)) != 1:
            raise Wrong(f"the service was started {firsts} times for the first time")
        self.counts["tenures"] += len(tenures)
        self.counts["numbers"] += len(safe)
        self.counts["reconnections"] += sum(feeder.reconnections for feeder in self._feeders)
        self.counts["ledgers compared"] += self.ledgers


if __name__ == "__main__":
    what = "Kill, freeze and cut off replicas of servers, by seed."
    sys.exit(main(ServerCampaign, "tests.processes.server_campaign", what, seconds=15.0, members=3))
