"""The base class of checkers, the list of all checkers, and the observer that calls them."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeVar

import attrs

from ...hachannel import Event, Output, Source, View, ViewEvent
from ..channel.application import Saved
from ..channel.disk import Write
from ..channel.host import Host
from ..channel.observer import Observer
from ..channel.violation import Violation
from .history import History, Process, Step


class Checker:
    """One invariant. A subclass overrides the methods for the events that it needs, and calls `fail`.

    `past` is the history of the run before the present event. State that only one checker needs belongs to
    it.
    """

    name: ClassVar[str]
    """The name of the invariant in the table of docs/simulation-reference.md, such as I4."""
    rule: ClassVar[str]
    """The invariant in one sentence."""
    skips_quiet_steps: ClassVar[bool] = False
    """Whether `stepped` reads only `observable_state`, the events and the fields of `Step`. A quiet step
    changes none of these, so the checker is not called for it. False for a checker that reads other
    processes, clocks, the entries of logs, or all of `Step.messages`."""

    def __init__(self, past: History) -> None:
        self.past = past

    def started(self, host: Host, process: Process) -> None:
        """Check a process that has just started."""

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """Check a view that a process accepts or records. The history has it already."""

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:
        """Check a view that a process announces first; `past.latest` is the active view before it."""

    def stepped(self, step: Step) -> None:
        """Check a step of a process, before anything of its output has left the process."""

    def delivered(self, host: Host, event: Event) -> None:
        """Check an event that an application has handled."""

    def ended(self, hosts: Sequence[Host]) -> None:
        """Check the end of a run: `hosts` are the members, and have delivered everything."""

    def fail(self, host: Host, text: str) -> None:
        """Raise Violation: the invariant does not hold at this replica."""
        raise Violation(f"{self.name}: replica {host}: {text}", invariant=self.name, at=self.past.world.now)


CHECKERS: dict[str, list[type[Checker]]] = {}
"""All checkers by the name of their invariant, such as I4; some invariants have several."""

AnyChecker = TypeVar("AnyChecker", bound=type[Checker])


def checker(name: str, rule: str) -> Callable[[AnyChecker], AnyChecker]:
    """Add a class to `CHECKERS` under the name of an invariant, which `rule` states in one sentence."""

    def put(cls: AnyChecker) -> AnyChecker:
        cls.name, cls.rule = name, rule
        CHECKERS.setdefault(name, []).append(cls)
        return cls

    return put


class Checks(History, Observer):
    """The observer of a run that keeps the history and calls the checkers after every event."""

    def __init__(self, only: Iterable[str] | None = None) -> None:
        """only: the names of the invariants to check; None: all. Raises ValueError for an unknown name."""
        super().__init__()
        if isinstance(only, str):
            raise ValueError(f"only is {only!r}: give a list of names, [{only!r}]")
        names = list(CHECKERS if only is None else only)
        unknown = [name for name in names if name not in CHECKERS]
        if unknown:
            raise ValueError(
                f"there is no invariant {', '.join(map(repr, unknown))} to check. "
                f"There are: {', '.join(sorted(CHECKERS, key=lambda name: (len(name), name)))}."
            )
        self.checkers = [cls(self) for name in names for cls in CHECKERS[name]]

        def overriding(name: str) -> list[Checker]:
            return [each for each in self.checkers if getattr(type(each), name) is not getattr(Checker, name)]

        self._on_started = overriding("started")
        self._on_accepting = overriding("accepting")
        self._on_activated = overriding("activated")
        self._on_stepped = overriding("stepped")
        self._on_quiet = [each for each in self._on_stepped if not each.skips_quiet_steps]
        self._on_delivered = overriding("delivered")

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """Check a view that a process has accepted or recorded, in the middle of a step."""
        self.accept(host, view)
        for each in self._on_accepting:
            each.accepting(host, process, view)
        process.view = view.number

    # Called by the world

    def started(self, host: Host) -> None:
        """Begin the history of a process."""
        process = self.begin(host)
        # One step may accept several views; after the step only the last one is there.
        object.__setattr__(host.state, "accept", _Accepting(self, host, host.state.accept))
        for each in self._on_started:
            each.started(host, process)

    def stepped(self, host: Host, output: Output) -> None:
        """Check everything that a step of one process can have changed."""
        step = self.observe(host, output)
        if step.quiet:
            for each in self._on_quiet:
                each.stepped(step)
            return
        for view, event in step.views:
            if self.activate(event):
                for each in self._on_activated:
                    each.activated(step, view, event)
                self.rise(view)
        for each in self._on_stepped:
            each.stepped(step)
        self.settle(step)

    def forwarded(self, source: Source, payload: bytes) -> None:
        """Note a payload that a replica has accepted for forwarding."""
        self.submitted.add(payload)
        self.numbered[source] = payload

    def synced(self, host: Host, writes: Sequence[Write[Saved]]) -> None:
        """Note the writes that are durable."""
        self.sync(host, writes)

    def ended(self, hosts: Sequence[Host]) -> None:
        """Check what must have happened by the end of a run."""
        for each in self.checkers:
            each.ended(hosts)

    def delivered(self, host: Host, event: Event) -> None:
        """Check an event that an application has handled."""
        self.deliver(event)
        for each in self._on_delivered:
            each.delivered(host, event)


@attrs.define(eq=False)
class _Accepting:
    """A replacement for `ReplicaState.accept` that reports each accepted view."""

    checks: Checks
    host: Host
    accept: Callable[[View], None]

    def __call__(self, view: View) -> None:
        self.accept(view)
        self.checks.accepting(self.host, self.checks.processes[self.host.state.me], view)
