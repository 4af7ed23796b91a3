"""The form of a snapshot: a header, then the agents, in chunks."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ..agents import AgentId
from .directory import AgentState
from .links import LinkState
from .timers import Timer

__all__ = ["Snapshot", "SnapshotError", "encode_header", "read_header", "read_snapshot", "write_snapshot"]

_CHUNK_BYTES: Final = 1024 * 1024
_VERSION: Final = 1


class SnapshotError(ValueError):
    """A snapshot cannot be used. The sentence says why."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an engine, but for its agents."""

    version: int = _VERSION
    server: int
    birth: int
    applied: int
    now_ns: int
    position: int
    next_stamp: int
    dead_letters: int
    chain: bytes
    links: list[LinkState]
    timers: list[Timer]
    keys: dict[str, AgentId]


_encoder = msgspec.msgpack.Encoder()
_agents: msgspec.msgpack.Decoder[list[AgentState]] = msgspec.msgpack.Decoder(list[AgentState])


def write_snapshot(header: Snapshot, agents: Iterable[AgentState]) -> list[bytes]:
    """The chunks: the first holds the header, the others lists of agents of about a megabyte."""
    chunks = [_encoder.encode(header)]
    some: list[AgentState] = []
    size = 0
    for agent in agents:
        some.append(agent)
        size += len(agent.state) + 64
        if size >= _CHUNK_BYTES:
            chunks.append(_encoder.encode(some))
            some, size = [], 0
    if some:
        chunks.append(_encoder.encode(some))
    return chunks


def read_snapshot(chunks: Iterable[bytes], server: int) -> tuple[Snapshot, Iterator[AgentState]]:
    """The header, and the agents one by one. Raises SnapshotError."""
    rest = iter(chunks)
    return read_header(next(rest, b""), server), _read_agents(rest)


def encode_header(header: Snapshot) -> bytes:
    """The bytes of a header."""
    return _encoder.encode(header)


def read_header(data: bytes, server: int) -> Snapshot:
    """The header. Raises SnapshotError."""
    try:
        header = msgspec.msgpack.decode(data, type=Snapshot)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"the snapshot's header is damaged: {error}") from error
    if header.version != _VERSION:
        raise SnapshotError(
            f"the snapshot has version {header.version}, this program reads {_VERSION}; upgrade it"
        )
    if header.server != server:
        raise SnapshotError(f"the snapshot is of server {header.server}, not of {server}")
    return header


def _read_agents(chunks: Iterable[bytes]) -> Iterator[AgentState]:
    for chunk in chunks:
        try:
            yield from _agents.decode(chunk)
        except msgspec.DecodeError as error:
            raise SnapshotError(f"a chunk of the snapshot is damaged: {error}") from error
