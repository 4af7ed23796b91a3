"""Rows of a job as notifications, each sent once though tasks are tried again.

`quorate.replay.intake` is the other side.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

import attrs
import msgspec

from ..agents import MAX_NOTIFICATION_BYTES, agent_spec
from ..client.blocking import Connection, connect
from ..client.errors import NotPermitted, QuorateClientError, ReactionError, UnknownAgentError
from .errors import ReplayError
from .intake import (
    INTAKE,
    MAX_CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    BeginPart,
    EndJob,
    EndPart,
    IntakeAgent,
    JobEnded,
    PartTaken,
    Row,
    TakeRows,
    chained,
)

__all__ = ["Target", "chunks", "end_job", "send_part"]

WINDOW: Final = 4
"""Chunks that are sent before it is waited for the cluster to have them. All of them may be one entry of the
log, and so one turn of the engine, which is bounded."""
DIGEST: Final = 16
"""Bytes of the hash of a row."""


@attrs.frozen
class Target:
    """Where rows go, and for which job."""

    url: str
    user: str | None
    password: str | None = attrs.field(repr=False)
    server: str
    """The name of the server that has the intake; "" for that of the connection."""
    job: str
    timeout_s: float

    @property
    def intake(self) -> str:
        """The address of the intake."""
        return f"{INTAKE}@{self.server}" if self.server else INTAKE

    def open(self) -> Connection:
        """Return a connection. Raises QuorateClientError."""
        return connect(
            self.url,
            user=self.user,
            password=self.password,
            timeout=self.timeout_s,
            request_timeout=self.timeout_s,
            reconnect_timeout=self.timeout_s,
        )


def chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Divide rows into chunks; the same rows make the same chunks. Raises ReplayError for one too large."""
    found: list[Row] = []
    size = 0
    for row in rows:
        own = len(row[2])
        if own > MAX_CHUNK_BYTES:
            raise ReplayError(
                f"a row for {row[0]} has {own} bytes, more than {MAX_CHUNK_BYTES}: send it in parts."
            )
        if found and (len(found) == MAX_CHUNK_ROWS or size + own > MAX_CHUNK_BYTES):
            yield found
            found, size = [], 0
        found.append(row)
        size += own
    if found:
        yield found


def row_digest(row: Row) -> int:
    """Return the hash of one row, a number. Those of a job are added: their order does not matter."""
    to, name, payload = row
    hasher = hashlib.blake2b(msgspec.msgpack.encode((to, name)), digest_size=DIGEST)
    hasher.update(payload)
    return int.from_bytes(hasher.digest(), "big")


@attrs.define
class PartCount:
    """What a part of a job has: the number of its rows, and the sum of their hashes."""

    rows: int = 0
    digest: bytes = bytes(DIGEST)

    def add(self, rows: Iterable[Row]) -> None:
        """Count rows."""
        for row in rows:
            self.rows += 1
            self._add(row_digest(row))

    def join(self, other: "PartCount") -> None:
        """Count the rows of another part."""
        self.rows += other.rows
        self._add(int.from_bytes(other.digest, "big"))

    def _add(self, digest: int) -> None:
        total = (int.from_bytes(self.digest, "big") + digest) % (1 << 8 * DIGEST)
        self.digest = total.to_bytes(DIGEST, "big")


def send_part(target: Target, part: int, rows: Iterable[Row]) -> PartCount:
    """Send those rows of a part that were not sent before, and return what the whole part has.

    Raises ReplayError if it had other rows before, or if the cluster cannot be reached.
    """
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return PartCount()  # If there were rows before, the end of the job is refused.
    try:
        with target.open() as connection:
            return _Sending(target, part, connection).run(chain((first,), rows))
    except QuorateClientError as error:
        raise ReplayError(sentence(target, error)) from error


class _Sending:
    def __init__(self, target: Target, part: int, connection: Connection) -> None:
        self._target = target
        self._part = part
        self._connection = connection
        self._count = PartCount()
        self._chunks = 0
        self._chain = b""

    def run(self, rows: Iterable[Row]) -> PartCount:
        job, part = self._target.job, self._part
        taken = self._ask(BeginPart(job, part), make=True)
        pieces = chunks(rows)
        for piece in islice(pieces, taken.chunks):
            self._pass(piece)
        if self._chain != taken.chain:
            raise ReplayError(self._other_rows(taken.chunks))
        for piece in pieces:
            if taken.ended:
                self._count.add(piece)
                continue
            before = self._chain
            data = self._pass(piece)
            note = TakeRows(job, part, self._chunks, before, data)
            self._connection.send_nowait(self._target.intake, note)
            if self._chunks % WINDOW == 0:
                self._connection.flush()
        if not taken.ended:
            self._ask(EndPart(job, part, self._chunks, self._chain))
        return self._count

    def _pass(self, piece: list[Row]) -> bytes:
        """Count a chunk, and return it encoded."""
        data = msgspec.msgpack.encode(piece)
        if len(data) > MAX_NOTIFICATION_BYTES - 4096:
            raise ReplayError("the addresses of these rows are too long to be sent.")
        self._count.add(piece)
        self._chunks += 1
        self._chain = chained(self._chain, data)
        return data

    def _ask(self, note: BeginPart | EndPart, *, make: bool = False) -> PartTaken:
        try:
            answer: PartTaken = self._connection.request(self._target.intake, note, reply=PartTaken)
        except UnknownAgentError:
            if not make:
                raise
            make_intake(self._target, self._connection)
            answer = self._connection.request(self._target.intake, note, reply=PartTaken)
        return answer

    def _other_rows(self, taken: int) -> str:
        return (
            f"part {self._part} of the job {self._target.job!r} has other rows, or another order, than when "
            f"it was first tried, and its first {taken} chunks were sent then: sort the rows of each "
            "partition, or write them to files and send those, so that each attempt has the same."
        )


def make_intake(target: Target, connection: Connection) -> None:
    """Make the intake of a server. Raises ReplayError if the user may not, or QuorateClientError."""
    try:
        connection.create(IntakeAgent, name=INTAKE, server=target.server or None, key=INTAKE)
    except NotPermitted as error:
        raise ReplayError(
            f"the server has no agent {INTAKE}, and the user may not make it: declare it in the "
            f'configuration of the server, <agent class="{agent_spec(IntakeAgent).location}" '
            f'name="{INTAKE}"/>, or send as one of its administrators.'
        ) from error


def end_job(target: Target, counts: Iterable[PartCount]) -> JobEnded:
    """Tell the cluster that all parts of a job were sent; it may be told again.

    Raises ReplayError if the parts are not those that were sent, or if the cluster cannot be reached.
    """
    whole = PartCount()
    for count in counts:
        whole.join(count)
    note = EndJob(target.job, whole.rows, whole.digest)
    try:
        with target.open() as connection:
            ended: JobEnded = connection.request(target.intake, note, reply=JobEnded)
            return ended
    except QuorateClientError as error:
        raise ReplayError(sentence(target, error)) from error


def sentence(target: Target, error: QuorateClientError) -> str:
    """Return what is said of a failure, with what to do."""
    if isinstance(error, ReactionError):
        return f"the job {target.job!r} is refused: {error}"
    return (
        f"the job {target.job!r} could not be sent: {str(error).rstrip('.')}. Send it again with the option "
        f"job set to {target.job!r}: what was taken is not sent twice."
    )
