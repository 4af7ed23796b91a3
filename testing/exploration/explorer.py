"""Depth-first exploration of every order of events in a small cluster.

Random runs find some orders only by luck. Here a cluster of real channels is brought to a start state. From
there any message may arrive next, any connection may break, and any replica may crash, start or look at its
clock, as often as a budget allows. All invariants are checked after every step. Known states are not expanded
again. Of two independent events only one order is tried (sleep sets: P. Godefroid, Partial-Order Methods for
the Verification of Concurrent Systems, 1996, with his combination with known states).
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
"""The most attempts to shorten the path to a violation."""

Sleeping = dict[Event, frozenset[int]]
"""Events whose other order with the next event was tried, and the replicas that they change."""


@attrs.frozen
class Explored:
    """The outcome of an exploration."""

    name: str
    states: int
    """Different states."""
    steps: int
    """Executed events."""
    depth: int
    """The length of the longest path."""
    complete: bool
    """Whether everything that the budget allows was visited."""
    budget: Budget


@attrs.define
class _Node:
    """A state on the path, and the events that are still to be tried there."""

    state: WorldState
    events: list[Event]
    sleeping: Sleeping


class _Exploration:
    """A depth-first search; the path is the stack."""

    def __init__(self, world: ExploredWorld, seed: int, *, reduce: bool) -> None:
        self._world = world
        self._random = Random(seed)
        self._reduce = reduce
        self.seen: dict[bytes, Sleeping] = {}
        """Known states, and the events that were not tried there because their order does not matter."""
        self.stack: list[_Node] = []
        self.path: list[Event] = []
        self.steps = self.depth = 0

    def enter(self, sleeping: Sleeping) -> None:
        """Add the present state to the path, unless everything was tried there."""
        world = self._world
        state = world.save()
        name = world.fingerprint(state)
        known = self.seen.get(name)
        if known is None:
            self.seen[name] = sleeping
            events = [event for event in world.events() if event not in sleeping]
        else:
            events = [event for event in known if event not in sleeping]
            self.seen[name] = sleeping = {event: known[event] for event in known if event in sleeping}
        if events:
            self._random.shuffle(events)
        self.stack.append(_Node(state, events, dict(sleeping)))
        self.depth = max(self.depth, len(self.stack) - 1)

    def step(self) -> None:
        """Execute the next event, or return to the state before. Raises Violation."""
        node = self.stack[-1]
        if not node.events:
            self.stack.pop()
            del self.path[-1:]
            return
        event = node.events.pop()
        world = self._world
        world.restore(node.state)
        self.path.append(event)
        self.steps += 1
        world.execute(event)
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
    """Explore every order of events from a start state.

    states: the most states. budget: how often each kind of event may happen, where it differs from the budget
    of the start. seed: shuffles the order. reduce: try only one order of independent events. channel: makes
    the replicas. progress: called with the number of states now and then. Raises Violation, whose trace is a
    path to it, and ValueError for an unknown name or kind of event.
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
    start = search.stack[0].state
    try:
        while search.stack and len(search.seen) < states:
            search.step()
            if progress is not None and search.steps % 256 == 0:
                progress(len(search.seen))
    except Violation as violation:
        found = _shorter(world, start, search.path, violation)
        raise found from None
    return Explored(name, len(search.seen), search.steps, search.depth, not search.stack, whole)


def _shorter(world: ExploredWorld, start: WorldState, path: list[Event], violation: Violation) -> Violation:
    """Leave out events that the violation does not need. Return it with the trace of the rest."""
    tries, size = 0, max(len(path) // 2, 1)
    while tries < MAX_TRIES:
        position, shorter = 0, False
        while position < len(path) and tries < MAX_TRIES:
            fewer = path[:position] + path[position + size :]
            tries += 1
            found = _replay(world, start, fewer)
            if found is not None and found.invariant == violation.invariant:
                path, shorter = fewer, True
            else:
                position += size
        if size == 1 and not shorter:
            break
        size = max(size // 2, 1)
    lines: list[str] = []
    last = _replay(world, start, path, lines)
    assert last is not None
    last.trace = lines
    return last


def _replay(
    world: ExploredWorld, start: WorldState, path: Iterable[Event], lines: list[str] | None = None
) -> Violation | None:
    """Execute the events of a path as far as they are possible. Return the violation, if there is one.

    lines: a list that gets the trace.
    """
    world.restore(start)
    world.tracing = lines is not None
    try:
        for event in path:
            if event not in world.events():
                break
            if lines is not None:
                lines.append(_event_text(event))
            world.lines.clear()
            try:
                world.execute(event)
            finally:
                if lines is not None:
                    lines += [f"    {line}" for line in world.lines]
    except Violation as violation:
        return violation
    finally:
        world.tracing = False
    return None


def _event_text(event: Event) -> str:
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
