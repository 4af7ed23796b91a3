"""Operations on agents, their timers, and dead letters."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from ...agents import Agent, AgentError, Create, Created, Delete, Deleted, Notification
from ...agents.lifecycle import (
    AgentRow,
    CancelTimer,
    DropDeadLetters,
    Pause,
    Paused,
    ResendDeadLetters,
    Resume,
    Resumed,
    Settled,
    TimerCancelled,
)
from ...agents.notification import known_type
from ...server.admin import wire
from ...server.admin.values import payload_of, plain, shown
from ...server.config import json_state
from ...server.trace.reading import latest_reactions
from ..operations import Call, Operation
from ..problems import Problem
from .fields import Count, Limit, PageQuery, address_of, moment

__all__ = ["OPERATIONS"]

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class AgentsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"class_name": "class"}):
    """Which agents are listed."""

    class_name: Annotated[str, msgspec.Meta(description="Only agents of this class.")] = ""
    name: Annotated[
        str, msgspec.Meta(description="Only this agent; with * at the end, all whose names begin so.")
    ] = ""
    after: Annotated[str, msgspec.Meta(description="`next` of the page before.")] = ""
    limit: Limit = 100
    platform: Annotated[bool, msgspec.Meta(description="Whether agents of the platform are listed.")] = False


class ReactionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many reactions are wanted."""

    limit: Limit = 50


class ReactionInfo(msgspec.Struct, frozen=True):
    """A reaction of an agent."""

    position: Count
    """Counts the reactions of the server."""
    at: datetime
    kind: str
    """``react``, ``create``, ``delete``, ``deadletter`` or ``upgrade``."""
    sender: str
    type: str
    error: str
    """Empty, or why the reaction was undone."""
    sends: Count
    """Notifications that it has sent."""
    duration_s: float
    """How long it took on this replica; 0 if that was not measured."""


class ReactionList(msgspec.Struct, frozen=True):
    """Reactions of an agent, as they stand in the files of the trace: some seconds late."""

    reactions: list[ReactionInfo]


class AgentInfo(msgspec.Struct, frozen=True, rename={"class_name": "class"}):
    """An agent."""

    id: str
    name: str
    """Its name, empty if it has none."""
    class_name: str
    reactions: Count
    """How many notifications it has reacted to."""
    paused: bool
    held: Count
    """Notifications that wait until it is resumed."""


class AgentList(msgspec.Struct, frozen=True):
    """A page of the agents."""

    agents: list[AgentInfo]
    next: str
    """Give it as `after` for the next page; empty: there is none."""


class AgentDetails(AgentInfo, frozen=True, rename={"class_name": "class"}):
    """An agent with its state."""

    state: Any
    """Its attributes."""


class NewAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"class_name": "class"}):
    """An agent that is to be made."""

    class_name: Annotated[str, msgspec.Meta(min_length=1, description="``module:Class``")]
    key: Key
    """Two requests with the same key make one agent: so a request can be repeated."""
    name: str | None = None
    state: dict[str, Any] = {}


class AgentMade(msgspec.Struct, frozen=True):
    """The agent was made."""

    id: str


class AgentDone(msgspec.Struct, frozen=True):
    """The agent that was meant."""

    id: str


class NewNotification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A notification for an agent."""

    type: Annotated[str, msgspec.Meta(min_length=1)]
    """The name of its type, or ``module:Class``."""
    fields: dict[str, Any] = {}
    wait: bool = False
    """Whether to wait for the answer of the agent."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=25)] = 10.0
    """The longest wait for it, in seconds."""


class AgentAnswer(msgspec.Struct, frozen=True):
    """What an agent has answered."""

    sender: str
    type: str
    value: Any


class TimersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which timers are listed."""

    agent: Annotated[str, msgspec.Meta(description="Only those of this agent, an id or a name.")] = ""
    limit: Limit = 100


class TimerInfo(msgspec.Struct, frozen=True):
    """A timer."""

    number: Count
    agent: str
    due: datetime
    type: str
    size_bytes: Count


class TimerList(msgspec.Struct, frozen=True):
    """Timers, in the order in which they are due."""

    timers: list[TimerInfo]


class LetterInfo(msgspec.Struct, frozen=True):
    """A dead letter."""

    number: Count
    at: datetime
    reason: str
    sender: str
    to: str
    type: str
    size_bytes: Count
    whole: bool
    """Whether it was kept with its payload, so that it can be sent again."""


class LetterList(msgspec.Struct, frozen=True):
    """Dead letters, the oldest first."""

    dead_letters: list[LetterInfo]


class Resend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a dead letter is sent again."""

    to: str = ""
    """The agent to send it to, an id or a name; empty for the one that it was sent to."""


def _info(row: AgentRow) -> AgentInfo:
    return AgentInfo(str(row.id), row.name, row.class_name, row.reactions, row.paused, row.held)


async def _list(call: Call) -> AgentList:
    query: AgentsQuery = call.query
    name = query.name if query.name.endswith("*") else str(address_of(query.name)) if query.name else ""
    page = await call.calls.ask(
        wire.Agents(query.after, query.limit, True, query.class_name, name, query.platform),
        wire.AgentPage,
    )
    return AgentList([_info(each) for each in page.agents], page.next)


async def _get(call: Call) -> AgentDetails:
    found = await call.calls.ask(wire.Inspect(address_of(call.parts["agent"]), True), wire.AgentState)
    row = found.row
    try:
        state = plain(found.state)
    except ValueError as error:
        raise Problem(409, "refused", f"Its state cannot be shown: {str(error).rstrip('.')}.") from None
    return AgentDetails(str(row.id), row.name, row.class_name, row.reactions, row.paused, row.held, state)


async def _reactions(call: Call) -> ReactionList:
    address = address_of(call.parts["agent"])
    if isinstance(address, str):
        address = (await call.calls.ask(wire.Inspect(address, True), wire.AgentState)).row.id
    directory, limit = call.host.directory / "trace", call.query.limit
    found = await call.host.in_thread(latest_reactions, directory, str(address), limit)
    if found is None:
        sentence = (
            "This replica has no trace that can be read: one is written, some seconds late, if the property "
            "trace allows it and quorate[replay] is installed."
        )
        raise Problem(409, "refused", sentence)
    return ReactionList(
        [
            ReactionInfo(
                *(each.position, moment(each.now_ns), each.kind, each.sender, each.type, each.error),
                *(each.sends, each.duration_ns / 1e9),
            )
            for each in found
        ]
    )


async def _create(call: Call) -> AgentMade:
    body: NewAgent = call.body
    state = msgspec.json.encode(body.state)
    found = _loaded(body.class_name, Agent)
    try:
        encoded = msgspec.msgpack.encode(body.state) if found is None else json_state(found, state.decode())
    except (AgentError, msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        sentence = f"{body.class_name} cannot have this state: {str(error).rstrip('.')}."
        raise Problem(409, "refused", sentence) from None
    create = Create(body.class_name, body.name, encoded, None, body.key)
    made = await call.calls.factory(create, Created)
    return AgentMade(str(made.id))


def _loaded(name: str, base: type[Any]) -> type[Any] | None:
    """Return the class ``module:Class`` if its module is loaded, None otherwise."""
    module, _, attribute = name.partition(":")
    found = getattr(sys.modules.get(module), attribute, None) if attribute else None
    return found if isinstance(found, type) and issubclass(found, base) else None


async def _delete(call: Call) -> AgentDone:
    return AgentDone(str((await call.calls.factory(Delete(_agent(call)), Deleted)).id))


async def _pause(call: Call) -> AgentDone:
    return AgentDone(str((await call.calls.factory(Pause(_agent(call)), Paused)).id))


async def _resume(call: Call) -> AgentDone:
    return AgentDone(str((await call.calls.factory(Resume(_agent(call)), Resumed)).id))


def _agent(call: Call) -> str:
    return str(address_of(call.parts["agent"]))


async def _send(call: Call) -> AgentAnswer | None:
    body: NewNotification = call.body
    kind: type[Notification] | None = known_type(body.type) or _loaded(body.type, Notification)
    if kind is None:
        sentence = (
            f"The server knows no notification {body.type[:200]!r}; it knows those of agents it has had."
        )
        raise Problem(409, "refused", sentence)
    try:
        payload = payload_of(kind, msgspec.json.encode(body.fields))
    except ValueError as error:
        raise Problem(409, "refused", f"{body.type} cannot be made of these fields: {error}.") from None
    to = address_of(call.parts["agent"])
    if not body.wait:
        await call.calls.ask(wire.Post(to, kind.type_name, payload), type(None))
        return None
    reply = await call.calls.ask(wire.Request(to, kind.type_name, payload, body.timeout_s), wire.Reply)
    return AgentAnswer(str(reply.sender), reply.type, shown(reply.type, reply.payload))


async def _timers(call: Call) -> TimerList:
    query: TimersQuery = call.query
    agent = address_of(query.agent) if query.agent else None
    rows = await call.calls.ask(wire.Timers(agent, None, query.limit), list[wire.TimerRow])
    return TimerList(
        [
            TimerInfo(each.number, str(each.agent), moment(each.due_ns), each.type, each.size_bytes)
            for each in rows
        ]
    )


async def _cancel(call: Call) -> None:
    await call.calls.factory(CancelTimer(_agent(call), call.number("number")), TimerCancelled)


async def _letters(call: Call) -> LetterList:
    query: PageQuery = call.query
    rows = await call.calls.ask(wire.DeadLetters(query.after, query.limit), list[wire.DeadLetterRow])
    return LetterList(
        [
            LetterInfo(
                *(each.number, moment(each.now_ns), each.reason, str(each.sender), str(each.to)),
                *(each.type, each.size_bytes, each.whole),
            )
            for each in rows
        ]
    )


async def _resend(call: Call) -> None:
    body: Resend = call.body
    to = str(address_of(body.to)) if body.to else ""
    number = call.number("number")
    _check_settled(await call.calls.factory(ResendDeadLetters([number], to), Settled), number)


async def _drop(call: Call) -> None:
    number = call.number("number")
    _check_settled(await call.calls.factory(DropDeadLetters([number]), Settled), number)


def _check_settled(done: Settled, number: int) -> None:
    if done.incomplete:
        sentence = f"The dead letter {number} was too large to be kept whole; it can only be dropped."
        raise Problem(409, "refused", sentence)
    if done.unknown:
        raise Problem(404, "not-found", f"No dead letter is kept with the number {number}.")


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        *("listAgents", "GET", "/agents", "The agents of the server, page by page.", _list, AgentList),
        query=AgentsQuery,
        anywhere=True,
    ),
    Operation("createAgent", "POST", "/agents", "Make an agent.", _create, AgentMade, body=NewAgent),
    Operation(
        *("getAgent", "GET", "/agents/{agent}", "An agent, given by its id or name, with its state."),
        *(_get, AgentDetails),
        anywhere=True,
    ),
    Operation(
        *("listReactions", "GET", "/agents/{agent}/reactions"),
        *("What an agent did last, the latest first, from the trace of this replica.", _reactions),
        ReactionList,
        query=ReactionsQuery,
        anywhere=True,
    ),
    Operation(
        *("deleteAgent", "DELETE", "/agents/{agent}", "Delete an agent, its state and its timers."),
        *(_delete, AgentDone),
    ),
    Operation(
        *("pauseAgent", "POST", "/agents/{agent}/pause", "Pause an agent: what is sent to it waits."),
        *(_pause, AgentDone),
    ),
    Operation("resumeAgent", "POST", "/agents/{agent}/resume", "Resume an agent.", _resume, AgentDone),
    Operation(
        *("sendNotification", "POST", "/agents/{agent}/notifications", "Send an agent a notification."),
        *(_send, AgentAnswer | None),
        body=NewNotification,
    ),
    Operation(
        *("listTimers", "GET", "/timers", "Timers, in the order in which they are due.", _timers, TimerList),
        query=TimersQuery,
    ),
    Operation(
        *("cancelTimer", "DELETE", "/agents/{agent}/timers/{number}", "Cancel a timer of an agent."),
        *(_cancel, None),
    ),
    Operation(
        *("listDeadLetters", "GET", "/dead-letters", "Dead letters, the oldest first."),
        *(_letters, LetterList),
        query=PageQuery,
    ),
    Operation(
        *("resendDeadLetter", "POST", "/dead-letters/{number}/resend", "Send a dead letter once more."),
        *(_resend, None),
        body=Resend,
    ),
    Operation("dropDeadLetter", "DELETE", "/dead-letters/{number}", "Drop a dead letter.", _drop, None),
)
