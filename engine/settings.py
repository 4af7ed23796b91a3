"""Limits of an engine. All replicas of a server must have the same."""

import attrs

__all__ = ["EngineSettings"]


@attrs.frozen
class EngineSettings:
    """The bounds of an engine."""

    max_turn: int = 20_000
    """Reactions that one external notification may cause, those to the waiting notifications included. What
    waits when there would be more goes to the dead letters."""
    max_turn_bytes: int = 128 * 1024 * 1024
    """Bytes of the local notifications that one external notification may cause."""
    max_waiting: int = 1_000_000
    """Notifications that may wait for one other server. Further ones are refused to their senders."""
    max_waiting_bytes: int = 256 * 1024 * 1024
    """Bytes of payloads that may wait for one other server."""
    high_water: int = 50_000
    """Notifications waiting for one other server above which clients that send there are held back."""
    high_water_bytes: int = 64 * 1024 * 1024
    """Bytes of payloads waiting for one other server above which clients that send there are held back."""
    max_held: int = 10_000
    """Notifications that may wait for one paused agent. Further ones are refused to their senders."""
    max_held_bytes: int = 16 * 1024 * 1024
    """Bytes of payloads that may wait for one paused agent."""
    max_all_held: int = 100_000
    """Notifications that may wait for all paused agents of the server."""
    max_all_held_bytes: int = 64 * 1024 * 1024
    """Bytes of payloads that may wait for all paused agents of the server."""
    max_timers_per_tick: int = 10_000
    max_timers_per_s: int = 100
    """Timers of one agent that may fire within a second of the log's time before the log names the agent."""
    max_created_keys: int = 4096
    """Keys of `Create` that are remembered to answer a repeated request."""
    max_declared_keys: int = 10_000
    """Agents of the configuration that are remembered to have been made."""
    max_reports: int = 20
    """Log lines of one entry; further ones are only counted."""
    stop_on_exception: bool = False
    """Stop the engine when a reaction raises, instead of answering the sender and continuing."""
