"""Diagnosis: what keeps a replica from serving, in a sentence for the person who started it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from ..model.view import NO_TAG, NO_VIEW, View, Voter, present
from ..replication.peers import Link, founds
from ..view_change.choice import overlap
from .channel import Channel

__all__ = ["TOO_FEW", "diagnose", "strangers"]

TOO_FEW = "too few replicas"
"""With this begins what a replica says that is in no majority."""

LOST = "what the cluster held is lost"
_SETTLE = "`quorate replica force-new-cluster` takes the state of one replica for right"
ANEW = "stop all replicas and start them again, they begin with nothing"


@attrs.frozen
class _Apart:
    """Those that cannot be connected with, although their hosts do not say that nobody listens there."""

    mute: Collection[int]
    """They say nothing."""
    astray: Collection[int]
    """Those of them whose host names do not resolve: they cannot be asked."""
    refused: Mapping[int, str]
    """They turn this one away; with the reason, which says what to do."""


def diagnose(
    channel: Channel,
    mute: Collection[int] = (),
    *,
    astray: Collection[int] = (),
    refused: Mapping[int, str] | None = None,
    otherwise: str = "",
) -> str:
    """Say for whom or what a replica waits, and what to do; "" when it waits for nothing.

    mute: replicas that cannot be connected with although their hosts do not say that nobody listens there.
    astray: those of them whose host names do not resolve.
    refused: replicas that answer, and turn this one away, with the reason, which says what to do.
    otherwise: what can be done when all are there and have no master.
    The sentence stays the same as long as the same replicas are heard, and refuse for the same reason.
    """
    apart = _Apart(mute, astray, refused or {})
    wrong = _wrong_state(channel, apart)
    if wrong:
        return wrong
    match channel.role:
        case "joining":
            return _joining(channel, apart, otherwise)
        case "blocked":
            return _blocked(channel, apart)
        case "changing":
            return f"the replicas agree on the next view; this one hears {_names(_heard(channel))}"
        case "witness" if _is_alone(channel):
            return _blocked(channel, apart)
        case "master" if _is_alone(channel) and not channel.lease.held:
            return _without_lease(channel, apart)
        case _:
            return ""


def _is_alone(channel: Channel) -> bool:
    """Whether those that a witness or a master hears are too few for another view."""
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


def _links(channel: Channel) -> list[Link]:
    return [link for link in channel.state.peers if link.connected and not link.suspected]


def _heard(channel: Channel) -> list[int]:
    return sorted(link.replica for link in _links(channel))


def _silent(channel: Channel, apart: _Apart) -> set[int]:
    """Name the replicas that may run, and do not answer."""
    connected = {link.replica for link in channel.state.peers if link.connected and link.suspected}
    return connected.union(apart.mute).difference(channel.foreigners)


def _joining(channel: Channel, apart: _Apart, otherwise: str) -> str:
    state = channel.state
    heard = _heard(channel)
    if channel.standing.unlisted:
        return f"replica {state.me.replica} does not belong to the cluster; run `quorate replica add` for it"
    if channel.master is not None:
        return _outside(channel, channel.master, otherwise)
    missing = {seat.replica for seat in state.seats.listed} - {state.me.replica, *heard}
    silent = missing & _silent(channel, apart)
    strange = missing & {*channel.foreigners}
    foreign = strangers(channel) if strange else ""
    others = _does_not_answer(silent, apart), foreign, _turn_away(apart.refused)
    advice = _advice(_start(missing - silent - strange - apart.refused.keys()), *others)
    if _begun(channel):
        if not state.log.durable:
            # Who is started now comes with nothing, and makes no majority.
            known = bool(_members(channel))
            advice = _advice(*others) if known else _nobody_knows(channel, missing - strange, apart)
        advice = advice or _advice(otherwise or _who_knows(channel))
        return f"waits for a master; this replica hears {_names(heard)}{advice}"
    if state.guest:
        joins = [link.join for link in _links(channel)]
        if not missing and joins and all(join is not None and join.commit == NO_TAG for join in joins):
            advice = (
                ". None of them has anything of the cluster: if it runs, start them with a file that has its "
                "replicas, too; if it is lost, put the directory of one back from a copy and use `quorate "
                "replica force-new-cluster` with it, or, to begin anew "
                "with nothing, stop all, remove their directories and start them"
            )
        return (
            "waits for the others to let it in: it founds no cluster, for it was started to join one, was "
            f"turned away by one, or has lost its journal; this replica hears {_names(heard)}{advice}"
        )
    here, expected = 1 + len(heard), state.configuration.expected
    empty = [link for link in _links(channel) if link.join is not None and link.join.empty]
    elsewhere = {link.replica for link in empty if not founds(link, state.configuration.birth)}
    if len(empty) - len(elsewhere) >= expected - 1:
        # Nothing is missing: it is for others that may come, and for what somebody may have granted before.
        return f"is about to begin, for the first time, with those that are here; it hears {_names(heard)}"
    if here >= expected:
        advice = _advice(_configured_apart(elsewhere))
    return (
        f"waits for the others before the very first start: {here} of {expected} expected are here, "
        f"this replica hears {_names(heard)}{advice}"
    )


def _configured_apart(apart: Collection[int]) -> str:
    if not apart:
        return ""
    verb = "are" if len(apart) > 1 else "is"
    return f"{_replicas(apart)} {verb} configured with other replicas: use the same file for all"


def _begun(channel: Channel) -> bool:
    """Whether there is a cluster, or was, as somebody here knows."""
    state = channel.state
    said = [link.heartbeat for link in state.peers if link.heartbeat is not None]
    heard = any(each.founded or each.newest != NO_VIEW for each in said)
    return heard or state.known_active or state.newer != NO_VIEW


def _members(channel: Channel) -> list[int]:
    """Return the members of the view that are heard."""
    heard = [(link.replica, link.heartbeat) for link in _links(channel)]
    return [replica for replica, said in heard if said is not None and said.member]


def _nobody_knows(channel: Channel, missing: set[int], apart: _Apart) -> str:
    """Describe a cluster without disks of which only joining or restarted replicas are heard."""
    links = channel.state.peers.links
    refused = {replica: reason for replica, reason in apart.refused.items() if replica in missing}
    there = missing - refused.keys()
    running = {replica for replica in there if replica not in links or not links[replica].ended}
    if running or refused:
        return _without_disks(_Lacking(set(), set(), set(), refused, running, False, False), LOST)
    return f"; nobody who is left was a member, and {LOST}: {ANEW}"


def _outside(channel: Channel, master: int, otherwise: str) -> str:
    """Describe a replica that waits to be let in by a master."""
    state = channel.state
    learning = channel.phases.learning
    said = state.peers.links[master].heartbeat
    assert said is not None
    heard = [(link.replica, link.heartbeat) for link in _links(channel) if link.heartbeat is not None]
    # Also who has not told yet that it is in the view of the master.
    voters = [replica for replica, each in heard if each.view != NO_VIEW]
    complete = len(heard) == sum(not link.suspected for link in state.peers)
    # Who votes is not known here, and may be fewer than belong to the cluster: so it is no more than a hint.
    few = complete and state.accepted is None and 2 * len(voters) <= len(state.seats.listed)
    # Nobody else is in the middle of a transfer, which would be what this one waits for.
    idle = not said.commit or any(each.commit and replica not in voters for replica, each in heard)
    if learning == "entries":
        begins = f"has the state, and waits for replica {master}, the master, to let it in"
        if not few:
            return begins
    elif few and learning == "alone" and idle:
        begins = f"waits for replica {master}, the master, to let it in"
    elif learning == "alone":
        return (
            f"waits for replica {master}, the master, to let it in: one replica joins at a time; "
            f"if this lasts, the log of replica {master} says why"
        )
    else:
        return f"gets the state from the others, whose master is replica {master}"
    where = otherwise or f"the log of replica {master} says whom it lacks"
    return (
        f"{begins}; that takes more than half of the voters of view {said.view.counter}, of which this one "
        f"hears {_replicas(voters)} only; if this lasts, {where}"
    )


def _who_knows(channel: Channel) -> str:
    """Where to look for what keeps the members of a view from having a master; "" if none is heard."""
    members = _members(channel)
    if not members:
        return ""
    logs, say = ("logs", "say") if len(members) > 1 else ("log", "says")
    return f"the {logs} of {_replicas(members)} {say} why there is none"


@attrs.frozen
class _Lacking:
    """Those of the voters of a view that are not there, of whom one suffices, or all it takes."""

    silent: set[int]
    """They may still run."""
    reborn: set[int]
    """Their processes have ended; they run again without what they knew."""
    strange: set[int]
    """They run, and belong to another cluster now."""
    refused: dict[int, str]
    """They run, and turn this one away for a reason."""
    absent: set[int]
    either: bool
    """Any one of them suffices."""
    holder: bool
    """There is only one, and what is lacking is its log."""


def _lacking(channel: Channel, view: View, apart: _Apart) -> _Lacking:
    state = channel.state
    alive = state.alive(view)
    missing = sorted({*view.config, *view.members}.difference(alive))
    enough = [voter for voter in missing if not overlap([*alive, voter], view, state.known_active)]
    holder = len(enough) == 1 and _lacks_log(alive, view)
    return _sorted_out(channel, enough or missing, apart, either=len(enough) > 1, holder=holder)


def _sorted_out(
    channel: Channel, needed: Collection[Voter], apart: _Apart, *, either: bool = False, holder: bool = False
) -> _Lacking:
    """Group voters that are not there by what has become of them."""
    state = channel.state
    silent, reborn, absent, strange = set[int](), set[int](), set[int](), set[int]()
    quiet, foreign = _silent(channel, apart), channel.foreigners
    refused = {each.replica: apart.refused[each.replica] for each in needed if each.replica in apart.refused}
    for voter in needed:
        if voter.replica in refused:
            continue
        link = state.peers.links.get(voter.replica)
        another = link is not None and link.connected and link.voter != voter
        ended = link is not None and link.voter == voter and link.ended and not state.log.durable
        left = reborn if another or ended else silent if voter.replica in quiet else absent
        into = strange if voter.replica in foreign else left
        into.add(voter.replica)
    return _Lacking(silent, reborn, strange, refused, absent, either, holder)


def _lacks_log(alive: Sequence[Voter], view: View) -> bool:
    return present(alive, view.members) < len(view.members) - view.k + 1


def _blocked(channel: Channel, apart: _Apart) -> str:
    state = channel.state
    view = channel.lacking or state.accepted
    assert view is not None
    if state.leading and state.too_few_copies:
        return f"takes nothing new; it waits for {state.too_few_copies}{_more_copies(channel, view, apart)}"
    return _minority(channel, view, apart, "to go on", LOST)


def _wrong_state(channel: Channel, apart: _Apart) -> str:
    """Describe members that are all unfit, and for whom they wait; "" if a fit member is heard."""
    state = channel.state
    view = state.accepted
    if view is None or not state.seated:
        return ""
    alive = state.alive(view)
    unfit = [voter for voter in view.members if voter in alive]
    if not unfit or not all(map(state.is_unfit, unfit)):
        return ""
    several = len(unfit) > 1
    said = (
        f"{_replicas({voter.replica for voter in unfit})} {'have' if several else 'has'} another state than "
        f"the others had, and {'wait' if several else 'waits'} for one that has the right state"
    )
    fit = {voter for voter in view.members if voter not in unfit}
    if not fit:
        return f"{said}; nobody has it: {_SETTLE}"
    if state.log.durable:
        return said + _with_disks(_sorted_out(channel, fit, apart), apart) + f"; if it is lost, {_SETTLE}"
    return said + _without_disks(_sorted_out(channel, fit, apart), LOST)


def _without_lease(channel: Channel, apart: _Apart) -> str:
    """Describe a master that can commit, but neither change the view nor hold the lease."""
    view = channel.view
    assert view is not None
    lacks, lost = "to hold the lease or let anybody in", "nobody can join what is left of the cluster"
    return _minority(channel, view, apart, lacks, lost)


def _minority(channel: Channel, view: View, apart: _Apart, lacks: str, lost: str) -> str:
    """Whom those lack that are here. lacks: for what they are too few; lost: if nobody can come back."""
    lacking = _lacking(channel, view, apart)
    said = f"{TOO_FEW} of view {view.number.counter} can be reached {lacks}, {_hears(channel, view, lacking)}"
    if channel.state.log.durable:
        return said + _with_disks(lacking, apart) + _advice(strangers(channel) if lacking.strange else "")
    return said + _without_disks(lacking, lost)


def _hears(channel: Channel, view: View, lacking: _Lacking) -> str:
    """Name the members of a view that are heard, and the other replicas that are."""
    state = channel.state
    alive = {voter.replica for voter in state.alive(view) if voter != state.me}
    # With disks the advice says of those what they have lost.
    heard = {*_heard(channel)}
    others = heard - alive - (lacking.reborn if state.log.durable else set())
    if not others:
        # Of those that are heard and have lost their votes the advice tells.
        voting = " that has a vote" if not alive and heard & lacking.reborn else ""
        return f"this one hears {_names(alive)}{voting}"
    anew = others <= {voter.replica for voter in (*view.config, *view.members)}
    without = f"{_replicas(others)}{', begun anew and' if anew else ''} without a vote"
    return f"this one hears {_names(alive)}, and {without}" if alive else f"this one hears only {without}"


def _with_disks(lacking: _Lacking, apart: _Apart) -> str:
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
    return _advice(start, _does_not_answer(lacking.silent, apart), _turn_away(lacking.refused), reborn)


def _without_disks(lacking: _Lacking, lost: str) -> str:
    """Nobody who has ended comes back: what is to be done depends on whether somebody has not."""
    gone = f"{lost}: {ANEW}"
    running = lacking.absent | lacking.silent
    refusal = _turn_away(lacking.refused)
    if refusal and not running:
        return _advice(refusal)
    if not running:
        verb = "have" if len(lacking.reborn) > 1 else "has"
        return f"; {_replicas(lacking.reborn)} {verb} ended, and kept nothing without a disk; {gone}"
    plural = len(running) > 1
    they, them = ("they are", "them") if plural else ("it is", "it")
    frozen = f"let {them} go on if {they} frozen, or " if lacking.silent else ""
    ended = f"if {'they have' if plural else 'it has'} ended, {gone}"
    return (
        f"; if {_replicas(running, either=lacking.either)} still {'run' if plural else 'runs'}, {frozen}mend "
        # Those that turn this one away may well have what the group holds: nobody is to stop them.
        f"the network; {refusal or ended}"
    )


def _more_copies(channel: Channel, view: View, apart: _Apart) -> str:
    state = channel.state
    members = {voter.replica for voter in view.members}
    missing = {seat.replica for seat in state.seats.listed} - members - state.seats.witnesses
    absent = missing.difference(_heard(channel))
    silent = absent & _silent(channel, apart)
    strange = absent & {*channel.foreigners}
    refused = {replica: reason for replica, reason in apart.refused.items() if replica in absent}
    joining = missing - absent
    comes = f"{_replicas(joining)} about to join" if joining else ""
    start = _start(absent - silent - strange - refused.keys(), either=len(absent) > 1)
    foreign = strangers(channel) if strange else ""
    return _advice(comes, start, _does_not_answer(silent, apart), foreign, _turn_away(refused))


def _advice(*parts: str) -> str:
    return "".join(f"; {part}" for part in parts if part)


def _start(absent: Iterable[int], *, either: bool = False) -> str:
    who = set(absent)
    return f"start {_replicas(who, either=either)}" if who else ""


def _does_not_answer(silent: set[int], apart: _Apart) -> str:
    astray = silent.intersection(apart.astray)
    quiet = silent - astray
    said: list[str] = []
    if quiet:
        verb = "do" if len(quiet) > 1 else "does"
        said.append(f"{_replicas(quiet)} {verb} not answer: frozen, overloaded or cut off")
    if astray:
        name = "the host name" if len(astray) == 1 else "the host names"
        verb = "does" if len(astray) == 1 else "do"
        said.append(f"{name} of {_replicas(astray)} {verb} not resolve here: mend that, or the name service")
    return "; ".join(said)


def _turn_away(refused: Mapping[int, str]) -> str:
    """Name the replicas that refuse this one, grouped by their reason."""
    by_reason: dict[str, list[int]] = {}
    for replica in sorted(refused):
        by_reason.setdefault(refused[replica], []).append(replica)
    return "; ".join(
        f"{_replicas(ids)} turn{'' if len(ids) > 1 else 's'} this one away: {reason}"
        for reason, ids in by_reason.items()
    )


def _replicas(ids: Collection[int], *, either: bool = False) -> str:
    names = list(map(str, sorted(ids)))
    if either and len(names) > 1:
        return f"replica {', '.join(names[:-1])} or {names[-1]}"
    return f"replica{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _names(replicas: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(replicas))) or "none"
