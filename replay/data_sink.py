"""Rows of a DataFrame as notifications: what ``frame.write.format("quorate")`` and ``writeStream`` do.

Options: ``url``, ``user``, ``password``, ``to``, ``type``, ``job``, ``refusals``, ``server`` and
``timeoutSeconds``; docs/replay.md says what they mean. Import it only where pyspark is installed.
"""

import importlib
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ..agents import Notification, known_type, read
from ..agents.fields import field_names
from ..agents.notification import UNREADABLE
from .errors import ReplayError
from .intake import JobEnded, Row
from .sender import PartCount, Target, end_job, send_part
from .source_options import one_of

__all__ = ["StreamWriter", "Writer"]

_PAYLOAD: Final = "payload"
Fields = Callable[[dict[str, Any]], tuple[str, str, bytes]]


@attrs.frozen
class Sink:
    """What the options of a writer say."""

    target: Target
    to: str | None
    """The address of all rows; None: it is the column ``to``."""
    kind: str | None
    """The type of all rows; None: it is the column ``type``."""
    refusals: bool
    """Whether it is an error if an agent refuses a row."""

    @classmethod
    def read(cls, options: Mapping[str, str], columns: Sequence[str]) -> "Sink":
        """Return what the options say. Raises ReplayError for those that cannot be, or lack something."""
        url = options.get("url")
        if not url:
            raise ReplayError('tell where the rows go: .option("url", "quorate://HOST:PORT,HOST:PORT").')
        to, name = options.get("to"), options.get("type")
        for option, column in ((to, "to"), (name, "type")):
            if option is None and column not in columns:
                raise ReplayError(
                    f"the rows have no column {column!r}; make one, or set the option {column}."
                )
        refusals = one_of(options, "refusals", ("error", "ignore"))
        try:
            timeout_s = float(options.get("timeoutSeconds") or 120)
        except ValueError:
            timeout_s = 0.0
        if not 0 < timeout_s < 1e6:
            raise ReplayError("the option timeoutSeconds is a number of seconds above 0.")
        target = Target(
            url,
            options.get("user"),
            options.get("password") or os.environ.get("QUORATE_PASSWORD"),
            options.get("server") or "",
            options.get("job") or uuid.uuid4().hex,
            timeout_s,
        )
        return cls(target, to, name, refusals == "error")

    def rows(self, batches: Iterable[Any]) -> Iterator[Row]:
        """Yield the rows of batches of pyarrow. Raises ReplayError for one that is no such notification."""
        cls = None if self.kind is None else notification_class(self.kind)
        for batch in batches:
            self._check_fields(batch.schema.names, cls)
            for values in batch.to_pylist():
                yield self._row(values, cls)

    def _check_fields(self, columns: Sequence[str], cls: type[Notification] | None) -> None:
        """Raise ReplayError for columns that a class has no fields for: their values would be lost."""
        addresses = {name for name, given in (("to", self.to), ("type", self.kind)) if given is None}
        own = [name for name in columns if name not in addresses]
        known = field_names(cls) if cls is not None and own != [_PAYLOAD] else None
        if known is not None and not set(own) <= set(known):
            lost = sorted(set(own) - set(known))
            raise ReplayError(
                f"{self.kind} has no field {', '.join(lost)}: drop that column; its fields are "
                f"{', '.join(known) or 'none'}."
            )

    def _row(self, values: dict[str, Any], cls: type[Notification] | None) -> Row:
        to = values.pop("to") if self.to is None else self.to
        name = values.pop("type") if self.kind is None else self.kind
        if not (isinstance(to, str) and to and isinstance(name, str) and name):
            raise ReplayError(f"a row has the address {to!r} and the type {name!r}; both are text.")
        kind = known_type(name) if cls is None else cls
        if list(values) == [_PAYLOAD] and isinstance(values[_PAYLOAD], bytes | bytearray):
            payload = bytes(values[_PAYLOAD])
        else:
            try:
                payload = msgspec.msgpack.encode(values)
            except (TypeError, ValueError, OverflowError) as error:
                raise ReplayError(f"a row for {to} cannot be sent as {name}: {error}.") from error
        if kind is not None:
            try:
                read(kind, name, payload)
            except UNREADABLE as error:
                raise ReplayError(f"a row for {to} is no {name}: {error}.") from error
        return to, name, payload

    def end(self, job: str, counts: Iterable[PartCount]) -> None:
        """End a job. Raises ReplayError if agents have refused rows, unless that is no error."""
        ended = end_job(attrs.evolve(self.target, job=job), counts)
        if ended.failed and self.refusals:
            raise ReplayError(refused(job, ended))


def refused(job: str, ended: JobEnded) -> str:
    """Return what is said of refused rows."""
    return (
        f"all {ended.rows} rows of the job {job!r} were sent, once each, and {ended.failed} of them were "
        f"refused: {ended.first}. The option refusals=ignore makes this no error."
    )


def notification_class(name: str) -> type[Notification] | None:
    """Return the class of a type, None if it cannot be imported here: its agent will check the rows."""
    module, colon, _ = name.partition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ImportError:
            return None
    return known_type(name)


class Sent(WriterCommitMessage):
    """What a task has sent."""

    def __init__(self, job: str, count: PartCount) -> None:
        self.job = job
        self.count = count


def sent(messages: Iterable[WriterCommitMessage | None]) -> list[Sent]:
    """Return the messages of the tasks."""
    return [each for each in messages if isinstance(each, Sent)]


class Writer(DataSourceArrowWriter):
    """Sends the rows of a DataFrame. A part of the job is a partition."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ReplayError('what was sent cannot be overwritten; write with .mode("append").')
        self._sink = Sink.read(options, schema.fieldNames())

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of a partition."""
        target = self._sink.target
        return Sent(target.job, send_part(target, task().partitionId(), self._sink.rows(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the job."""
        self._sink.end(self._sink.target.job, [each.count for each in sent(messages)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was sent was sent, and the job can be gone on with."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of a stream. A job is a batch of a query."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._sink = Sink.read(options, schema.fieldNames())

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of a partition of a batch."""
        here = task()
        query = here.getLocalProperty("sql.streaming.queryId")
        batch = here.getLocalProperty("streaming.sql.batchId")
        if not query or not batch:
            raise ReplayError("Spark does not tell which batch of which query this is; it is too old.")
        target = attrs.evolve(self._sink.target, job=f"{query}@{batch}")
        return Sent(target.job, send_part(target, here.partitionId(), self._sink.rows(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """End the job of a batch."""
        del batchId
        found = sent(messages)
        if found:
            self._sink.end(found[0].job, [each.count for each in found])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the batch is tried again, and goes on where this attempt has ended."""


def task() -> TaskContext:
    """Return the task that this process does. Raises ReplayError outside of one."""
    found = TaskContext.get()
    if found is None:
        raise ReplayError("rows are sent by tasks of Spark only.")
    return found
