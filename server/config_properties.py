"""The properties that servers and built-in services read, and whether a value can be used.

Other names are allowed: a service of the user may read them. One that is almost a known name is noted.
"""

import re
from collections.abc import Callable

from .config_model import SECRET_PROPERTY, Config
from .config_read import EXPECTED_PROPERTY
from .config_report import Report, guess, shown
from .config_vocabulary import Element

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


def _seconds(text: str) -> str | None:
    good = _NUMBER.fullmatch(text) and 0 < float(text) < 86400
    return None if good else "must be a number of seconds above 0"


def _whole(low: int, high: int) -> Callable[[str], str | None]:
    def problem(text: str) -> str | None:
        good = text.isascii() and text.isdigit() and len(text) < 16 and low <= int(text) <= high
        return None if good else f"must be a whole number from {low} to {high}"

    return problem


def _boolean(text: str) -> str | None:
    return None if text.lower() in {"true", "yes", "1", "false", "no", "0"} else "must be true or false"


def _secret(text: str) -> str | None:
    return None if text.strip() else "must not be empty"


def _any(text: str) -> str | None:  # noqa: ARG001
    return None


_COUNT = _whole(0, 10**9)

PROPERTIES: dict[str, Callable[[str], str | None]] = {
    "batch_notes": _COUNT,
    "client_interface": _any,
    "digest_every": _COUNT,
    "heartbeat_s": _seconds,
    "high_water": _COUNT,
    "max_connections": _whole(1, 10**6),
    "max_frame": _whole(4096, 1 << 22),
    "max_turn": _COUNT,
    "max_waiting": _COUNT,
    EXPECTED_PROPERTY: _any,  # checked against the number of replicas
    SECRET_PROPERTY: _secret,
    "snapshot_bytes": _COUNT,
    "snapshot_entries": _COUNT,
    "stall_s": _seconds,
    "stop_on_exception": _boolean,
    "suspect_s": _seconds,
    "trace": _boolean,
    "trace_roll_s": _seconds,
}
"""Name -> what is wrong with a value, None if nothing. docs/configuration.md says what each is for."""

AGREED = ("digest_every", "high_water", "max_turn", "max_waiting", "stop_on_exception")
"""What decides how a replica reacts: replicas with other values would drift apart."""


def check_properties(tree: Element, report: Report) -> None:
    """Report values that cannot be used, and note names that look misspelt."""
    pending = [tree]
    while pending:
        element = pending.pop()
        pending += element.children
        name, value = element.get("name"), element.get("value")
        if element.tag != "property" or not name or value is None:
            continue
        problem = PROPERTIES.get(name, _any)(value)
        if problem and name == SECRET_PROPERTY:
            report.problem(element.line, f"the property {name} {problem}.")
        elif problem:
            report.problem(element.line, f"the property {name} {problem}, not {shown(value)}.")
        elif name not in PROPERTIES and (near := guess(name, list(PROPERTIES), cutoff=0.8)):
            report.note(element.line, f"no part of Quorate reads the property {shown(name)}{near}")


def check_agreed(config: Config, report: Report) -> None:
    """Report properties that replicas of one cluster must not differ in."""
    for server in config.servers:
        for name in AGREED:
            values = [config.setting(name, server=server.id, replica=each.id) for each in server.replicas]
            if len(set(values)) > 1:
                report.problem(
                    server.line,
                    f"the replicas of {server.name} differ in the property {name}, which decides how agents "
                    "react; move it into the <cluster>.",
                )
