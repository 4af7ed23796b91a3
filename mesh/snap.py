"""Snaps: the directory and the positions of subscriptions, in place of records that are collected. Pure."""

from .messages import Snap
from .state import DaemonState

__all__ = ["take_snap"]


def take_snap(state: DaemonState) -> Snap:
    """Return what a daemon knows, for one that cannot get it from records any more."""
    directory = state.directory
    state.count("snaps")
    return Snap(
        list(directory.ctx.items()),
        [(stream, held.floor) for stream, held in state.streams.states.items() if held.floor],
        list(directory.topics.items()),
        list(directory.subscriptions.items()),
        sorted(directory.gone_topics),
        sorted(directory.gone_dots),
        list(directory.member_states.items()),
        list(directory.retired.items()),
        [(stream, list(state.marks.of(stream))) for stream in state.marks.streams],
        directory.stamp,
    )
