"""The outcome of an entry: what its reactions did, in a few bytes, to be compared with another application.

A replica writes it to its journal. At a start the entries after the saved state are applied once more, and
have to end as they ended before: a client was told the result. Replicas of one view also compare their
outcomes with each other.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

import attrs

from ..agents import AgentId
from .reaction import Reaction

__all__ = ["EARLIER", "Reacted", "Terms", "difference", "encode_outcome", "mark_of", "on_replica"]

MAX_MARKS: Final = 64
"""Marks in the outcome of one entry; with more reactions, several share a mark."""

_HEAD: Final = struct.Struct(">8sI")
_MARK_BYTES: Final = 5
_FAILED: Final = 1
_KINDS: Final = {"react": 0, "create": 2, "delete": 3, "deadletter": 4, "upgrade": 5}


class Reacted(NamedTuple):
    """What a sentence says of a reaction: a `Reaction` without what takes memory."""

    agent: AgentId
    cls: str
    type: str
    name: str
    error: str


@attrs.frozen
class Terms:
    """Words for the two applications of an entry that are compared."""

    than: str
    there: str
    where: str
    here: str


EARLIER: Final = Terms("than before", "then", "before", "now")
"""The same replica has applied the entry before."""


def on_replica(here: int, other: int) -> Terms:
    """Return the words for an application by the replica `here`, compared with that by `other`."""
    there = f"on replica {other}"
    return Terms(f"on replica {here} than {there}", there, there, f"on replica {here}")


def mark_of(reaction: Reaction, saved: bytes) -> int:
    """Return the mark of a reaction: its kind, and a checksum of its outputs and of the state it saved.

    `saved` is the state of the agent if this reaction saved it and every replica saves the same bytes.
    """
    error = reaction.error
    if not error and reaction.kind == "react":
        return crc32(saved, crc32(reaction.outputs))
    kind = _FAILED if reaction.kind == "react" else _KINDS[reaction.kind]
    return kind << 32 | crc32(saved, crc32(reaction.outputs or error.encode()))


def encode_outcome(chain: bytes, marks: Sequence[int]) -> bytes:
    """Return the outcome of an entry. `chain` is the engine's hash of all reactions up to its end."""
    return _HEAD.pack(chain[:8], len(marks)) + b"".join(_folded(marks, len(marks)))


def _folded(marks: Sequence[int], count: int) -> list[bytes]:
    """Return the encoded marks of an entry of `count` reactions, at most `MAX_MARKS` of them."""
    encoded = [mark.to_bytes(_MARK_BYTES, "big") for mark in marks]
    share = -(-count // MAX_MARKS)
    if share <= 1:
        return encoded
    groups = [encoded[start : start + share] for start in range(0, len(encoded), share)]
    return [group[0][:1] + crc32(b"".join(group)).to_bytes(4, "big") for group in groups]


def difference(
    recorded: bytes,
    chain: bytes,
    marks: Sequence[int],
    trace: Sequence[Reaction | Reacted],
    terms: Terms = EARLIER,
) -> str:
    """Return how an entry ended otherwise here than `recorded` says, "" if it did not.

    `chain`, `marks` and `trace` are those of this replica, now. The text is the rest of a sentence that
    begins with the entry; `terms` say where `recorded` comes from.
    """
    former, count = _HEAD.unpack_from(recorded)
    if former == chain[:8]:
        return ""
    body = recorded[_HEAD.size :]
    before = [body[start : start + _MARK_BYTES] for start in range(0, len(body), _MARK_BYTES)]
    now = _folded(marks, count)
    differs = [number for number, (one, other) in enumerate(zip(before, now, strict=False)) if one != other]
    if not differs and len(marks) == count:
        return f"ended otherwise {terms.than}"
    share = max(1, -(-count // MAX_MARKS))
    first = differs[0] if differs else min(len(before), len(now))
    place = first * share
    if place >= len(trace):
        return f"had {count} reactions {terms.where}, and has {len(trace)} {terms.here}"
    reaction = trace[place]
    name = f" {reaction.name!r}" if reaction.name else ""
    where = f"agent {reaction.agent}{name} ({reaction.cls or 'the platform'}) reacted to {reaction.type}"
    said = f"ended otherwise {terms.than}: {where}"
    if share > 1:
        return f"{said}, or did one of the next {share - 1} reactions, otherwise"
    failed = first < len(before) and before[first][0] == _FAILED
    if reaction.error and not failed:
        return f"{said} with success {terms.there}, and fails {terms.here}: {reaction.error}"
    if failed and not reaction.error:
        return f"{said} with a failure {terms.there}, and succeeds {terms.here}"
    return f"{said} with another result"
