"""Comparison of state digests and chains at agreed positions, which finds the replicas that differ. Pure."""

from collections.abc import Sequence

import attrs
import msgspec

__all__ = [
    "Answered",
    "Chain",
    "Classes",
    "Difference",
    "DigestBook",
    "DirectMessage",
    "Diverged",
    "Report",
    "Verdict",
    "decode_direct",
    "encode_direct",
    "verdict_sentence",
]

KEPT_POSITIONS = 64
"""Positions whose digests a master keeps while replicas have not reported them."""


class Report(msgspec.Struct, array_like=True, frozen=True, tag="digest"):
    """The digest of a slave's state after entry `index`, sent to the master."""

    index: int
    digest: bytes


class Chain(msgspec.Struct, array_like=True, frozen=True, tag="chain"):
    """The hash of all reactions of a slave up to entry `index`, sent to the master."""

    index: int
    chain: bytes


class Diverged(msgspec.Struct, array_like=True, frozen=True, tag="diverged"):
    """Sent by the master: a replica has been in another state since some entry in (`after`, `index`].

    The receiver is that replica, or one that is asked for the first entry that differs, because the master is
    that replica.
    """

    replica: int
    after: int
    index: int
    outcomes: list[tuple[int, bytes]] = []
    """Outcomes of the master for entries after `after`, with their indices."""


class Difference(msgspec.Struct, array_like=True, frozen=True, tag="difference"):
    """The answer to Diverged: the sentence that says since when, and with which agent, a replica differs."""

    replica: int
    sentence: str


class Answered(msgspec.Struct, array_like=True, frozen=True, tag="answered"):
    """Sent by the master: the outcomes of the last entries whose outputs have left."""

    outcomes: list[tuple[int, bytes]]
    """(index, `Effects.outcome`), in order."""


class Classes(msgspec.Struct, array_like=True, frozen=True, tag="classes"):
    """The versions of agent classes that a slave can run, by name, sent to the master."""

    versions: dict[str, list[int]]


DirectMessage = Report | Chain | Diverged | Difference | Answered | Classes

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[DirectMessage] = msgspec.msgpack.Decoder(DirectMessage)


def encode_direct(message: DirectMessage) -> bytes:
    """Return the bytes of a message, which travels outside of the log."""
    return _encoder.encode(message)


def decode_direct(data: bytes) -> DirectMessage | None:
    """Return the message in the bytes; None if it is of no known kind."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@attrs.frozen
class Verdict:
    """The judgement that a replica of the view is not in the state that most of the others have."""

    replica: int
    after: int
    """The last position at which it agreed; 0 if none is known."""
    index: int
    """The first compared position at which it differs."""
    right: int
    """A replica that has the right state."""

    @property
    def sentence(self) -> str:
        """The verdict for the log, without full stop."""
        return verdict_sentence(self.replica, self.after, self.index)


def verdict_sentence(replica: int, after: int, index: int, first: str = "") -> str:
    """Return the sentence about a replica that differs, without full stop.

    `after` and `index`: see `Verdict`. `first` says which entry differs first, if that is known.
    """
    since = f": {first}" if first else f" since some entry between {after + 1} and {index}"
    return f"replica {replica} is in another state than the others{since}"


class DigestBook:
    """The digests of one kind that the members of a view have reported to its master.

    A position is judged once every member has reported it. The state of most members counts as right; with a
    tie, that of the master, unless it is known to differ from a former master.
    """

    def __init__(self, me: int) -> None:
        self._me = me
        self._positions: dict[int, dict[int, bytes]] = {}
        self._agreed: dict[int, int] = {}

    def clear(self) -> None:
        """Drop all reported digests, because another view begins."""
        self._positions.clear()

    def lacking(self, applied: int) -> list[int]:
        """Return the positions up to `applied` that others have reported, and the master has not."""
        return [
            index
            for index, digests in self._positions.items()
            if index <= applied and self._me not in digests
        ]

    def agree(self, index: int, members: Sequence[int]) -> None:
        """Record that all members agree up to a position: earlier ones need not be judged."""
        for position in [each for each in self._positions if each <= index]:
            del self._positions[position]
        for member in members:
            self._agreed[member] = max(index, self._agreed.get(member, 0))

    def report(
        self, replica: int, index: int, digest: bytes, members: Sequence[int], *, contradicted: bool = False
    ) -> list[Verdict]:
        """Record a digest. Returns the members that differ, once all have reported the position.

        contradicted: the master differs from a former one, so that with a tie it is wrong.
        """
        digests = self._positions.setdefault(index, {})
        digests[replica] = digest
        while len(self._positions) > KEPT_POSITIONS:
            del self._positions[min(self._positions)]
        if any(member not in digests for member in members):
            return []
        self._positions.pop(index, None)
        return self._judge(index, {member: digests[member] for member in members}, contradicted)

    def _judge(self, index: int, digests: dict[int, bytes], contradicted: bool) -> list[Verdict]:
        mine = digests[self._me]
        votes: dict[bytes, int] = {}
        for digest in digests.values():
            votes[digest] = votes.get(digest, 0) + 1
        right = max(votes, key=lambda digest: (votes[digest], (digest == mine) != contradicted))
        holder = next(replica for replica, digest in digests.items() if digest == right)
        differing: list[Verdict] = []
        for replica, digest in digests.items():
            if digest == right:
                self._agreed[replica] = max(index, self._agreed.get(replica, 0))
            else:
                differing.append(Verdict(replica, self._agreed.get(replica, 0), index, holder))
        return differing
