"""The header of a stored state: everything but the agents."""

from typing import Final

import msgspec

from ...agents import AgentId
from ..causal_order import CausalState
from ..dead_letters import DeadLetter
from ..paused import PausedState
from ..server_links import LinkState
from ..timers import Timer

__all__ = ["Snapshot", "SnapshotError", "SnapshotTooEarly", "another_life", "encode_header", "read_header"]

_VERSION: Final = 3
_READ: Final = (2, 3)
"""Versions that this program reads. The first has no paused agents, kept dead letters and declared agents."""


class SnapshotError(ValueError):
    """Raised for a stored or received state that cannot be used. The text is one sentence."""


class SnapshotTooEarly(SnapshotError):
    """Raised for a received state with versions of agent classes that this process can only upgrade.

    The state from after the switch of the server to the later versions can be used.
    """


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an engine without its agents."""

    version: int = _VERSION
    server: int
    birth: int
    applied: int
    now_ns: int
    position: int
    next_stamp: int
    rows_made: int = 0
    """How many rows were ever made."""
    dead_letters: int
    chain: bytes
    links: list[LinkState]
    timers: list[Timer]
    keys: dict[str, AgentId]
    declared: dict[str, AgentId] = {}
    """By key, agents that the configuration declares and that were made."""
    paused: list[PausedState] = []
    letters: list[DeadLetter] = []
    versions: dict[str, int] = {}
    """The versions of agent classes in use: see `VersionTable`."""
    clocks: list[CausalState] = []
    """Of the domains with causal order."""


_encoder = msgspec.msgpack.Encoder()


def encode_header(header: Snapshot) -> bytes:
    """Return the bytes of a header."""
    return _encoder.encode(header)


def read_header(data: bytes, server: int) -> Snapshot:
    """Return the header in the bytes. Raises SnapshotError if it cannot be used by `server`."""
    try:
        header = msgspec.msgpack.decode(data, type=Snapshot)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"the snapshot's header is damaged: {error}") from error
    if header.version not in _READ:
        raise SnapshotError(
            f"the snapshot has version {header.version}, this program reads {_READ[0]} to {_VERSION}; "
            "upgrade it"
        )
    if header.server != server:
        raise SnapshotError(f"the snapshot is of server {header.server}, not of {server}")
    return header


def another_life(data: bytes, server: int, birth: int) -> bytes:
    """Return a header with which the state goes on as another life of its server.

    Other servers then number what they exchange with it anew: what waits for them here is sent, once more if
    they had it, and nothing of theirs is taken for known. The order of a causal domain begins anew, too.
    birth: the time at which the life begins, in nanoseconds since 1970. Raises SnapshotError, also if
    notifications wait whose places in a causal order are those of the former life.
    """
    header = read_header(data, server)
    stamped = next((each.server for each in header.links if each.stamps), None)
    if stamped is not None:
        raise SnapshotError(
            f"notifications for server {stamped} wait in a domain with causal order, and their places in it "
            "belong to the former life of the server"
        )
    links = [msgspec.structs.replace(each, peer_birth=0, received=0, first_seq=1) for each in header.links]
    later = max(birth, header.birth + 1)
    return encode_header(msgspec.structs.replace(header, birth=later, links=links, clocks=[]))
