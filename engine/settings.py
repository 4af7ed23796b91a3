"""Limits of an engine. All replicas of a server must have the same."""

import attrs

__all__ = ["EngineSettings"]


@attrs.frozen
class EngineSettings:
    """The bounds of an engine."""

    max_turn: int = 100_000
    """Reactions that one external notification may cause before the rest goes to the dead letters."""
    max_waiting: int = 1_000_000
    """Notifications waiting for one other server; what comes on top is refused to its sender."""
    high_water: int = 50_000
    """Notifications waiting for other servers above which the master stops taking from clients."""
    max_timers_per_tick: int = 10_000
    max_created_keys: int = 4096
    """Keys of `Create` that are remembered to answer a repeated request."""
    max_reports: int = 20
    """Log lines of one entry; more are counted only."""
    stop_on_exception: bool = False
    """Stop the engine when a reaction raises, instead of telling the sender and going on."""
