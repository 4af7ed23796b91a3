"""The list of checkers, and what calls them."""

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
    """One invariant. A subclass overrides what it needs to see, and calls `fail`.

    `past` holds what was observed before. State that only one checker needs belongs to that checker.
    """

    name: ClassVar[str]
    """As in the table of invariants: I4."""
    rule: ClassVar[str]
    """The invariant in one sentence."""
    alone: ClassVar[bool] = False
    """Whether `stepped` looks only at `standing`, the events and the fields of `Step`: a quiet step shows
    it nothing new. Not so if it looks at other processes, at clocks, into logs, or at all `Step.messages`."""

    def __init__(self, past: History) -> None:
        self.past = past

    def started(self, host: Host, process: Process) -> None:
        """A process has just begun."""

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """A process accepts or records a view. The history has it already."""

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:
        """A process announces a view for the first time; `past.latest` is the active one before."""

    def stepped(self, step: Step) -> None:
        """A process made a step; nothing of its output has left it. Not called for quiet ones if `alone`."""

    def delivered(self, host: Host, event: Event) -> None:
        """An application has handled an event."""

    def ended(self, hosts: Sequence[Host]) -> None:
        """The faults are over, these replicas make the cluster, and everything was delivered to them."""

    def fail(self, host: Host, text: str) -> None:
        """The invariant does not hold. Raises Violation."""
        raise Violation(f"{self.name}: replica {host}: {text}", invariant=self.name, at=self.past.world.now)


CHECKERS: dict[str, list[type[Checker]]] = {}
"""All checkers by the name of their invariant; some have several."""

AnyChecker = TypeVar("AnyChecker", bound=type[Checker])


def checker(name: str, rule: str) -> Callable[[AnyChecker], AnyChecker]:
    """Put a class on the list."""

    def put(cls: AnyChecker) -> AnyChecker:
        cls.name, cls.rule = name, rule
        CHECKERS.setdefault(name, []).append(cls)
        return cls

    return put


class Checks(History, Observer):
    """The history of one run, and the checkers that look at it after every step."""

    def __init__(self, only: Iterable[str] | None = None) -> None:
        """only: the names of the invariants to check; all by default. Raises ValueError."""
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
        self._on_quiet = [each for each in self._on_stepped if not each.alone]
        self._on_delivered = overriding("delivered")

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """A process has accepted or recorded a view, in the middle of a step."""
        self.accept(host, view)
        for each in self._on_accepting:
            each.accepting(host, process, view)
        process.view = view.number

    # Called by the world

    def started(self, host: Host) -> None:
        """A process has just begun."""
        process = self.begin(host)
        # One step may accept several views; only the last one would be seen afterwards.
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
        """A replica has taken a payload to be ordered."""
        self.submitted.add(payload)
        self.numbered[source] = payload

    def synced(self, host: Host, writes: Sequence[Write[Saved]]) -> None:
        """Remember what is on a disk."""
        self.sync(host, writes)

    def ended(self, hosts: Sequence[Host]) -> None:
        """Check what must have happened in the end."""
        for each in self.checkers:
            each.ended(hosts)

    def delivered(self, host: Host, event: Event) -> None:
        """Check what an application has seen."""
        self.deliver(event)
        for each in self._on_delivered:
            each.delivered(host, event)


@attrs.define(eq=False)
class _Accepting:
    """Stands in for `State.accept`."""

    checks: Checks
    host: Host
    accept: Callable[[View], None]

    def __call__(self, view: View) -> None:
        self.accept(view)
        self.checks.accepting(self.host, self.checks.processes[self.host.state.me], view)
