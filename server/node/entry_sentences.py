"""Sentences of a node about reactions that took long."""

from collections.abc import Sequence

from ...engine import Effects, Engine, Reaction

__all__ = ["skipped_reaction", "slow_entry"]


def slow_entry(reactions: Sequence[Reaction], seconds: float) -> str:
    """Return the line for the log about an entry, with at least one reaction, that took `seconds`."""
    last = reactions[-1]
    return (
        f"entry {last.index} took {seconds:.1f} s, in which this replica answered nobody (or this "
        "process stood still): "
        f"{len(reactions)} reaction{'s' if len(reactions) > 1 else ''}, the last one of {last.agent} "
        f"({last.cls or 'the platform'}) to {last.type}; long work belongs outside of agents"
    )


def skipped_reaction(engine: Engine, applied: Sequence[Effects]) -> str:
    """Return the end of the sentence about a lost lease: the reaction that was skipped, or ""."""
    position = engine.current.skipped
    for effects in applied:
        for row in effects.trace:
            if row.position == position and row.error:
                return (
                    f": the reaction of agent {row.agent} ({row.cls}) to {row.type} in entry {row.index} "
                    "took too long; it was skipped, as the administrator ordered, and is undone"
                )
    return ""
