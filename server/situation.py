"""What keeps a replica from being master or slave, in one sentence for whoever has started it."""

from collections.abc import Iterable

from ..hachannel import Channel
from ..hachannel.view import NO_VIEW

__all__ = ["situation"]


def situation(channel: Channel) -> str:
    """Say for whom or what a replica waits, and what to do; "" when it waits for nothing.

    The sentence stays the same as long as the same replicas are heard.
    """
    match channel.role:
        case "joining":
            return _joining(channel)
        case "blocked":
            return _blocked(channel)
        case "changing":
            return f"the replicas agree on the next view; this one hears {_names(_heard(channel))}"
        case _:
            return ""


def _heard(channel: Channel) -> list[int]:
    return sorted(link.replica for link in channel.state.peers if link.connected and not link.suspected)


def _joining(channel: Channel) -> str:
    state = channel.state
    heard = _heard(channel)
    if channel.unlisted:
        return f"replica {state.me.replica} does not belong to the cluster; run `quorate replica add` for it"
    if channel.master is not None:
        return f"gets the state from the others, whose master is replica {channel.master}"
    missing = {seat.replica for seat in state.seats} - {state.me.replica, *heard}
    begun = any(link.heartbeat is not None and link.heartbeat.founded for link in state.peers)
    if begun or state.known_active or state.newer != NO_VIEW:
        return f"waits for a master; this replica hears {_names(heard)}{_start(missing)}"
    here = 1 + len(heard)
    return (
        f"waits for the others before the very first start: {here} of {state.expected} expected are here, "
        f"this replica hears {_names(heard)}{_start(missing)}"
    )


def _blocked(channel: Channel) -> str:
    state = channel.state
    view = state.accepted
    assert view is not None
    if state.leading and state.too_few_copies:
        return f"takes nothing new; it waits for {state.too_few_copies}"
    voters = {voter.replica for voter in (*view.config, *view.members)}
    heard = set(_heard(channel))
    missing = voters - heard - {state.me.replica}
    return (
        f"too few replicas of view {view.number.counter} can be reached to go on, this one hears "
        f"{_names(heard & voters)}{_start(missing, ', or mend the network')}"
    )


def _start(missing: Iterable[int], more: str = "") -> str:
    absent = set(missing)
    plural = "s" if len(absent) > 1 else ""
    return f"; start replica{plural} {_names(absent)}{more}" if absent else ""


def _names(replicas: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(replicas))) or "none"
