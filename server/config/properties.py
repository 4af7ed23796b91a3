"""The properties that servers and built-in services read, and the checks of their values.

Other names are allowed: a service of the user may read them. A note names a similar known one.
"""

import re
from collections.abc import Callable, Iterator

from ...agents.manager import DEFAULT_MAX_CONNECTIONS
from ...engine import EngineSettings
from ...hachannel import Settings
from ...hachannel.model.settings import LEAST_S
from .digest import (
    AGENT_MODULES_PROPERTY,
    INSECURE_NETWORK_PROPERTY,
    REPLICATED_PROPERTIES,
    RIGHTS_FILE_PROPERTY,
    SECRET_PROPERTY,
    TLS_MODE_PROPERTY,
    TLS_PROPERTIES,
    TOKENS_FILE_PROPERTY,
    USERS_FILE_PROPERTY,
)
from .dtd import Element
from .imports import import_problem
from .joram import is_joram_property
from .model import Config
from .reader import EXPECTED_PROPERTY
from .report import Report, quoted, suggestion
from .servers import TCP_PROXY_SERVICE, Replica, Server

ANSWERS = ("committed", "confirmed")
"""When the outputs of an entry leave: see `NodeSettings.answers`."""

BALANCES = ("least", "rotate", "first")
"""How new clients are divided among the replicas: see `agents.balance`."""

TLS_MODES = ("required", "preferred", "accepted")
"""``required``: nothing goes without TLS. ``preferred``: connections without it are accepted. ``accepted``:
those that a replica opens do not speak it either. The last two are for changing to TLS without a stop."""

LOG_FORMATS = ("text", "json")
"""How a replica writes its log: lines for people, or JSON objects, one a line."""

BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
"""The words for true and false, in lower case; a file may have them in any."""

HEARTBEATS_TO_SUSPECT = 4
"""A replica is suspected after the silence of at least this many heartbeats: see `hachannel.Settings`."""

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


def _seconds(text: str) -> str | None:
    good = _NUMBER.fullmatch(text) and 0 < float(text) < 86400
    return None if good else "must be a number of seconds above 0 and below 86400"


def _period(text: str) -> str | None:
    good = _NUMBER.fullmatch(text) and LEAST_S <= float(text) < 86400
    return None if good else f"must be a number of seconds from {LEAST_S:g} to 86399"


def _whole(low: int, high: int) -> Callable[[str], str | None]:
    def problem(text: str) -> str | None:
        good = text.isascii() and text.isdigit() and len(text) < 16 and low <= int(text) <= high
        return None if good else f"must be a whole number from {low} to {high}"

    return problem


def _boolean(text: str) -> str | None:
    return None if text.lower() in BOOLEANS else "must be true or false"


def _secret(text: str) -> str | None:
    return None if text.strip() else "must not be empty"


def _modules(text: str) -> str | None:
    good = all(part.isidentifier() for module in text.split() for part in module.split("."))
    return None if good else "must be names of modules with spaces between them"


def _answers(text: str) -> str | None:
    return None if text in ANSWERS else f"must be {' or '.join(ANSWERS)}"


def _share(text: str) -> str | None:
    good = _NUMBER.fullmatch(text) and 0 < float(text) <= 1
    return None if good else "must be a number above 0, at most 1"


def _balance(text: str) -> str | None:
    return None if text in BALANCES else f"must be {', '.join(BALANCES[:-1])} or {BALANCES[-1]}"


def _tls_mode(text: str) -> str | None:
    return None if text in TLS_MODES else f"must be {', '.join(TLS_MODES[:-1])} or {TLS_MODES[-1]}"


def _log_format(text: str) -> str | None:
    return None if text in LOG_FORMATS else f"must be {' or '.join(LOG_FORMATS)}"


def _any(text: str) -> str | None:  # noqa: ARG001
    return None


_COUNT = _whole(0, 10**9)
_COUNT_FROM_1 = _whole(1, 10**9)

PROPERTIES: dict[str, Callable[[str], str | None]] = {
    "administrators": _any,  # checked against the users
    AGENT_MODULES_PROPERTY: _modules,
    "answers": _answers,
    "balance": _balance,
    "copies": _whole(1, 15),
    "gossip_s": _seconds,
    "mesh_password": _any,
    "mesh_publishers": _whole(1, 10_000_000),
    "mesh_user": _any,
    "repair_share": _share,
    "topic_bytes": _whole(1, 10**15),
    "batch_notes": _whole(1, 16384),
    "client_interface": _any,
    "client_silence_s": _seconds,
    "digest_every": _COUNT,
    "expire_s": _seconds,
    "heartbeat_s": _period,
    "high_water": _COUNT_FROM_1,
    "hold_bytes": _COUNT_FROM_1,
    "hold_s": _seconds,
    "lease_s": _seconds,
    "log_format": _log_format,
    "max_connections": _whole(1, 10**6),
    "max_frame": _whole(4096, 1 << 22),
    "max_turn": _COUNT_FROM_1,
    "max_turn_bytes": _COUNT_FROM_1,
    "max_waiting": _COUNT_FROM_1,
    INSECURE_NETWORK_PROPERTY: _boolean,
    EXPECTED_PROPERTY: _any,  # checked against the number of replicas
    "refusal_ends": _boolean,
    "rehome_s": _seconds,
    RIGHTS_FILE_PROPERTY: _any,
    SECRET_PROPERTY: _secret,
    "snapshot_bytes": _COUNT_FROM_1,
    "snapshot_entries": _COUNT_FROM_1,
    "stall_s": _period,
    "stop_on_exception": _boolean,
    "suspect_s": _period,
    TLS_MODE_PROPERTY: _tls_mode,
    **dict.fromkeys(TLS_PROPERTIES, _secret),
    TOKENS_FILE_PROPERTY: _any,
    USERS_FILE_PROPERTY: _any,
    "trace": _boolean,
    "trace_keep_bytes": _whole(0, 10**15 - 1),
    "trace_keep_s": _whole(0, 10**10),
    "trace_outputs": _boolean,
    "trace_roll_s": _seconds,
}
"""By name: a function that returns what is wrong with a value, None if nothing is. Their meaning is in
docs/configuration.md."""

ATTRIBUTES = {
    "ack": "<cluster>",
    "context": "<cluster>",
    "durability": "<cluster> or <server>",
    "min_copies": "<cluster>",
    "mode": "<cluster>",
    "witness": "<server>",
}
"""Attributes, with their elements, that somebody might write as properties, which would have no effect."""


def check_properties(tree: Element, report: Report, check_imports: bool) -> None:
    """Report values that cannot be used, and attributes written as properties; note misspelt names.

    check_imports: import the modules of the property agent_modules.
    """
    pending = [tree]
    while pending:
        element = pending.pop()
        pending += element.children
        name, value = element.get("name"), element.get("value")
        if element.tag != "property" or not name or value is None:
            continue
        if name in ATTRIBUTES:
            report.problem(
                element.line,
                f"{name} is not a property but an attribute of {ATTRIBUTES[name]}: write it there.",
            )
        problem = PROPERTIES.get(name, _any)(value)
        if problem and name == SECRET_PROPERTY:
            report.problem(element.line, f"the property {name} {problem}.")
        elif problem:
            report.problem(element.line, f"the property {name} {problem}, not {quoted(value)}.")
        elif name == AGENT_MODULES_PROPERTY and check_imports:
            _check_modules(value.split(), element.line, report)
        elif is_joram_property(name):
            report.note(
                element.line,
                f"the property {quoted(name)} is ignored; A3 and Joram read it, and no part of Quorate does.",
            )
        elif name not in PROPERTIES and (near := suggestion(name, list(PROPERTIES), cutoff=0.8)):
            report.note(element.line, f"no part of Quorate reads the property {quoted(name)}{near}")


def _check_modules(modules: list[str], line: int, report: Report) -> None:
    for module in modules:
        problem = import_problem(module)
        if problem:
            report.problem(
                line, f"the property {AGENT_MODULES_PROPERTY}: {module} cannot be imported: {problem}."
            )


def check_replicas_agree(config: Config, report: Report) -> None:
    """Report properties in which the replicas of a cluster differ and must not."""
    for server in config.servers:
        for name in REPLICATED_PROPERTIES:
            values = [config.setting(name, server=server.id, replica=each.id) for each in server.replicas]
            if len(set(values)) > 1:
                report.problem(
                    server.line,
                    f"the replicas of {server.name} differ in the property {name}, which decides how agents "
                    "react; move it into the <cluster>.",
                )


def check_combinations(config: Config, tree: Element, report: Report) -> None:
    """Report values that are valid alone, but contradict others that the same replica has."""
    reported: set[tuple[int, str]] = set()
    for server in config.servers:
        for replica in server.replicas:
            scopes = {tree.line, server.line, replica.line}
            for names, sentence in _contradictions(config, server, replica):
                problem = (_line_of(tree, names, scopes) or server.line, sentence)
                if problem not in reported:
                    reported.add(problem)
                    report.problem(*problem)


def _contradictions(
    config: Config, server: Server, replica: Replica
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the names of properties that contradict each other, and a sentence."""

    def value(name: str, default: float) -> float:
        return float(config.setting(name, str(default), server=server.id, replica=replica.id) or default)

    channel, engine = Settings(), EngineSettings()
    heartbeat_s = value("heartbeat_s", channel.heartbeat_s)
    suspect_s = value("suspect_s", channel.suspect_s)
    least_s = max(HEARTBEATS_TO_SUSPECT * heartbeat_s, channel.verify_s)
    if suspect_s < least_s:
        yield (
            ("heartbeat_s", "suspect_s"),
            f"suspect_s is {suspect_s:g} and heartbeat_s is {heartbeat_s:g}: live replicas would be "
            f"suspected; give suspect_s at least {least_s:g}, or lower heartbeat_s.",
        )
    lease_s = value("lease_s", suspect_s * 3 / 4)
    if suspect_s >= least_s and lease_s < 2 * heartbeat_s:
        yield (
            ("lease_s", "heartbeat_s"),
            f"lease_s is {lease_s:g} and heartbeat_s is {heartbeat_s:g}: no lease could be prolonged; "
            f"give lease_s at least {2 * heartbeat_s:g}, or lower heartbeat_s.",
        )
    if suspect_s >= least_s and lease_s >= 2 * heartbeat_s:
        try:
            Settings(
                mode=server.ack,
                min_copies=server.min_copies,
                heartbeat_s=heartbeat_s,
                suspect_s=suspect_s,
                lease_s=lease_s,
                stall_s=value("stall_s", channel.stall_s),
            )
        except ValueError as error:  # other values that a start would refuse
            yield ("heartbeat_s", "suspect_s", "lease_s", "stall_s"), f"{error}."
    if (
        server.mode == "group"
        and config.setting("answers", server=server.id, replica=replica.id) == "confirmed"
    ):
        yield (
            ("answers",),
            'answers="confirmed" holds what the master sends until its slaves agree, and with mode="group" '
            "every replica sends to its own clients; leave answers out.",
        )
    connections = int(value("max_connections", DEFAULT_MAX_CONNECTIONS))
    max_turn = int(value("max_turn", engine.max_turn))
    if replica.service(TCP_PROXY_SERVICE) and max_turn <= connections:
        yield (
            ("max_turn", "max_connections"),
            f"max_turn is {max_turn} and max_connections is {connections}: a new master notifies all "
            f"connections in one turn; give max_turn more than {connections}, or lower max_connections.",
        )


def _line_of(element: Element, names: tuple[str, ...], scopes: set[int]) -> int:
    """Return the last line on which one of the properties is set for a replica, 0 if none is."""
    own = [
        child.line
        for child in element.all("property")
        if element.line in scopes and child.get("name") in names
    ]
    below = [_line_of(child, names, scopes) for child in element.children]
    return max((*own, *below), default=0)
