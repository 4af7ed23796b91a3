"""A client in the process of its server: it does jobs, each exactly once, on whichever replica is master.

Name the service in every replica of a cluster, and start and deploy it::

    <service class="examples.collocated:Worker"/>

    quorate deploy a3servers.xml --server s0 examples.collocated:Jobs --name jobs

The client gets a job, computes its result, and sends one notification with both: the number of the job and
the result. One reaction removes the job and keeps the result, so a failure at any moment loses and repeats
nothing. See docs/collocated.md.
"""

import threading

import attrs

from quorate import (
    Agent,
    ConnectionClosed,
    Context,
    Notification,
    ReplyTo,
    UnknownAgentError,
    connect,
    reacts,
)
from quorate.services import Service, ServiceContext

RETRY_S = 0.2
"""Seconds between two looks for the agent while it is not deployed."""


@attrs.frozen
class AddJob(Notification):
    """A job: compute the square of the number."""

    number: int


@attrs.frozen
class NextJob(Notification):
    """Request of a client for a job. Answered as soon as there is one."""


@attrs.frozen
class Job(Notification):
    """The answer to `NextJob`. The job stays with the agent until its result is there."""

    id: int
    number: int


@attrs.frozen
class JobResult(Notification):
    """The result of a job, which ends it."""

    id: int
    square: int


@attrs.frozen
class AskTotal(Notification):
    """Request for the number of finished jobs and the total of their results."""


@attrs.frozen
class Total(Notification):
    """Answer to `AskTotal`."""

    jobs: int
    squares: int


@attrs.define
class Jobs(Agent):
    """Keeps jobs until their results are there, and adds the results up."""

    waiting: dict[int, int] = attrs.field(factory=dict[int, int])
    """Numbers by the ids of their jobs, the oldest first."""
    added: int = 0
    done: int = 0
    total: int = 0
    idle: ReplyTo | None = None
    """The client that waits for a job."""

    @reacts
    def add(self, ctx: Context, note: AddJob) -> None:
        """Keep a job, and give it to a client that waits."""
        self.added += 1
        self.waiting[self.added] = note.number
        if self.idle is not None:
            ctx.send(self.idle, Job(self.added, note.number))
            self.idle = None

    @reacts
    def next_job(self, ctx: Context, _: NextJob) -> None:
        """Answer with the oldest job, at once or when there is one. A client does one job at a time."""
        for id, number in self.waiting.items():
            ctx.send(ctx.sender, Job(id, number))
            return
        self.idle = ctx.reply_to

    @reacts
    def result(self, ctx: Context, note: JobResult) -> None:
        """Remove the job and keep its result, in one reaction; a second result of a job changes nothing."""
        if self.waiting.pop(note.id, None) is not None:
            self.done += 1
            self.total += note.square
            ctx.put("results", note)

    @reacts
    def ask_total(self, ctx: Context, _: AskTotal) -> None:
        """Answer with the totals."""
        ctx.send(ctx.sender, Total(self.done, self.total))


class Worker(Service):
    """Runs the client in a thread of the master's process."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Start the thread: this replica is master now."""
        self._stopping = threading.Event()
        self._name = f"{ctx.server_name}/{ctx.replica}" if len(ctx.peers) > 1 else ctx.server_name
        threading.Thread(target=self._work, name="worker", daemon=True).start()

    def stop(self) -> None:
        """Have the thread end: its connection ends with the mastership."""
        self._stopping.set()

    def _work(self) -> None:
        try:
            with connect(f"local:{self._name}", request_timeout=None, cancel=self._stopping) as connection:
                while not self._stopping.is_set():
                    try:
                        job = connection.request("jobs", NextJob(), reply=Job)
                    except UnknownAgentError:
                        self._stopping.wait(RETRY_S)
                        continue
                    connection.send("jobs", JobResult(job.id, job.number**2))
        except ConnectionClosed:
            # This replica is master no longer. The worker of the next master goes on.
            return
