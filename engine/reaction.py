"""The record of a reaction: one row of a trace."""

import hashlib

import msgspec

from ..agents import AgentId, Outcome

__all__ = ["Reaction", "outputs_hash"]


class Reaction(msgspec.Struct, frozen=True, gc=False):
    """One reaction of one agent, as every replica of the server ran it."""

    position: int
    """Counts the reactions of the server, without gap, from 1."""
    index: int
    """The entry of the ordered log."""
    step: int
    """Counts the reactions within the entry, from 0."""
    now_ns: int
    agent: AgentId
    cls: str
    """The name of the agent's class: ``bank.account/1`` or ``module:Class``."""
    kind: str
    """``react``, ``create``, ``delete``, ``deadletter`` or ``upgrade``."""
    sender: AgentId
    type: str
    payload: bytes
    request: int
    error: str
    """Empty, or why the reaction was undone."""
    sends: int
    """Number of notifications that it sent."""
    outputs: bytes
    """16-byte hash of all that the reaction asked for; empty if it asked for nothing."""
    stamp: int
    """The stamp that the next created agent was to get, before this reaction."""
    name: str = ""
    """For ``create``: the agent's name."""
    state: bytes = b""
    """For ``create``: the agent's attributes, as `AgentSpec.save` writes them."""


_encoder = msgspec.msgpack.Encoder()


def outputs_hash(outcome: Outcome | None) -> bytes:
    """Return a 16-byte hash of the requests of a reaction; empty if there are none."""
    if outcome is None:
        return b""
    parts = (outcome.sends, outcome.timers, outcome.cancelled, outcome.emitted, outcome.deleted)
    return hashlib.blake2b(_encoder.encode(parts), digest_size=16).digest()
