"""Queues and topics that a configuration declares: each is a declared agent."""

from typing import Final

import msgspec

from .dtd import Element
from .report import Report, quoted
from .servers import DeclaredAgent

__all__ = ["DESTINATION_TAGS", "read_destinations"]

DESTINATION_TAGS: Final = ("queue", "topic")
DESTINATION_CLASS: Final = "quorate.messaging.agents.destination:Destination"
MANAGER_CLASS: Final = "quorate.messaging.agents.manager:MessagingManager"
MANAGER: Final = "quorate.messaging"
"""The agent that makes temporary destinations on a server with destinations."""
_TEXTS: Final = ("full", "dead_queue")
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
            settings: dict[str, str | int | float] = {}
            problem = ""
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
