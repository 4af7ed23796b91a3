"""Queues and topics that a configuration declares: each is a declared agent."""

from typing import Any, Final, cast

import msgspec

from .dtd import Element
from .report import Report, quoted
from .servers import DeclaredAgent, Server

__all__ = ["DESTINATION_TAGS", "check_destinations", "read_destinations"]

DESTINATION_TAGS: Final = ("queue", "topic")
DESTINATION_CLASS: Final = "quorate.messaging.agents.destination:Destination"
MANAGER_CLASS: Final = "quorate.messaging.agents.manager:MessagingManager"
MANAGER: Final = "quorate.messaging"
"""The agent that makes temporary destinations on a server with destinations."""
_TEXTS: Final = ("full", "dead_queue", "forward")
_NUMBERS: Final = ("max_messages", "max_bytes", "max_message_bytes", "max_deliveries", "redelivery_delay_ms")
_FLAGS: Final = ("last_value", "tree")
_FULL: Final = ("block", "reject", "drop-oldest", "dmq")
_WORDS: Final = {"full": _FULL, "last_value": ("true", "false"), "tree": ("true", "false")}
_MOST: Final = 10**15


def read_destinations(element: Element, report: Report) -> list[DeclaredAgent]:
    """Read the <queue> and <topic> elements of a server. What is wrong is reported and left out."""
    found: list[DeclaredAgent] = []
    for tag in DESTINATION_TAGS:
        for child in element.all(tag):
            title = child.get("name")
            if title is None:
                continue
            settings: dict[str, str | int | float | list[str]] = {}
            problem = _read_cluster(child, element.get("name") or "", settings)
            for name in (*_TEXTS, *_FLAGS, *_NUMBERS, "redelivery_multiplier"):
                text = child.get(name)
                if text is None or text not in _WORDS.get(name, (text,)):
                    continue  # A word that is none of these is a problem of the grammar, and is reported.
                value = _value(name, text)
                if value is None:
                    kind = "a number" if name == "redelivery_multiplier" else "a whole number, 0 or more"
                    problem = f"{name} of {tag} {title} is {quoted(text)}; write {kind}."
                    break
                settings[name] = value
            if problem:
                report.problem(child.line, problem)
                continue
            state = msgspec.json.encode({"kind": tag, "title": title, "settings": settings}).decode()
            found.append(DeclaredAgent(DESTINATION_CLASS, f"{tag}:{title}", state, child.line))
    if found:
        found.append(DeclaredAgent(MANAGER_CLASS, MANAGER, "{}", found[0].line))
    return found


def _read_cluster(child: Element, server: str, settings: dict[str, str | int | float | list[str]]) -> str:
    """Read the members of a clustered destination; return what is wrong with them, "" if nothing is."""
    text = child.get("cluster")
    if text is None:
        return ""
    servers, title = text.split(), child.get("name")
    if server not in servers or len(servers) < 2 or len(set(servers)) < len(servers):
        return (
            f"cluster of {child.tag} {title} is {quoted(text)}; write the names of all servers that have a "
            f"member, {server} among them: {server} s9."
        )
    settings["peers"] = [f"{title}@{each}" for each in servers if each != server]
    return ""


def check_destinations(servers: list[Server], report: Report) -> None:
    """Report destinations whose other members, or the ones to which they forward, are not declared."""
    declared = {
        f"{agent.name}@{server.name}": agent
        for server in servers
        for agent in server.agents
        if agent.class_name == DESTINATION_CLASS
    }
    settings_of = {address: _settings(agent) for address, agent in declared.items()}
    names = {server.name for server in servers}
    for address, agent in declared.items():
        settings = settings_of[address]
        shown = agent.name.replace(":", " ", 1)
        kind = agent.name.partition(":")[0]
        for title in settings.get("peers", ()):
            other = settings_of.get(f"{kind}:{title}")
            problem = ""
            if title.rpartition("@")[2] not in names:
                problem = "; there is no such server."
            elif other is None:
                problem = ", which is not declared; declare it there."
            elif address not in [f"{kind}:{each}" for each in other.get("peers", ())]:
                problem = ", which has other members; write the same cluster at both."
            if problem:
                report.problem(agent.line, f"{shown} has a member at {title}{problem}")
        forward = settings.get("forward", "")
        if "@" in forward and forward.rpartition("@")[2] not in names:
            report.problem(agent.line, f"{shown} forwards to {forward}; there is no such server.")
        elif f"{kind}:{forward}" == address:
            report.problem(agent.line, f"{shown} forwards to itself; name another one.")


def _settings(agent: DeclaredAgent) -> dict[str, Any]:
    """Return the settings of a destination; those that are written as JSON may be of any form."""
    settings = msgspec.json.decode(agent.state, type=dict[str, Any]).get("settings")
    return cast("dict[str, Any]", settings) if isinstance(settings, dict) else {}


def _value(name: str, text: str) -> str | int | float | None:
    """Return the value of a setting, None if the text is none."""
    if name in _TEXTS:
        return text
    if name in _FLAGS:
        return text == "true"
    try:
        number = float(text) if name == "redelivery_multiplier" else int(text)
    except ValueError:
        return None
    return number if 0 <= number <= _MOST else None
