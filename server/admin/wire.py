"""Frames of the administration protocol, which follow the hello. Pure.

Each frame is one MessagePack array: a `Call` from the command, an `Answer` or a `Failure` with the same id
from the replica. Answers may come in any order. No frame has more than MAX_FRAME_BYTES.
"""

from typing import Any, Final, Literal, TypeVar

import msgspec

from ...agents.ids import AgentId
from ...agents.lifecycle import AgentRow
from ..network.hello import ProtocolError

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
MAX_STATE_BYTES: Final = MAX_FRAME_BYTES - 64 * 1024
"""Largest state of an agent in an answer; the rest of the frame is for its id, name and class."""
MAX_PAGE: Final = 1000
"""Most agents, timers or dead letters in one answer."""
MAX_PAGE_BYTES: Final = 1024 * 1024
"""Bytes of states after which an answer to `Stored` ends."""

T = TypeVar("T")


class Status(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="status"):
    """Ask for the status of the replica. Any replica answers, with a map."""


class Agents(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="agents"):
    """Ask for a page of the agents, as by `ListAgents`. Answered with an AgentPage."""

    after: str = ""
    """`AgentPage.next` of the page before; "" for the first page."""
    limit: int = MAX_PAGE
    anywhere: bool = False
    """Whether a slave answers too, from its own state."""
    class_name: str = ""
    """Only agents of this class; "" for all."""
    name: str = ""
    """Only the agent of this name or id, or with a ``*`` at the end those whose names begin so."""
    platform: bool = False
    """Whether the agents of the platform are listed."""


class Timers(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="timers"):
    """Ask for timers in the order in which they are due. Answered by the master with list[TimerRow]."""

    agent: AgentId | str | None = None
    """Only the timers of this agent; null for all."""
    after: tuple[int, int] | None = None
    """`due_ns` and number of the last timer of the page before; null for the first page."""
    limit: int = MAX_PAGE


class DeadLetters(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="dead-letters"):
    """Ask for kept dead letters, oldest first. Answered by the master with list[DeadLetterRow]."""

    after: int = 0
    """The number of the last letter of the page before."""
    limit: int = MAX_PAGE


class Inspect(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="inspect"):
    """Ask for one agent. Answered with an AgentState."""

    agent: AgentId | str
    anywhere: bool = False
    """Whether a slave answers too, from its own state."""


class Stored(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="stored"):
    """Ask for agents with their states, in the form in which they are stored, whose ids follow `after`.

    Answered by the master with list[engine.AgentState], ordered by id, [] at the end.
    """

    after: AgentId | None = None


class Post(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="post"):
    """Send a notification to an agent. Answered with null once it is committed."""

    to: AgentId | str
    type: str
    payload: bytes


class Request(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="request"):
    """Send a notification to an agent and wait for its reply. Answered with a Reply."""

    to: AgentId | str
    type: str
    payload: bytes
    timeout_s: float


class Stop(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="stop"):
    """Stop this replica in order. Answered with null before it stops."""

    together: bool = False
    """Whether all replicas of the server are asked to stop; see `Replica.stop`."""
    again: bool = False
    """Whether the process then starts the replica again, with the code that is installed now."""


class Admit(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="admit"):
    """Add a replica to the cluster, or change its address. Answered with false if nothing has to change."""

    replica: int
    address: bytes
    """The encoded `ReplicaAddress` of the replica."""
    witness: bool = False
    """Whether the replica only votes and holds no agents."""


class Remove(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="remove"):
    """Remove a replica from the cluster. Answered with false if the cluster does not have it."""

    replica: int


class Command(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="command"):
    """A command of a mesh, answered by a daemon with what it returns."""

    name: str
    arguments: dict[str, Any]


class Figures(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="figures"):
    """Ask for the figures of queues and topics. Any replica answers, with list[FigureRow]."""


class BeginBackup(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="begin-backup"):
    """Begin to copy the state of a replica that holds it. Answered with BackupBegun; ends an earlier copy."""

    birth: int = 0
    """The life of the state that an earlier copy is of; see `BackupBegun.birth`."""
    have: int = 0
    """The entry after which that copy is; 0: there is none. What has not changed since is not sent."""


class ContinueBackup(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="continue-backup"):
    """Ask for the next part of the copy. Answered with a BackupPart."""

    token: int
    """`BackupBegun.token`."""


Body = (
    Status
    | Agents
    | Timers
    | DeadLetters
    | Inspect
    | Stored
    | Post
    | Request
    | Stop
    | Admit
    | Remove
    | Command
    | Figures
    | BeginBackup
    | ContinueBackup
)


class Call(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="call"):
    """A request of the administrator."""

    id: int
    body: Body


class AgentPage(msgspec.Struct, array_like=True, frozen=True):
    """A page of a list of agents."""

    agents: list[AgentRow]
    next: str
    """Where the next page begins; "" if this is the last one. A page that is not the last may be short."""


class TimerRow(msgspec.Struct, array_like=True, frozen=True):
    """One timer in a list."""

    number: int
    agent: AgentId
    due_ns: int
    """When it is due, in nanoseconds since 1970."""
    type: str
    size_bytes: int
    """Size of the payload."""


class DeadLetterRow(msgspec.Struct, array_like=True, frozen=True):
    """One dead letter in a list, without its payload."""

    number: int
    now_ns: int
    """When it became one, in nanoseconds since 1970."""
    reason: str
    sender: AgentId
    to: AgentId | str
    type: str
    size_bytes: int
    """Size of the payload."""
    whole: bool
    """Whether it was kept with its payload, so that it can be sent again."""


class AgentState(msgspec.Struct, array_like=True, frozen=True):
    """One agent with its state, a MessagePack map of its attributes."""

    row: AgentRow
    state: bytes


class Reply(msgspec.Struct, array_like=True, frozen=True):
    """The notification by which an agent replied."""

    sender: AgentId
    type: str
    payload: bytes


class FigureRow(msgspec.Struct, array_like=True, frozen=True):
    """The figures of a queue or topic."""

    kind: str
    name: str
    figures: dict[str, int]


class BackupBegun(msgspec.Struct, array_like=True, frozen=True):
    """The beginning of a copy of the state."""

    token: int
    birth: int
    """The life of the state: a number that another life of the server does not have."""
    have: int
    """The entry of the earlier copy that this one goes on from; 0: it is whole."""


class BackupPart(msgspec.Struct, array_like=True, frozen=True):
    """A part of the state, as `Source` makes it."""

    data: bytes
    index: int | None
    """The entry that the whole state is as of, once that is known."""
    last: bool


class Answer(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="answer"):
    """The result of a call."""

    id: int
    result: msgspec.Raw
    behind: str = ""
    """Why the agents shown may be out of date, in one sentence; "" if no reason is known."""


FailureKind = Literal["not master", "not yet", "timeout", "unknown", "refused", "interrupted"]


class Failure(msgspec.Struct, array_like=True, frozen=True, tag_field="op", tag="failure"):
    """Why a call has no result.

    "not master": ask `master` (null: no master is known now). "not yet": ask again soon. "timeout": no
    reply in time. "unknown": no such agent. "refused": the call is not acceptable. "interrupted": the replica
    ceased to be master; it is not known if the call had its effect.
    """

    id: int
    kind: FailureKind
    sentence: str
    master: tuple[str, int] | None = None


_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(Call)
_answers: "msgspec.msgpack.Decoder[Answer | Failure]" = msgspec.msgpack.Decoder(Answer | Failure)


def encode(message: Call | Answer | Failure) -> bytes:
    """Return the body of the frame. Raises ValueError when it is larger than MAX_FRAME_BYTES."""
    frame = _encoder.encode(message)
    if len(frame) > MAX_FRAME_BYTES:
        raise ValueError(f"An administration frame has at most {MAX_FRAME_BYTES} bytes, not {len(frame)}.")
    return frame


def pack(result: object) -> msgspec.Raw:
    """Return the result of an `Answer` in its encoded form."""
    return msgspec.Raw(_encoder.encode(result))


def decode_call(frame: bytes) -> Call:
    """Read what an administrator sent; raise ProtocolError when it is no call."""
    try:
        return _calls.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"An administration call cannot be read: {error}.") from None


def decode_answer(frame: bytes) -> Answer | Failure:
    """Read what a replica answered; raise ProtocolError when it is no answer."""
    try:
        return _answers.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"The answer of the replica cannot be read: {error}.") from None


def unpack(result: msgspec.Raw, expected: type[T]) -> T:
    """Read the result of an `Answer`; raise ProtocolError when it is not of the expected type."""
    try:
        return msgspec.msgpack.decode(result, type=expected)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"The result of the replica cannot be read: {error}.") from None
