"""Cost of the journal on top of the disk: its synced writes beside plain ones of the same bytes.

There are two plain files: one is appended to, with an fsync for each write; the other has its full length
from the start and is overwritten, with the fastest kind of sync that the system has. The second is the bound
of the disk, the first that of a plain log. All three take turns, write by write, on the same disk in the same
run, so that other load of the machine affects all of them. The second table shows the use in a server:
entries come one by one, and those that wait are written together.

    .venv/bin/python -m benchmarks.journal [--seconds 3] [--directory DIR]
"""

import argparse
import os
import queue
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from quorate.hachannel.journal.journal import Identity, Journal
from quorate.hachannel.model.log import Appended, Committed, LogRecord
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import ViewNumber
from quorate.server.storage.disk_writer import DiskWriter
from quorate.server.storage.state_store import SCHEMA, StateStore

VIEW = ViewNumber(1, 0, 1)
ME = Identity("benchmark", "s0", 0)
KEPT = 2048
KEPT_BYTES = 24 * 1024 * 1024
"""Bounds of the entries kept; older ones are trimmed. A server keeps 16 MiB for slaves that were away, and
the entries since its last snapshot, about 8 MiB."""
WARM_BYTES = 3 * KEPT_BYTES
"""Bytes written before the measurement, so that the journal has its final length."""
IN_PLACE_BYTES = 64 * 1024 * 1024
ROUNDS = 9
"""Rounds of a measurement; the ratios are their medians."""


class Append:
    """A file that is appended to and synced."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def write(self, data: bytes) -> None:
        """Append and sync."""
        os.write(self._file, data)
        os.fsync(self._file)

    def close(self) -> None:
        """Close."""
        os.close(self._file)


class InPlace:
    """A file of a fixed length, overwritten from the beginning again and again."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        for _ in range(IN_PLACE_BYTES // (1 << 20)):
            os.write(self._file, bytes(1 << 20))
        os.fsync(self._file)
        self._at = 0

    def write(self, data: bytes) -> None:
        """Overwrite and sync."""
        if self._at + len(data) > IN_PLACE_BYTES:
            self._at = 0
        if hasattr(os, "RWF_DSYNC"):
            os.pwritev(self._file, [data], self._at, os.RWF_DSYNC)
        else:
            os.pwrite(self._file, data, self._at)
            os.fsync(self._file)
        self._at += len(data)

    def close(self) -> None:
        """Close."""
        os.close(self._file)


def entries(first: int, count: int, payload: bytes) -> tuple[Entry, ...]:
    """Return entries as a master makes them."""
    return tuple(Entry(VIEW, first + number, 0, payload) for number in range(count))


def side_by_side(place: Path, size: int, count: int, seconds: float) -> list[tuple[float, ...]]:
    """Return the writes in a second of `count` entries of `size` bytes, to each file, for each round."""
    append, over, journal = (
        Append(place / "append"),
        InPlace(place / "over"),
        Journal.open(place / "journal.db", ME, 1),
    )
    payload = os.urandom(size)
    kept = min(KEPT, KEPT_BYTES // size)
    last = 0
    if count * size > 100_000:
        # Small writes spend no time on the space they take.
        while last * size < WARM_BYTES:
            last += 8
            journal.write([Appended(entries(last - 7, 8, payload))], trim=max(0, last - kept))
            append.write(payload * 8)
    rates: list[tuple[float, ...]] = []
    writes = 0
    for _ in range(ROUNDS):
        spent = [0.0, 0.0, 0.0]
        before = writes
        while sum(spent) < seconds / ROUNDS or writes - before < 3:
            records: list[LogRecord] = [Appended(entries(last + 1, count, payload)), Committed(last)]
            last += count
            # The order changes, so that no file always follows the same one.
            for turn in range(3):
                which = (writes + turn) % 3
                began = time.perf_counter()
                if which == 0:
                    append.write(payload * count)
                elif which == 1:
                    over.write(payload * count)
                else:
                    journal.write(records, trim=max(0, last - kept))
                spent[which] += time.perf_counter() - began
            writes += 1
        rates.append(tuple((writes - before) / each for each in spent))
    for each in (append, over, journal):
        each.close()
    return rates


def grouped(place: Path, size: int, window: int, seconds: float) -> tuple[float, float]:
    """Return the entries made durable per second, with `window` of them waiting, and the syncs per second."""
    journal = Journal.open(place / "journal.db", ME, 1, schema=SCHEMA)
    calls: queue.SimpleQueue[tuple[Callable[..., None], Sequence[Any]]] = queue.SimpleQueue()
    durable = [0]

    def confirmed(token: int) -> None:
        durable[0] = token

    def failed(sentence: str) -> None:
        raise SystemExit(sentence)

    disk = DiskWriter(
        journal, StateStore(place), lambda call, *args: calls.put((call, args)), confirmed, failed
    )
    payload = os.urandom(size)
    last = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        while last - durable[0] < window:
            last += 1
            disk.write([Appended(entries(last, 1, payload))], last)
        call, args = calls.get()
        call(*args)
    took = time.perf_counter() - began
    result = durable[0] / took, disk.writes / took
    disk.close()
    return result


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; default: the temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        print("synced writes/s      appended   in place    journal   of appended  of in place")
        for size, count in ((200, 1), (4096, 1), (16 * 1024, 8), (128 * 1024, 1), (128 * 1024, 8)):
            place = Path(directory) / f"{size}-{count}"
            place.mkdir()
            rounds = side_by_side(place, size, count, options.seconds)
            append, over, journal = map(statistics.median, zip(*rounds, strict=True))
            of = [statistics.median(each[2] / each[plain] for each in rounds) for plain in (0, 1)]
            print(
                f"{count} x {size:>7,} B      {append:9,.0f}  {over:9,.0f}  {journal:9,.0f}"
                f"  {of[0]:>12.2f} {of[1]:>12.2f}"
            )
        print("\none by one               entries/s   syncs/s   entries per sync")
        for size, window in ((200, 1), (200, 64), (16 * 1024, 64), (128 * 1024, 64)):
            place = Path(directory) / f"group-{size}-{window}"
            place.mkdir()
            rate, syncs = grouped(place, size, window, options.seconds)
            print(f"{size:>7,} B, {window:>3} waiting   {rate:9,.0f} {syncs:9,.0f}   {rate / syncs:9.1f}")


if __name__ == "__main__":
    main()
