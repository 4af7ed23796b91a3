"""The process in which `LocalSession.each_agent` runs agents.

It reads the worker and its rows from standard input, and writes the results to standard output. Both sides
use the same version of this package, so what they say to each other is nobody else's format.
"""

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

import msgspec

from .schema import arrow_types

__all__ = ["Work", "main", "pack"]


class Work(msgspec.Struct):
    """What a process is to do."""

    module: str
    cls: str
    """The class of the worker, a msgspec.Struct that is called with record batches."""
    worker: msgspec.Raw
    result: str
    """The schema of its results, as Spark SQL text."""


def pack(worker: msgspec.Struct, result: str) -> bytes:
    """Return a piece of work as it goes through the pipe."""
    kind = type(worker)
    raw = msgspec.Raw(msgspec.msgpack.encode(worker))
    body = msgspec.msgpack.encode(Work(kind.__module__, kind.__qualname__, raw, result))
    return len(body).to_bytes(8, "big") + body


def main() -> None:
    """Run the worker."""
    # Whoever interrupts the command ends this process through the pipes, without a word of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # what an agent prints is no result
        run(sys.stdin.buffer, output)


def run(source: BinaryIO, output: BinaryIO) -> None:
    """Read a worker and its rows, and write what it makes of them."""
    arrow: Any = import_module("pyarrow")
    size = int.from_bytes(source.read(8), "big")
    work = msgspec.msgpack.decode(source.read(size), type=Work)
    kind: Any = getattr(import_module(work.module), work.cls)
    worker: Callable[[Any], Any] = msgspec.msgpack.decode(work.worker, type=kind)
    results = arrow_types(work.result)
    with arrow.ipc.open_stream(source) as rows, arrow.ipc.new_stream(output, results) as stream:
        for batch in worker(rows):
            stream.write_batch(batch)
