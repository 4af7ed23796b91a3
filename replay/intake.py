"""The agent that takes rows in bulk from jobs, each once though tasks are tried again.

A *job* has *parts*, and a part has rows in an order, which its sender divides into chunks: the same rows make
the same chunks. The agent keeps for each part how many chunks it has taken, and a hash of all of them. So
whoever tries a part again learns where to go on, and is refused if it has other rows than there were before.
"""

import hashlib
from typing import Final

import attrs
import msgspec

from ..agents import (
    FIRST_CONNECTION_STAMP,
    FIRST_FREE_STAMP,
    Agent,
    AgentId,
    Context,
    ExceptionNotification,
    Notification,
    Opaque,
    Rows,
    UnknownAgent,
    reacts,
)
from ..agents.notification import UNREADABLE

__all__ = [
    "INTAKE",
    "MAX_CHUNK_BYTES",
    "MAX_CHUNK_ROWS",
    "MAX_PARTS",
    "BeginPart",
    "EndJob",
    "EndPart",
    "IntakeAgent",
    "JobEnded",
    "PartTaken",
    "Row",
    "TakeRows",
    "chained",
]

INTAKE: Final = "quorate.intake"
"""The name of the agent on each server that has one."""
MAX_PARTS: Final = 10_000
"""Parts of a job."""
MAX_CHUNK_ROWS: Final = 200
MAX_CHUNK_BYTES: Final = 4 * 1024 * 1024
MAX_JOBS: Final = 10_000
"""Jobs that are remembered. Of more, those that began first are forgotten."""
MAX_JOB_CHARS: Final = 200
KEEP_NS: Final = 7 * 24 * 3600 * 1_000_000_000
"""A job that has not ended is not forgotten before it was left alone for so long."""
_MAX_PART: Final = 10**9

Row = tuple[str, str, bytes]
"""An address, the name of a type, and the fields of the notification in MessagePack."""


@attrs.frozen
class BeginPart(Notification, name="quorate.intake.begin-part"):
    """Question what the agent has of a part. Answered with `PartTaken`."""

    job: str
    part: int


@attrs.frozen
class PartTaken(Notification, name="quorate.intake.part-taken"):
    """Answer to `BeginPart` and `EndPart`."""

    chunks: int
    """Chunks that were taken."""
    chain: bytes
    """See `chained`."""
    ended: bool = False
    """Whether the whole job has ended, and takes no more rows."""


@attrs.frozen
class TakeRows(Notification, name="quorate.intake.take-rows"):
    """The next chunk of a part. Ignored if it is not the next one after those that were taken."""

    job: str
    part: int
    chunk: int
    """Its number, from 1."""
    chain: bytes
    """That of the chunks before it."""
    rows: bytes
    """MessagePack, an array of `Row`."""


@attrs.frozen
class EndPart(Notification, name="quorate.intake.end-part"):
    """Question whether all rows of a part were taken. Answered with `PartTaken`, or an error."""

    job: str
    part: int
    chunks: int
    chain: bytes


@attrs.frozen
class EndJob(Notification, name="quorate.intake.end-job"):
    """Order to forget the parts of a job, which is complete. It may be repeated. Answered with `JobEnded`."""

    job: str
    rows: int
    """Rows of all parts."""
    digest: bytes
    """The sum of the hashes of all rows: what is said of the job again must be the same."""


@attrs.frozen
class JobEnded(Notification, name="quorate.intake.job-ended"):
    """Answer to `EndJob`."""

    rows: int
    failed: int
    """Rows of which a failure was reported so far."""
    first: str
    """The first failure, one sentence; "" if there was none."""


def chained(chain: bytes, rows: bytes) -> bytes:
    """Return the hash of some chunks from that of all but the last, and the last one. b"" for none."""
    return hashlib.blake2b(rows, digest_size=16, key=chain).digest()


class JobState(msgspec.Struct, array_like=True):
    """What is kept of a job."""

    number: int
    """Its place in the order in which jobs began; also the number of the requests that its rows make."""
    touched_ns: int
    parts: int = 0
    rows: int = 0
    digest: bytes = b""
    failed: int = 0
    first: str = ""
    ended: bool = False


class PartState(msgspec.Struct, array_like=True):
    """What is kept of a part."""

    chunks: int = 0
    chain: bytes = b""


@attrs.define
class IntakeAgent(Agent, name="quorate.intake"):
    """Takes rows in bulk, and sends each as a notification to the agent that it names."""

    last_number: int = 0
    late: int = 0
    """Failures that were reported after their job had ended."""
    jobs: Rows[str, JobState] = attrs.field(factory=Rows[str, JobState])
    numbers: Rows[int, str] = attrs.field(factory=Rows[int, str])
    """The names of the jobs by number."""
    parts: Rows[str, PartState] = attrs.field(factory=Rows[str, PartState])
    """By number of the job and of the part, see `_place`."""

    @reacts
    def begin(self, ctx: Context, note: BeginPart) -> None:
        """Answer with what there is of a part. Raises ValueError for what is no name, and for too many."""
        job = self._job(ctx, note.job)
        if job.ended:
            ctx.send(ctx.reply_to, PartTaken(0, b"", ended=True))
            return
        place = _place(job, note.part)
        part = self.parts.get(place)
        if part is None:
            if not 0 <= note.part < _MAX_PART or job.parts >= MAX_PARTS:
                raise ValueError(f"a job has at most {MAX_PARTS} parts; divide it into fewer")
            part = self.parts[place] = PartState()
            job.parts += 1
        job.touched_ns = ctx.now_ns
        self.jobs[note.job] = job
        ctx.send(ctx.reply_to, PartTaken(part.chunks, part.chain))

    def _job(self, ctx: Context, name: str) -> JobState:
        job = self.jobs.get(name)
        if job is not None:
            return job
        if not 0 < len(name) <= MAX_JOB_CHARS or not name.isprintable():
            raise ValueError(f"the name of a job is printable text of at most {MAX_JOB_CHARS} characters")
        self._make_room(ctx)
        self.last_number += 1
        self.numbers[self.last_number] = name
        return JobState(self.last_number, ctx.now_ns)

    def _make_room(self, ctx: Context) -> None:
        """Forget the job that began first if there are too many."""
        oldest = self.numbers.first()
        if oldest is None or len(self.numbers) < MAX_JOBS:
            return
        name = self.numbers[oldest]
        job = self.jobs[name]
        if not job.ended and ctx.now_ns - job.touched_ns < KEEP_NS:
            raise ValueError(
                f"{MAX_JOBS} jobs are remembered, and the first of them, {name!r}, has not ended: "
                "complete it, or wait until it was left alone for a week"
            )
        self._forget_parts(job)
        del self.jobs[name]
        del self.numbers[oldest]

    def _forget_parts(self, job: JobState) -> None:
        self.parts.drop(_place(job, 0), _place(job, _MAX_PART))

    @reacts
    def take(self, ctx: Context, note: TakeRows) -> None:
        """Send the rows of a chunk, unless it was taken before."""
        job = self.jobs.get(note.job)
        part = None if job is None else self.parts.get(_place(job, note.part))
        if job is None or part is None or (note.chunk, note.chain) != (part.chunks + 1, part.chain):
            return  # Its sender learns from the answer to `EndPart` what was taken.
        try:
            rows = msgspec.msgpack.decode(note.rows, type=list[Row])
        except UNREADABLE as error:
            raise ValueError(f"these are no rows: {error}") from error
        for row in rows:
            self._send(ctx, job, row)
        self.parts[_place(job, note.part)] = PartState(note.chunk, chained(part.chain, note.rows))
        job.rows += len(rows)
        job.touched_ns = ctx.now_ns
        self.jobs[note.job] = job

    def _send(self, ctx: Context, job: JobState, row: Row) -> None:
        """Send one row. What cannot be sent is a failure of the job, as if its agent had refused it."""
        to, name, payload = row
        try:
            _check(to, name)
            ctx.forward(to, name, payload, job.number)
        except (TypeError, ValueError) as error:
            _fail(job, f"{name} to {to!r} cannot be sent: {error}")

    @reacts
    def end_part(self, ctx: Context, note: EndPart) -> None:
        """Answer if all rows of a part were taken. Raises ValueError if others were."""
        job = self.jobs.get(note.job)
        if job is not None and job.ended:
            ctx.send(ctx.reply_to, PartTaken(0, b"", ended=True))
            return
        part = None if job is None else self.parts.get(_place(job, note.part))
        if part is None or (part.chunks, part.chain) != (note.chunks, note.chain):
            raise ValueError(f"part {note.part} of the job {note.job!r} was taken with other rows")
        ctx.send(ctx.reply_to, PartTaken(part.chunks, part.chain))

    @reacts
    def end_job(self, ctx: Context, note: EndJob) -> None:
        """Forget the parts of a job. Raises ValueError if other rows were taken than it is said to have."""
        job = self.jobs.get(note.job)
        if job is None and not note.rows:
            job = self._job(ctx, note.job)  # a job without any row
        if job is None:
            raise ValueError(f"there is no job {note.job!r}; it was forgotten if it began long ago")
        # What the parts have was compared at their ends. A part that has no end here adds to the rows.
        if job.rows != note.rows or (job.ended and job.digest != note.digest):
            raise ValueError(
                f"the job {note.job!r} had other rows, {job.rows}, than these {note.rows}: give other rows "
                "the name of another job"
            )
        if not job.ended:
            self._forget_parts(job)
            job.ended, job.digest = True, note.digest
            job.touched_ns = ctx.now_ns
            self.jobs[note.job] = job
        ctx.send(ctx.reply_to, JobEnded(job.rows, job.failed, job.first))

    # What the recipients answer

    @reacts
    def refused(self, ctx: Context, note: ExceptionNotification) -> None:
        """Count a row whose agent has refused it."""
        self._count(ctx, f"agent {note.agent} has refused {note.type}: {note.error}: {note.message}")

    @reacts
    def unknown(self, ctx: Context, note: UnknownAgent) -> None:
        """Count a row that has no agent."""
        self._count(ctx, f"there is no agent {note.agent!r} for {note.type}")

    def _count(self, ctx: Context, why: str) -> None:
        name = self.numbers.get(ctx.request)
        job = None if name is None else self.jobs.get(name)
        if job is None or name is None or job.ended:
            self.late += 1
            return
        _fail(job, why)
        self.jobs[name] = job

    @reacts
    def answered(self, ctx: Context, note: Opaque) -> None:
        """Ignore what recipients answer. Raises ValueError for what is no answer."""
        if not ctx.request or ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise ValueError(f"an intake takes rows, and no {note.type}")


def _place(job: JobState, part: int) -> str:
    return f"{job.number} {part:012d}"


def _fail(job: JobState, why: str) -> None:
    job.failed += 1
    job.first = job.first or why[:1000]


def _check(to: str, name: str) -> None:
    """Raise ValueError for what no row may do: administer agents, under the name of this agent."""
    if name.startswith("quorate."):
        raise ValueError("rows are notifications of applications")
    if to.startswith("#"):
        address, at, _ = to.partition("@")
        if at or AgentId.parse(address).stamp < FIRST_FREE_STAMP:
            raise ValueError("rows go to agents of applications")
    elif not to:
        raise ValueError("it has no address")
