"""Queues and topics that a configuration declares: each is a declared agent."""

from typing import Final

import msgspec

from .dtd import Element
from .report import Report, quoted
from .servers import DeclaredAgent

__all__ = ["DESTINATION_TAGS", "read_destinations"]

DESTINATION_TAGS: Final = ("queue", "topic")
DESTINATION_CLASS: Final = "quorate.messaging.agents.destination:Destination"
_TEXTS: Final = ("full", "dead_queue")
_NUMBERS: Final = ("max_messages", "max_bytes", "max_message_bytes", "max_deliveries", "redelivery_delay_ms")
_FULL: Final = ("block", "reject", "drop-oldest", "dmq")
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
            for name in (*_TEXTS, *_NUMBERS, "redelivery_multiplier"):
                text = child.get(name)
                if text is None or (name == "full" and text not in _FULL):
                    continue  # A policy that is none is a problem of the grammar, and reported as such.
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
    return found


def _value(name: str, text: str) -> str | int | float | None:
    """Return the value of a setting, None if the text is none."""
    if name in _TEXTS:
        return text
    try:
        number = float(text) if name == "redelivery_multiplier" else int(text)
    except ValueError:
        return None
    return number if 0 <= number <= _MOST else None
