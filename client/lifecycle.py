"""Creating and administering agents from a client: the requests, and what their answers mean. No I/O.

The three connections send these requests; see `ConnectionBase` for what the operations do.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec

from ..agents.agent import Agent, AgentError, agent_spec
from ..agents.builtin import Create, Created, CreateFailed, Delete, Deleted
from ..agents.ids import FACTORY_ADDRESS, AgentId
from ..agents.lifecycle import (
    MAX_LISTED,
    AgentPage,
    AgentRow,
    ListAgents,
    Pause,
    Paused,
    Resume,
    Resumed,
)
from ..agents.names import check_importable
from ..agents.notification import Notification
from ..agents.state_types import with_sorted_sets
from .errors import NotCreated, NotPermitted, QuorateClientError, ReactionError
from .pending import ReplyTypes

__all__ = [
    "Operation",
    "creation",
    "creations",
    "deletion",
    "failure",
    "finding",
    "listing",
    "pausing",
    "resuming",
]

T = TypeVar("T")

CREATED_AT_ONCE: Final = 1024
"""Creations whose answers are awaited together."""


@attrs.frozen
class Operation(Generic[T]):
    """One request to a factory agent."""

    to: str
    ask: Notification
    replies: ReplyTypes
    result: Callable[[Any], T]
    """Returns what the operation returns, from its answer. Raises QuorateClientError."""


def _factory(server: str | int | None) -> str:
    """Return the address of the factory of a server, None being the one of the connection."""
    if server is None:
        return FACTORY_ADDRESS
    if not isinstance(server, str | int) or isinstance(server, bool) or server == "":  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"server is {server!r}; give the name or the id of a server, or None")
    return f"{FACTORY_ADDRESS}@{server}"


def _agent(agent: AgentId | str) -> str:
    """Return an agent's id or name as text."""
    if isinstance(agent, AgentId):
        return str(agent)
    if not isinstance(agent, str) or not agent:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"agent is {agent!r}; give its name or its id")
    return agent


def _place(agent: AgentId | str, server: str | int | None) -> tuple[str, str]:
    """Return the address of the factory of an agent's server, and the agent's id or name there.

    The server is `server`, that of the id, or the one that the name has behind an @.
    """
    text = _agent(agent)
    if text.startswith("#"):
        return _factory(AgentId.parse(text).host if server is None else server), text
    name, at, named = text.rpartition("@")
    if at and server is None:
        return _factory(named), name
    return _factory(server), text


def creation(
    cls: type[Agent] | str,
    name: str | None,
    server: str | int | None,
    key: str,
    state: Mapping[str, Any],
) -> Operation[AgentId]:
    """Return the request to create an agent. Its state is checked here, if the class is given itself.

    Raises AgentError if the class cannot be an agent or cannot have that state, TypeError for other
    arguments.
    """
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"name is {name!r}; give text or None")
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"key is {key!r}; give text")
    class_name, values = _class_and_state(cls, state)
    ask = Create(class_name, name, values, key=key)
    return Operation(_factory(server), ask, (Created, CreateFailed), _created)


def _class_and_state(cls: type[Agent] | str, state: Mapping[str, Any]) -> tuple[str, bytes]:
    values = dict(state)
    if isinstance(cls, str):
        if ":" not in cls:
            raise TypeError(f"{cls!r} is not a class; give an agent class, or its module:Class")
        return cls, _encoded(cls, values)
    spec = agent_spec(cls)
    check_importable(cls)
    encoded = _encoded(spec.location, with_sorted_sets(values) if spec.has_sets else values)
    spec.build(encoded)
    return spec.location, encoded


def _encoded(name: str, values: dict[str, Any]) -> bytes:
    try:
        return msgspec.msgpack.encode(values)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise AgentError(f"{name} cannot be created from this state: {error}") from error


def _created(answer: Created | CreateFailed) -> AgentId:
    if isinstance(answer, CreateFailed):
        raise NotCreated(answer.reason)
    return answer.id


def creations(
    cls: type[Agent] | str, states: Mapping[str, Mapping[str, Any]], server: str | int | None
) -> list[tuple[list[str], list[Operation[AgentId]]]]:
    """Return requests to create an agent for each name, with its state, in groups to be awaited together."""
    names = list(states)
    asks = [creation(cls, name, server, "", states[name]) for name in names]
    return [
        (names[start : start + CREATED_AT_ONCE], asks[start : start + CREATED_AT_ONCE])
        for start in range(0, len(names), CREATED_AT_ONCE)
    ]


def deletion(agent: AgentId | str, server: str | int | None) -> Operation[AgentId]:
    """Return the request to delete an agent."""
    to, name = _place(agent, server)
    return Operation(to, Delete(name), (Deleted,), lambda answer: answer.id)


def pausing(agent: AgentId | str, server: str | int | None) -> Operation[AgentId]:
    """Return the request to pause an agent."""
    to, name = _place(agent, server)
    return Operation(to, Pause(name), (Paused,), lambda answer: answer.id)


def resuming(agent: AgentId | str, server: str | int | None) -> Operation[int]:
    """Return the request to resume an agent. Its result is how many notifications had waited."""
    to, name = _place(agent, server)
    return Operation(to, Resume(name), (Resumed,), lambda answer: answer.delivered)


def finding(agent: AgentId | str, server: str | int | None) -> Operation[AgentRow | None]:
    """Return the request for one agent."""
    to, name = _place(agent, server)
    if name.endswith("*"):
        raise ValueError(f"{name!r} stands for many agents; use agents(name={name!r})")
    ask = ListAgents(name=name, limit=1, platform=True)
    return Operation(to, ask, (AgentPage,), lambda page: page.agents[0] if page.agents else None)


def listing(
    cls: type[Agent] | str | None,
    name: str,
    server: str | int | None,
    limit: int | None,
    after: str = "",
) -> Operation[AgentPage]:
    """Return the request for a page of agents with at most `limit` of them."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ValueError(f"limit is {limit!r}; give a whole number, or None")
    class_name = "" if cls is None else cls if isinstance(cls, str) else agent_spec(cls).name
    most = MAX_LISTED if limit is None else min(limit, MAX_LISTED)
    return Operation(
        _factory(server), ListAgents(class_name, name, after, most), (AgentPage,), lambda page: page
    )


def failure(error: ReactionError) -> QuorateClientError:
    """Return the error of an operation that the server has refused."""
    refused: Any = error.notification
    if refused.error == "PermissionError":
        return NotPermitted(refused.message)
    return error
