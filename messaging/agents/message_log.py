"""The messages of a destination: packs by the number of their first message, each until it is done with."""

from collections.abc import Iterable, Iterator

import attrs
import msgspec

from ...agents import Pack, Rows
from .ranges import Range

__all__ = ["MessageLog", "Share", "Stored"]


class Share(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is known of a stored pack without reading it."""

    count: int
    """Its messages."""
    size_bytes: int
    """The bytes of their bodies."""
    left: int
    """For how many subscriptions its messages are not done with, all together."""


@attrs.define
class Stored:
    """How much a destination has stored."""

    messages: int = 0
    """Messages of its packs."""
    size_bytes: int = 0
    """Bytes of their bodies."""


@attrs.frozen
class MessageLog:
    """The packs of a destination, read and written by message number. Each use costs the packs it touches."""

    packs: Rows[int, Pack]
    """By the number of the first message."""
    shares: Rows[int, Share]
    """What is known of each pack, by the number of its first message."""
    stored: Stored

    @property
    def messages(self) -> int:
        """Messages of the packs that are stored."""
        return self.stored.messages

    @property
    def size_bytes(self) -> int:
        """Bytes of their bodies."""
        return self.stored.size_bytes

    def append(self, first: int, pack: Pack, left: int) -> None:
        """Store a pack whose messages have the numbers from `first` on, which is above all others.

        left: as in `Share`.
        """
        self.packs[first] = pack
        self.shares[first] = Share(len(pack), len(pack.data), left)
        self.stored.messages += len(pack)
        self.stored.size_bytes += len(pack.data)

    def places(self, ranges: Iterable[Range]) -> Iterator[tuple[int, Share, int, int]]:
        """Yield the packs of these messages: key, what is known, index of the first message, and their count.

        Ignores numbers of packs that are not stored.
        """
        for first, end in ranges:
            while first < end:
                key = self.shares.floor(first)
                if key is None:
                    break
                share = self.shares[key]
                count = min(end, key + share.count) - first
                if count <= 0:
                    break
                yield key, share, first - key, count
                first += count

    def read(self, ranges: Iterable[Range]) -> Iterator[tuple[int, Pack]]:
        """Yield these messages: the number of the first, and the pack of it and those after it."""
        for key, _, index, count in self.places(ranges):
            yield key + index, self.packs[key].part(index, count)

    def size_of(self, ranges: Iterable[Range]) -> int:
        """Return about how many bytes the bodies have: messages of one pack count alike."""
        return sum([share.size_bytes * count // share.count for _, share, _, count in self.places(ranges)])

    def done(self, ranges: Iterable[Range]) -> None:
        """One subscription is done with these messages; drop packs that nobody needs any more."""
        for key, _, _, count in list(self.places(ranges)):
            # A pack may come several times: what is known of it may have changed.
            share = self.shares[key]
            if share.left > count:
                self.shares[key] = msgspec.structs.replace(share, left=share.left - count)
                continue
            del self.packs[key]
            del self.shares[key]
            self.stored.messages -= share.count
            self.stored.size_bytes -= share.size_bytes
