"""Comparison of rerun states with those of live agents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from .errors import ReplayError
from .reports import RerunReport

__all__ = ["compare", "not_compared", "read_live"]

MAX_SHOWN = 200
FORMS = (
    "give the output of `quorate inspect --json`, one agent a line, or an object like "
    '{"#0.0.1025": {"balance": 12}}.'
)


def read_live(path: Path) -> dict[str, Any]:
    """Read states by agent id.

    The file holds what ``quorate inspect --json`` prints, an agent a line or several in a list, or one
    object whose keys are agent ids and whose values are states. Raises ReplayError for anything else.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        decoder = msgspec.json.Decoder(Any)
        documents = decoder.decode_lines(text) if several(text) else [decoder.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path} is not JSON: {error}.") from error
    states: dict[str, Any] = {}
    for document in documents:
        for agent in listed(document):
            for name, state in states_in(agent, path).items():
                if states.setdefault(name, state) != state:
                    raise ReplayError(
                        f"{path} has two different states of agent {name}: give one of each agent."
                    )
    if not states:
        raise ReplayError(f"{path} holds no agent states: {FORMS}")
    return states


def listed(document: Any) -> list[Any]:
    """Return the members of a list; anything else is a member itself."""
    if isinstance(document, list):
        members: list[Any] = document  # pyright: ignore[reportUnknownVariableType]
        return members
    return [document]


def several(text: bytes) -> bool:
    """Return whether a file has one JSON document a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) > 1 and all(line.strip()[:1] == b"{" and line.strip()[-1:] == b"}" for line in lines)


def states_in(found: Any, path: Path) -> dict[str, Any]:
    """Return the states in one document."""
    if isinstance(found, dict):
        pairs = cast("dict[str, Any]", found)
        if "id" in pairs and "state" in pairs:
            return {str(pairs["id"]): pairs["state"]}
        if pairs and all(key.startswith("#") for key in pairs):
            return pairs
    raise ReplayError(f"{path} holds no agent states: {FORMS}")


def compare(rerun: RerunReport, live: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each live agent whose state is not what the rerun came to."""
    found: list[str] = []
    results = {result.agent: result for result in rerun.agents}
    for agent, state in sorted(live.items()):
        result = results.get(agent)
        if result is None:
            found.append(f"agent {agent} is live, and the trace does not know it")
        elif result.skipped:
            found.append(f"agent {agent} cannot be compared with the live one: {result.skipped}")
        elif result.deleted:
            found.append(f"agent {agent} is live, and was deleted according to the trace")
        elif result.state != state:
            found.append(f"agent {agent} differs from the live one: {differing(result.state or {}, state)}")
    return found


def not_compared(rerun: RerunReport, live: Mapping[str, Any]) -> list[str]:
    """Return a sentence about the agents of a rerun that are not among the live ones."""
    alone = [agent.agent for agent in rerun.agents if agent.agent not in live and not agent.deleted]
    if not alone:
        return []
    return [f"{len(alone):,} agents, {alone[0]} first, are not among the live states, so not compared"]


def differing(ours: Mapping[str, Any], live: Any) -> str:
    """Return the attributes that differ, as text."""
    if not isinstance(live, dict):
        return "the live one has no state"
    theirs = cast("dict[str, Any]", live)
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    parts = [f"{name} is {cut(ours.get(name))}, live {cut(theirs.get(name))}" for name in names]
    return "; ".join(parts)


def cut(value: Any) -> str:
    """Return a value as text, not too long."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
