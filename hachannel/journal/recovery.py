"""Recovery: reading the frames of a journal at the start of a replica."""

from collections.abc import Sequence

import msgspec

from ..model.messages import Entry
from .durable_log import Remembered
from .frame_file import FrameFile, FramesCorrupt
from .rows import UNREADABLE, Corrupt

__all__ = ["Frame", "check", "recover"]


class Frame(msgspec.Struct, array_like=True):
    """The body of a frame: one write to a journal."""

    remembered: Remembered
    """The facts after this write."""
    entries: Sequence[Entry]
    """The new entries. They replace all earlier ones from the index of the first on."""
    count: int
    """`Manifest.count` at this write: with a lower count in the database, a transaction was lost."""
    outcomes: Sequence[tuple[int, bytes]] = ()
    """(index, outcome) of entries that were applied before this write: see `Applied`."""


_decode_frame = msgspec.msgpack.Decoder(Frame).decode


def recover(frames: FrameFile, stored: Remembered) -> tuple[Remembered, list[Entry], dict[int, bytes]]:
    """Return the facts after the last frame, the entries kept, and the recorded outcomes by index.

    stored: the facts when the manifest was stored. They replace those in all frames up to then.
    Raises Corrupt, OSError.
    """
    entries: list[Entry] = []
    outcomes: dict[int, bytes] = {}
    manifest = frames.last
    remembered = stored
    for found in frames.read():
        try:
            frame = _decode_frame(found.body)
        except UNREADABLE:
            raise FramesCorrupt(f"frame {found.number} cannot be read") from None
        if frame.count > manifest.count:
            raise Corrupt("the last transaction of its database is lost")
        first = frame.entries[0].index if frame.entries else frame.remembered.last + 1
        _cut(entries, first - 1)
        entries += frame.entries
        outcomes.update(frame.outcomes)
        frames.hold(first, frame.remembered.last)
        if found.number > manifest.number:
            remembered = frame.remembered
        elif found.number == manifest.number:
            # The database may have stored later facts, without a frame.
            _cut(entries, stored.last)
            frames.hold(stored.last + 1, stored.last)
    base = remembered.base.at
    return remembered, [entry for entry in entries if entry.index > base], outcomes


def _cut(entries: list[Entry], last: int) -> None:
    while entries and entries[-1].index > last:
        entries.pop()


def check(remembered: Remembered, entries: Sequence[Entry]) -> None:
    """Check that the entries are exactly those from base + 1 to last. Raises Corrupt."""
    base, last = remembered.base.at, remembered.last
    wanted = next((base + at for at, entry in enumerate(entries, 1) if entry.index != base + at), None)
    if wanted is None and base + len(entries) == last:
        return
    if wanted is None:
        wanted = base + len(entries) + 1
    flaw = "missing" if wanted <= last else "too many"
    raise Corrupt(f"it should hold entries {base + 1} to {last}, and entry {wanted} is {flaw}")
