"""The three qualities of service of a collocated client, each with the master killed at the worst moment.

Source: HA Joram specification, section 1.2.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.server.replica.replica import Replica

from .conftest import Place

JOBS = 5


@attrs.frozen
class Work(Notification, name="local.work"):
    """A request for the first job that is not done."""


@attrs.frozen
class Job(Notification, name="local.job"):
    number: int


@attrs.frozen
class Done(Notification, name="local.done"):
    """A job will be done, or is done, by the client. Its effect is outside of the server."""

    number: int


@attrs.frozen
class Result(Notification, name="local.result"):
    """A job is done, with its effect: one reaction takes both."""

    number: int
    square: int


@attrs.define
class Jobs(Agent, name="local.jobs"):
    """Keeps jobs until a client has done them."""

    waiting: list[int] = attrs.field(factory=lambda: list(range(1, JOBS + 1)))
    squares: list[int] = attrs.field(factory=list[int])

    @reacts
    def work(self, ctx: Context, _: Work) -> None:
        ctx.send(ctx.sender, Job(self.waiting[0] if self.waiting else 0))

    @reacts
    def done(self, ctx: Context, note: Done) -> None:
        if note.number in self.waiting:
            self.waiting.remove(note.number)

    @reacts
    def result(self, ctx: Context, note: Result) -> None:
        if note.number in self.waiting:
            self.waiting.remove(note.number)
            self.squares.append(note.square)


class Killed(Exception):
    """The process of the client has ended."""


class Worker:
    """The client of each replica: works while its replica is master. The master dies at job 3."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.effects: list[int] = []
        """What the clients of all replicas have done outside of the server."""
        self.kill_at: int | None = 3

    def die(self, replica: Replica, number: int) -> None:
        """Kill the master with its client, if that is due."""
        if number == self.kill_at:
            self.kill_at = None
            self.place.kill(replica)
            raise Killed

    def react(self, number: int) -> None:
        self.effects.append(number * number)

    def run(self, step: Callable[[Replica, Any, int], None]) -> None:
        """Do all jobs; `step` does one of them with a connection."""
        place = self.place
        place.deploy(place.master(), Jobs, "jobs")
        while True:
            master = place.master()
            connection = place.result(place.open(master))
            try:
                while True:
                    job = place.result(connection.request("jobs", Work(), reply=Job))
                    if not job.number:
                        return
                    step(master, connection, job.number)
            except Killed:
                continue


def test_a_client_that_acknowledges_first_does_no_job_twice_and_may_lose_one(place: Place) -> None:
    worker = Worker(place)

    def step(master: Replica, connection: Any, number: int) -> None:
        place.result(connection.send("jobs", Done(number)))
        worker.die(master, number)
        worker.react(number)

    worker.run(step)
    assert worker.effects == [1, 4, 16, 25]


def test_a_client_that_reacts_first_loses_no_job_and_may_do_one_twice(place: Place) -> None:
    worker = Worker(place)

    def step(master: Replica, connection: Any, number: int) -> None:
        worker.react(number)
        worker.die(master, number)
        place.result(connection.send("jobs", Done(number)))

    worker.run(step)
    assert worker.effects == [1, 4, 9, 9, 16, 25]


@pytest.mark.parametrize("sent", [False, True], ids=["before it sends", "after it has sent"])
def test_a_client_whose_effect_is_one_reaction_does_every_job_once(place: Place, sent: bool) -> None:
    worker = Worker(place)

    def step(master: Replica, connection: Any, number: int) -> None:
        if not sent:
            worker.die(master, number)
        sending = connection.send("jobs", Result(number, number * number))
        if sent:
            place.net.advance(0.005)
            sending.addErrback(lambda _: None)
            worker.die(master, number)
        place.result(sending)

    worker.run(step)
    jobs: Any = place.master().node.engine.find("jobs")
    assert jobs.agent.squares == [1, 4, 9, 16, 25]
