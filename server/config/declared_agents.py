"""Agents that a configuration declares: read, and checked against their classes."""

import importlib
import typing
from typing import Any, cast

import msgspec

from ...agents import Agent, AgentError, agent_spec
from ...agents.ids import MAX_AGENT_NAME, is_agent_name
from .destinations import DESTINATION_TAGS, read_destinations
from .dtd import Element
from .imports import import_problem, one_line
from .report import Report, quoted
from .servers import DeclaredAgent
from .service_classes import class_name_of

MAX_DECLARED = 1000
"""Most agents that the configuration may declare for one server."""


def encoded_state(agent: DeclaredAgent) -> bytes:
    """Return the attributes of an agent as a `Create` has them. Imports the class.

    Raises what the import raises, AgentError, or ValueError, TypeError, OverflowError for attributes that the
    class cannot have.
    """
    return json_state(agent_class(agent.class_name), agent.state)


def agent_class(class_name: str) -> type[Agent]:
    """Import ``module:Class``. Raises what the import raises, AgentError if it is no class of agents."""
    module, _, qualname = class_name.partition(":")
    found: object = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise AgentError(f"{class_name} is not a class of agents; derive it from quorate.Agent")
    return found


def json_state(cls: type[Agent], text: str) -> bytes:
    """Encode attributes that are given as a JSON object, and check them against the class.

    JSON has no bytes and no dates: the types of the class determine how a text is read. Raises AgentError if
    the class is no agent or cannot have the state, ValueError, TypeError or OverflowError for other values.
    """
    spec = agent_spec(cls)
    hints = typing.get_type_hints(cls)
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    values = {key: msgspec.json.decode(value, type=hints.get(key, Any)) for key, value in raw.items()}
    encoded = msgspec.msgpack.encode(values)
    spec.build(encoded)
    return encoded


def read_agents(element: Element, report: Report, check_imports: bool) -> tuple[DeclaredAgent, ...]:
    """Read the agents, queues and topics of a server. What is wrong is reported and left out."""
    found: dict[str, DeclaredAgent] = {}
    declared = element.all("agent")
    if len(declared) > MAX_DECLARED:
        report.problem(
            declared[MAX_DECLARED].line,
            f"a server may declare {MAX_DECLARED} agents; create the others with connection.create_all.",
        )
    agents: list[DeclaredAgent] = []
    for child in declared[:MAX_DECLARED]:
        name, text, state = child.get("name"), child.get("class"), child.get("args") or "{}"
        if name is None or text is None:
            continue
        problem = _name_problem(name) or _class_problem(text) or _state_problem(state)
        if problem:
            report.problem(child.line, problem)
        else:
            agents.append(DeclaredAgent(class_name_of(text) or text, name, state, child.line))
    for agent in (*agents, *read_destinations(element, report)):
        problem = _name_problem(agent.name) or (_import_problem(agent) if check_imports else "")
        if problem:
            report.problem(agent.line, problem)
        elif agent.name in found:
            line = found[agent.name].line
            report.problem(
                agent.line, f"the agent {quoted(agent.name)} stands on line {line} already; keep one."
            )
        else:
            found[agent.name] = agent
    return tuple(found.values())


def refuse_agents(replica: Element, report: Report) -> None:
    """Report the agents of a replica: they are those of the whole cluster."""
    for tag in ("agent", *DESTINATION_TAGS):
        for child in replica.all(tag):
            report.problem(
                child.line, f"agents are the same on all replicas; move <{tag}> into the <cluster>."
            )


def _name_problem(name: str) -> str:
    if is_agent_name(name):
        return ""
    return (
        f"the name {quoted(name)} of an agent is not usable; use up to {MAX_AGENT_NAME} printable characters "
        "without # and @."
    )


def _class_problem(text: str) -> str:
    if class_name_of(text) is not None:
        return ""
    return f"{quoted(text)} is not the name of a class; write package.module:Class."


def _state_problem(state: str) -> str:
    try:
        msgspec.json.decode(state, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return (
            f'args of an agent is a JSON object of its first attributes, like {{"balance": 5}}, and '
            f"{quoted(state)} is not: {one_line(error)}."
        )
    return ""


def _import_problem(agent: DeclaredAgent) -> str:
    """Return why a server could not create the agent; "" if it could."""
    where = f"the agent {quoted(agent.name)} cannot be created"
    problem = import_problem(agent.class_name.partition(":")[0])
    if problem:
        return f"{where}: {problem}."
    try:
        encoded_state(agent)
    except AttributeError as error:
        return f"{where}: {one_line(error)}; correct the name of the class."
    except (AgentError, ValueError, TypeError, OverflowError) as error:
        return f"{where}: {one_line(cast('Exception', error))}."
    return ""
