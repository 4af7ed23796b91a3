"""What keeps a replica from being master or slave, or a witness of use, in a sentence for who started it."""

from collections.abc import Collection, Iterable, Sequence

import attrs

from .channel import Channel
from .choice import overlap
from .view import NO_VIEW, View, Voter, present

__all__ = ["TOO_FEW", "situation", "strangers"]

TOO_FEW = "too few replicas"
"""With this begins what a replica says that is in no majority."""


def situation(channel: Channel, mute: Collection[int] = (), *, otherwise: str = "") -> str:
    """Say for whom or what a replica waits, and what to do; "" when it waits for nothing.

    mute: replicas that cannot be connected with although their hosts do not say that nobody listens there.
    otherwise: what can be done when all are there and have no master.
    The sentence stays the same as long as the same replicas are heard.
    """
    match channel.role:
        case "joining":
            return _joining(channel, mute, otherwise)
        case "blocked":
            return _blocked(channel, mute)
        case "changing":
            return f"the replicas agree on the next view; this one hears {_names(_heard(channel))}"
        case "witness" if _is_alone(channel):
            return _blocked(channel, mute)
        case _:
            return ""


def _is_alone(channel: Channel) -> bool:
    """Whether those that a witness hears are too few to go on."""
    state = channel.state
    view = state.accepted
    return view is not None and bool(overlap(state.alive(view), view, state.known_active))


def strangers(channel: Channel) -> str:
    """Which replicas are kept out because they belong to another cluster, in one sentence; "" if none."""
    if not channel.foreigners:
        return ""
    names = _replicas(channel.foreigners)
    several = len(channel.foreigners) > 1
    verb, them, their = ("belong", "them", "their") if several else ("belongs", "it", "its")
    return (
        f"{names} {verb} to {_which(channel)}, and cannot take part: "
        f"stop {them}, remove {their} directory and start {them} again"
    )


def _which(channel: Channel) -> str:
    view = channel.view
    if view is not None and view.lineage is not None:
        return "the cluster as it was before it was begun again"
    return "a cluster that was begun again from a replica removed from this one"


def _heard(channel: Channel) -> list[int]:
    return sorted(link.replica for link in channel.state.peers if link.connected and not link.suspected)


def _silent(channel: Channel, mute: Collection[int]) -> set[int]:
    """Who is there, or might be, and says nothing."""
    connected = {link.replica for link in channel.state.peers if link.connected and link.suspected}
    return connected.union(mute).difference(channel.foreigners)


def _joining(channel: Channel, mute: Collection[int], otherwise: str) -> str:
    state = channel.state
    heard = _heard(channel)
    if channel.unlisted:
        return f"replica {state.me.replica} does not belong to the cluster; run `quorate replica add` for it"
    if channel.master is not None and channel.phases.learning == "alone":
        return f"waits for replica {channel.master}, the master, to let it in: one replica joins at a time"
    if channel.master is not None:
        return f"gets the state from the others, whose master is replica {channel.master}"
    missing = {seat.replica for seat in state.seats} - {state.me.replica, *heard}
    silent = missing & _silent(channel, mute)
    strange = missing & {*channel.foreigners}
    advice = _advice(
        _start(missing - silent - strange), _does_not_answer(silent), strangers(channel) if strange else ""
    )
    begun = any(link.heartbeat is not None and link.heartbeat.founded for link in state.peers)
    if begun or state.known_active or state.newer != NO_VIEW:
        return f"waits for a master; this replica hears {_names(heard)}{advice or _advice(otherwise)}"
    if state.guest:
        return (
            "waits for the others, which have what its own journal has lost; "
            f"this replica hears {_names(heard)}{advice}"
        )
    here = 1 + len(heard)
    if here >= state.expected:
        # They are about to begin, whoever else may come.
        advice = ""
    return (
        f"waits for the others before the very first start: {here} of {state.expected} expected are here, "
        f"this replica hears {_names(heard)}{advice}"
    )


@attrs.frozen
class _Lacking:
    """Those of the voters of a view that are not there, of whom one suffices, or all it takes."""

    silent: set[int]
    """They may still run."""
    reborn: set[int]
    """Their processes have ended; they run again without what they knew."""
    strange: set[int]
    """They run, and belong to another cluster now."""
    absent: set[int]
    either: bool
    """Any one of them suffices."""
    holder: bool
    """There is only one, and what is lacking is its log."""


def _lacking(channel: Channel, view: View, mute: Collection[int]) -> _Lacking:
    state = channel.state
    alive = state.alive(view)
    missing = sorted({*view.config, *view.members}.difference(alive))
    enough = [voter for voter in missing if not overlap([*alive, voter], view, state.known_active)]
    needed = enough or missing
    silent, reborn, absent, strange = set[int](), set[int](), set[int](), set[int]()
    quiet, foreign = _silent(channel, mute), channel.foreigners
    for voter in needed:
        link = state.peers.links.get(voter.replica)
        another = link is not None and link.connected and link.voter != voter
        ended = link is not None and link.voter == voter and link.ended and not state.log.durable
        left = reborn if another or ended else silent if voter.replica in quiet else absent
        into = strange if voter.replica in foreign else left
        into.add(voter.replica)
    holder = len(enough) == 1 and _lacks_log(alive, view)
    return _Lacking(silent, reborn, strange, absent, len(enough) > 1, holder)


def _lacks_log(alive: Sequence[Voter], view: View) -> bool:
    return present(alive, view.members) < len(view.members) - view.k + 1


def _blocked(channel: Channel, mute: Collection[int]) -> str:
    state = channel.state
    view = channel.lacking or state.accepted
    assert view is not None
    if state.leading and state.too_few_copies:
        return f"takes nothing new; it waits for {state.too_few_copies}{_more_copies(channel, view, mute)}"
    lacking = _lacking(channel, view, mute)
    alive = [voter.replica for voter in state.alive(view) if voter != state.me]
    said = f"{TOO_FEW} of view {view.number.counter} can be reached to go on, this one hears {_names(alive)}"
    if state.log.durable:
        return said + _with_disks(lacking) + _advice(strangers(channel) if lacking.strange else "")
    return said + _without_disks(lacking)


def _with_disks(lacking: _Lacking) -> str:
    start = _start(lacking.absent, either=lacking.either)
    if start and lacking.holder:
        start += ", which holds the last view"
    if start:
        start += ", or mend the network"
    reborn = ""
    if lacking.reborn:
        them = "one of them" if len(lacking.reborn) > 1 and lacking.either else "that"
        verb = "have" if len(lacking.reborn) > 1 else "has"
        reborn = (
            f"{_replicas(lacking.reborn)} {verb} come back without what was on the disk, and cannot stand "
            f"for what {'they were' if verb == 'have' else 'it was'}: put back the directory of {them}, or "
            "give up what only they have with `quorate replica force-new-cluster`"
        )
    return _advice(start, _does_not_answer(lacking.silent), reborn)


def _without_disks(lacking: _Lacking) -> str:
    """Nobody who has ended comes back: what is to be done depends on whether somebody has not."""
    gone = "what the cluster held is lost: stop all replicas and start them again, they begin with nothing"
    running = lacking.absent | lacking.silent
    if not running:
        verb = "have" if len(lacking.reborn) > 1 else "has"
        return f"; {_replicas(lacking.reborn)} {verb} ended, and kept nothing without a disk; {gone}"
    plural = len(running) > 1
    return (
        f"; if {_replicas(running, either=lacking.either)} still {'run' if plural else 'runs'}, mend the "
        f"network; if {'they have' if plural else 'it has'} ended, {gone}"
    )


def _more_copies(channel: Channel, view: View, mute: Collection[int]) -> str:
    state = channel.state
    members = {voter.replica for voter in view.members}
    missing = {seat.replica for seat in state.seats} - members - state.witnesses
    absent = missing.difference(_heard(channel))
    silent = absent & _silent(channel, mute)
    strange = absent & {*channel.foreigners}
    joining = missing - absent
    comes = f"{_replicas(joining)} about to join" if joining else ""
    start = _start(absent - silent - strange, either=len(absent) > 1)
    return _advice(comes, start, _does_not_answer(silent), strangers(channel) if strange else "")


def _advice(*parts: str) -> str:
    return "".join(f"; {part}" for part in parts if part)


def _start(absent: Iterable[int], *, either: bool = False) -> str:
    who = set(absent)
    return f"start {_replicas(who, either=either)}" if who else ""


def _does_not_answer(silent: Collection[int]) -> str:
    if not silent:
        return ""
    verb = "do" if len(silent) > 1 else "does"
    return f"{_replicas(silent)} {verb} not answer: frozen, overloaded or cut off"


def _replicas(ids: Collection[int], *, either: bool = False) -> str:
    names = list(map(str, sorted(ids)))
    if either and len(names) > 1:
        return f"replica {', '.join(names[:-1])} or {names[-1]}"
    return f"replica{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _names(replicas: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(replicas))) or "none"
