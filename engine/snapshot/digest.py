"""The digest of an engine's state as of one entry, computed step by step while the engine goes on."""

import hashlib

import msgspec

from ..directory import Directory

__all__ = ["IncrementalDigest", "digest_of"]


def digest_of(agents: int, facts: tuple[object, ...]) -> bytes:
    """The digest of a state: the sum over its agents, and what it is besides."""
    packed = msgspec.msgpack.encode((agents.to_bytes(16, "big"), *facts))
    return hashlib.blake2b(packed, digest_size=16).digest()


class IncrementalDigest:
    """The digest as of the moment at which `Engine.incremental_digest` made this.

    An agent that is about to change is looked at before. So no step takes long, however many agents had
    changed, and the engine may go on between two.
    """

    def __init__(self, directory: Directory, facts: tuple[object, ...]) -> None:
        self._directory = directory
        self._tally = directory.tally()
        self._facts = facts

    def of(self, directory: Directory) -> bool:
        """Whether it is about these agents."""
        return directory is self._directory

    @property
    def left(self) -> int:
        """Agents to look at."""
        return len(self._tally.pending)

    @property
    def digest(self) -> bytes:
        """What `Engine.digest` would have given; looks at all that is left."""
        self._directory.count(self._tally)
        return digest_of(self._tally.total, self._facts)

    def step(self, limit: int | None = None, max_bytes: int | None = None) -> bool:
        """Look at up to `limit` agents, or at `max_bytes` of them. Returns True once nothing is left."""
        return self._directory.count(self._tally, limit, max_bytes)

    def close(self) -> None:
        """Nobody wants it."""
        self._directory.forget(self._tally)
