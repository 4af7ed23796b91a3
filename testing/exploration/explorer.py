"""Every order of events in a small cluster: what random runs would have to be lucky to meet.

A cluster of real channels is brought to a place where much can go wrong. From there every message can be the
next one to arrive, every connection to break, every replica to crash, start again, or look at its clock, each
so often as a budget says. After every step all invariants are checked. Places met before are not left again,
and of two events that have nothing to do with each other only one order is tried (sleep sets: P. Godefroid,
Partial-Order Methods for the Verification of Concurrent Systems, 1996, with his way to combine them with
known states).
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random

import attrs

from ...hachannel import Channel
from ..channel.arguments import is_whole
from ..channel.violation import Violation
from .network import Budget, Event
from .start_states import START_STATES
from .world import ExploredWorld, WorldState

__all__ = ["START_STATES", "Budget", "Explored", "explore"]

MAX_TRIES = 500
"""So many tries at a shorter way to a violation."""

Sleeping = dict[Event, frozenset[int]]
"""Events whose order with what comes next does not matter and was tried, and what they change."""


@attrs.frozen
class Explored:
    """What an exploration saw."""

    name: str
    states: int
    """Different places."""
    steps: int
    depth: int
    """Of the longest way."""
    complete: bool
    """Everything that the budget allows was visited."""
    budget: Budget


@attrs.define
class _Node:
    """A place on the way, and what is still to be tried there."""

    place: WorldState
    events: list[Event]
    sleeping: Sleeping


class _Exploration:
    """Depth first; the way is the stack."""

    def __init__(self, world: ExploredWorld, seed: int, *, reduce: bool) -> None:
        self._world = world
        self._random = Random(seed)
        self._reduce = reduce
        self.seen: dict[bytes, Sleeping] = {}
        """Known places, and what was not tried there because its order does not matter."""
        self.stack: list[_Node] = []
        self.way: list[Event] = []
        self.steps = self.depth = 0

    def enter(self, sleeping: Sleeping) -> None:
        """The world is at a place: remember it, and go on from there unless that was done."""
        world = self._world
        place = world.keep()
        name = world.print(place)
        known = self.seen.get(name)
        if known is None:
            self.seen[name] = sleeping
            events = [event for event in world.events() if event not in sleeping]
        else:
            events = [event for event in known if event not in sleeping]
            self.seen[name] = sleeping = {event: known[event] for event in known if event in sleeping}
        if events:
            self._random.shuffle(events)
        self.stack.append(_Node(place, events, dict(sleeping)))
        self.depth = max(self.depth, len(self.stack) - 1)

    def step(self) -> None:
        """Try the next event, or go back. Raises Violation."""
        node = self.stack[-1]
        if not node.events:
            self.stack.pop()
            del self.way[-1:]
            return
        event = node.events.pop()
        world = self._world
        world.go(node.place)
        self.way.append(event)
        self.steps += 1
        world.happen(event)
        touched = frozenset(world.touched)
        sleeping: Sleeping = {}
        if self._reduce:
            sleeping = {
                other: changes
                for other, changes in node.sleeping.items()
                if not (changes & touched or other[0] == event[0] != "deliver")
            }
            node.sleeping[event] = touched
        self.enter(sleeping)


def explore(
    name: str,
    *,
    states: int = 20_000,
    budget: Mapping[str, int] | None = None,
    seed: int = 0,
    reduce: bool = True,
    channel: Callable[..., Channel] = Channel,
    progress: Callable[[int], None] | None = None,
) -> Explored:
    """Explore from a start state.

    states: so many places at most. budget: other numbers than those of the start, by kind of event.
    seed: shuffles the order. reduce: of independent events try one order only. progress: is told the number
    of places now and then. Raises Violation, whose trace is a way to it, and ValueError for an unknown name
    or kind of event.
    """
    if name not in START_STATES:
        raise ValueError(f"there is no start {name!r}. There are: {', '.join(START_STATES)}")
    kinds = attrs.fields_dict(Budget)
    for kind, number in (budget or {}).items():
        if kind not in kinds:
            raise ValueError(f"there is no event {kind!r} to be counted. There are: {', '.join(kinds)}")
        if not is_whole(number) or number < 0:
            raise ValueError(f"the budget of {kind} is {number!r}: give a whole number, at least 0")
    world = START_STATES[name](channel)
    whole = world.budget = attrs.evolve(world.budget, **(budget or {}))
    search = _Exploration(world, seed, reduce=reduce)
    search.enter({})
    start = search.stack[0].place
    try:
        while search.stack and len(search.seen) < states:
            search.step()
            if progress is not None and search.steps % 256 == 0:
                progress(len(search.seen))
    except Violation as violation:
        found = _shorter(world, start, search.way, violation)
        raise found from None
    return Explored(name, len(search.seen), search.steps, search.depth, not search.stack, whole)


def _shorter(world: ExploredWorld, start: WorldState, way: list[Event], violation: Violation) -> Violation:
    """Leave out what is not needed for the same invariant to be violated, and tell the rest."""
    tries, size = 0, max(len(way) // 2, 1)
    while tries < MAX_TRIES:
        position, shorter = 0, False
        while position < len(way) and tries < MAX_TRIES:
            fewer = way[:position] + way[position + size :]
            tries += 1
            found = _go(world, start, fewer)
            if found is not None and found.invariant == violation.invariant:
                way, shorter = fewer, True
            else:
                position += size
        if size == 1 and not shorter:
            break
        size = max(size // 2, 1)
    told: list[str] = []
    last = _go(world, start, way, told)
    assert last is not None
    last.trace = told
    return last


def _go(
    world: ExploredWorld, start: WorldState, way: Iterable[Event], told: list[str] | None = None
) -> Violation | None:
    """Go a way, as far as it is one; returns what is violated. told: gets what happens."""
    world.go(start)
    world.tracing = told is not None
    try:
        for event in way:
            if event not in world.events():
                break
            if told is not None:
                told.append(_said(event))
            world.lines.clear()
            try:
                world.happen(event)
            finally:
                if told is not None:
                    told += [f"    {line}" for line in world.lines]
    except Violation as violation:
        return violation
    finally:
        world.tracing = False
    return None


def _said(event: Event) -> str:
    kind, one, other = event
    match kind:
        case "deliver" | "lose" | "twice" | "overtake":
            return f"{kind} {one} -> {other}"
        case "connect" | "cut":
            return f"{kind} {one} {other}"
        case "remove":
            return f"{one} is asked to remove {other}"
        case "crash" if other:
            return f"crash {one}, {other} of its writes are done"
        case _:
            return kind if one < 0 else f"{kind} {one}"
