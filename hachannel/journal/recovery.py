"""Recovery: the frames of a journal, read at a start."""

from collections.abc import Sequence

import msgspec

from ..model.messages import Entry
from .durable_log import Remembered
from .frame_file import FrameFile, FramesCorrupt
from .rows import UNREADABLE, Corrupt

__all__ = ["Frame", "check", "recover"]


class Frame(msgspec.Struct, array_like=True):
    """Frame: one write to a journal, in its file."""

    remembered: Remembered
    """After this write."""
    entries: Sequence[Entry]
    """Those of this write; earlier ones from the first of them on are gone."""
    count: int
    """How often a manifest had been stored: a transaction of the database that is lost is noticed."""


_decode_frame = msgspec.msgpack.Decoder(Frame).decode


def recover(frames: FrameFile, stored: Remembered) -> tuple[Remembered, list[Entry]]:
    """Return what is remembered after the last frame, and the entries kept then. Raises Corrupt, OSError.

    `stored` is what was remembered when the manifest was made: all there is to know of up to then.
    """
    entries: list[Entry] = []
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
        frames.hold(first, frame.remembered.last)
        if found.number > manifest.number:
            remembered = frame.remembered
        elif found.number == manifest.number:
            # More may have been remembered since, without a frame.
            _cut(entries, stored.last)
            frames.hold(stored.last + 1, stored.last)
    base = remembered.base.at
    return remembered, [entry for entry in entries if entry.index > base]


def _cut(entries: list[Entry], last: int) -> None:
    while entries and entries[-1].index > last:
        entries.pop()


def check(remembered: Remembered, entries: Sequence[Entry]) -> None:
    """Check that the entries are all those from base + 1 to last. Raises Corrupt."""
    base, last = remembered.base.at, remembered.last
    wanted = next((base + at for at, entry in enumerate(entries, 1) if entry.index != base + at), None)
    if wanted is None and base + len(entries) == last:
        return
    if wanted is None:
        wanted = base + len(entries) + 1
    flaw = "missing" if wanted <= last else "too many"
    raise Corrupt(f"it should hold entries {base + 1} to {last}, and entry {wanted} is {flaw}")
