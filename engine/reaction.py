"""The record of a reaction: one row of a trace."""

import hashlib

import msgspec

from ..agents import AgentId, Outcome

__all__ = ["Reaction", "encode_requests", "outputs_hash"]


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
    """For ``create``: the agent's attributes, as `AgentSpec.save` writes them. For ``react``: now and then
    the agent after the reaction, a `Snapshot`."""
    cause: int = 0
    """`Note.cause`: the position, on the sender's server, of the reaction that has sent the notification;
    negative if that reaction has set a timer, which is this; 0 if it came from outside."""
    link: int = -1
    """The neighbour from which the notification came over the network; -1 if it came from none."""
    number: int = 0
    """The number of the notification on that link; 0 without one."""
    local: int = 0
    """How many notifications went to the queue of this server's agents because of this reaction: those that
    it sent, and reports of failures."""
    remote: str = ""
    """How many went to agents of other servers, by the id of the server: ``1*3 2``."""
    requests: bytes = b""
    """What the reaction asked for, by `encode_requests`, if the trace has it."""
    duration_ns: int = 0
    """How long the reaction took on this replica; 0 if that was not measured. No two replicas agree on it."""


_encoder = msgspec.msgpack.Encoder()


def outputs_hash(outcome: Outcome | None) -> bytes:
    """Return a 16-byte hash of the requests of a reaction; empty if there are none."""
    if outcome is None:
        return b""
    return hashlib.blake2b(_encode(outcome), digest_size=16).digest()


def encode_requests(outcome: Outcome | None) -> bytes:
    """Return the requests of a reaction in MessagePack; empty if there are none.

    An array of: sends, each [to, sender, type, payload, request]; timers, each [number, due_ns, type,
    payload]; the numbers of cancelled timers; what was emitted, each [topic, message]; whether the agent has
    deleted itself.
    """
    return b"" if outcome is None else _encode(outcome)


def _encode(outcome: Outcome) -> bytes:
    # The place of the cause in the envelope is left out: the same requests have the same bytes anywhere.
    sends = [(note.to, note.sender, note.type, note.payload, note.request) for note in outcome.sends]
    return _encoder.encode((sends, outcome.timers, outcome.cancelled, outcome.emitted, outcome.deleted))
