"""The digest of an engine's state as of one entry, computed step by step while the engine applies others."""

import hashlib

import msgspec

from ..directory import Directory

__all__ = ["IncrementalDigest", "digest_of"]


def digest_of(agents: int, facts: tuple[object, ...]) -> bytes:
    """Return the digest of a state from `agents`, the sum of the agents' hashes, and `facts`, the rest."""
    packed = msgspec.msgpack.encode((agents.to_bytes(16, "big"), *facts))
    return hashlib.blake2b(packed, digest_size=16).digest()


class IncrementalDigest:
    """The digest as of the moment at which `Engine.incremental_digest` made this.

    An agent that is about to change is hashed before. So each step is short, independent of the number of
    changed agents, and the engine may apply entries between two steps.
    """

    def __init__(self, directory: Directory, facts: tuple[object, ...]) -> None:
        self._directory = directory
        self._tally = directory.tally()
        self._facts = facts

    def of(self, directory: Directory) -> bool:
        """Return whether this is the digest of these agents."""
        return directory is self._directory

    @property
    def left(self) -> int:
        """Number of agents that are not hashed yet."""
        return len(self._tally.pending)

    @property
    def digest(self) -> bytes:
        """The digest that `Engine.digest` would have returned at that moment. Hashes all remaining agents."""
        self._directory.count(self._tally)
        return digest_of(self._tally.total, self._facts)

    def step(self, limit: int | None = None, max_bytes: int | None = None) -> bool:
        """Hash up to `limit` agents, or about `max_bytes` of them. Return True once nothing is left."""
        return self._directory.count(self._tally, limit, max_bytes)

    def close(self) -> None:
        """Abandon the digest."""
        self._directory.forget(self._tally)
