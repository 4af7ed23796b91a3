"""The services of a master in a test: agents, a virtual clock and failovers, without processes or sockets."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import msgspec
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from ..agents import FAILURES, Address, Agent, AgentSpec, Note, Notification, agent_spec
from ..engine import Effects, Item
from ..services.base import EmissionCallback, NotMaster, ServerView, Service, ViewCallback
from ..services.context_base import ServiceContextBase
from .harness import Harness

__all__ = ["ServiceHarness"]

S = TypeVar("S", bound=Service)

_TURNS = 1000
"""Entries and turns of the reactor in which everything has to settle."""


class ServiceHarness:
    """Runs services as a master does, one entry at a time, on a clock that the test moves.

    ::

        harness = ServiceHarness()
        harness.agents.deploy(Order, name="order")
        service = harness.start(Payments(), "args")
        assert harness.send("order", Pay(5)) == [Accepted()]
        harness.advance(10)

    What a service sends is committed at once, unless `held` is set. Functions given to ``ctx.in_thread`` run
    at once in the thread of the test. `kill` ends the master, and the next services that are started are
    those of another one, with the same agents.
    """

    def __init__(self, agents: Harness | None = None) -> None:
        """`agents`: a harness with agents; a new one unless it is given."""
        self.agents = agents or Harness()
        """The server with its agents: deploy them here, and look at them here."""
        self.clock: Any = Clock()
        """The reactor of the services. It has no network; a service under test gets doubles for that."""
        self.settings: dict[str, str] = {}
        """The properties that ``ctx.setting`` returns."""
        self.lines: list[str] = []
        """The lines that services have logged."""
        self.statuses: dict[str, str] = {}
        """The lines that services have set with ``ctx.status``, by the names of their classes."""
        self.counters: dict[str, int] = {}
        self.gauges: dict[str, float] = {}
        self.held = False
        """While True, what services send is not committed; `kill` then loses it."""
        self.running: list[Service] = []
        """The services that were started and not stopped, in order."""
        self._epoch_ns = self.agents.now_ns
        self._mastership = _Mastership()

    def start(self, service: S, args: str = "", *, first_time: bool | None = None) -> S:
        """Call `init` of a service, and return the service when it has started.

        `first_time`: unless it is given, whether nothing was ever committed. Raises what `init` raises, and
        AssertionError if it is not done though nothing is left to do.
        """
        first = not self.agents.engine.applied if first_time is None else first_time
        context = _HarnessContext(self, self._mastership, type(service).__name__, args)
        self.running.append(service)
        try:
            self.result(maybeDeferred(cast("Any", service.init), context, args, first))
        except BaseException:
            self.stop(service)
            raise
        return service

    def stop(self, service: Service) -> None:
        """Stop a service in order. Raises what its `stop` raises."""
        self.running.remove(service)
        self.result(maybeDeferred(cast("Any", service.stop)))

    def kill(self) -> None:
        """End the master at once: its services are not stopped, and what is not committed is lost.

        Their Deferreds that wait for the server fail with `NotMaster`, and nothing that they do from now on
        reaches the server.
        """
        former, self._mastership = self._mastership, _Mastership()
        self.running.clear()
        self.held = False
        former.end()

    def result(self, awaited: "Deferred[Any]") -> Any:
        """Let everything happen that needs no time, and return the result of a Deferred, or raise it."""
        found: list[Any] = []
        awaited.addBoth(found.append)
        self.settle()
        assert found, "it waits for something, and nothing is left to do: advance the clock"
        if isinstance(found[0], Failure):
            found[0].raiseException()
        return found[0]

    def send(self, to: Address, notification: Notification) -> list[Notification]:
        """Send a notification from outside, let everything happen that needs no time, and return what comes
        back outside at once."""
        effects = self.agents.post(self.agents.note(to, notification))
        answers = [note for note in effects.replies if not note.request]
        self._carry_out(effects)
        self.settle()
        return self.agents.decoded(answers)

    def apply(self, *items: Item) -> None:
        """Apply an entry to the agents, and let everything happen that needs no time."""
        self._carry_out(self.agents.apply(*items))
        self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass, for agents and services, and everything happen that is due.

        Raises ValueError below 0.
        """
        if not seconds >= 0:
            raise ValueError(f"the clock cannot be moved by {seconds} s; give 0 or more")
        end = self.clock.seconds() + seconds
        while (due := self._next_due()) is not None and due <= end:
            self._move_to(max(due, self.clock.seconds()))
        self._move_to(end)

    def settle(self) -> None:
        """Commit what was sent, and call what is due now, until nothing is left to do.

        Raises AssertionError if that does not come to an end.
        """
        for _ in range(_TURNS):
            if not self._turn():
                return
        raise AssertionError(f"services and agents do not come to rest within {_TURNS} turns")

    def _turn(self) -> bool:
        now, mastership = self.clock.seconds(), self._mastership
        if any(call.getTime() <= now for call in self.clock.getDelayedCalls()):
            self.clock.advance(0)
            return True
        if mastership.queue and not self.held:
            queue, mastership.queue = mastership.queue, []
            count = len(mastership.uncommitted)
            self._carry_out(self.agents.post(*queue))
            committed = mastership.uncommitted[:count]
            del mastership.uncommitted[:count]
            for token, deferred in committed:
                deferred.callback(mastership.failures.pop(token, None))
            return True
        return False

    def _move_to(self, seconds: float) -> None:
        self.clock.advance(max(0.0, seconds - self.clock.seconds()))
        self.agents.now_ns = self._epoch_ns + round(seconds * 1e9)
        due_ns = self.agents.engine.next_timer_ns
        if due_ns is not None and due_ns <= self.agents.now_ns:
            self._carry_out(self.agents.advance(0))
        self.settle()

    def _next_due(self) -> float | None:
        due = [call.getTime() for call in self.clock.getDelayedCalls()]
        timer_ns = self.agents.engine.next_timer_ns
        if timer_ns is not None:
            # A nanosecond more than the rounding of the clock loses.
            due.append((timer_ns - self._epoch_ns + 1000) / 1e9)
        return min(due, default=None)

    def _carry_out(self, effects: Effects) -> None:
        mastership = self._mastership
        for note in effects.replies:
            mastership.answer(note)
        for topic, agent, message in effects.emissions:
            for callback in mastership.subscribers.get(topic, ()):
                callback(agent, message)


@attrs.define(eq=False)
class _Mastership:
    """What a master holds in its memory."""

    over: bool = False
    last_token: int = 0
    queue: list[Note] = attrs.field(factory=list[Note])
    uncommitted: "list[tuple[int, Deferred[Note | None]]]" = attrs.field(
        factory=list[tuple[int, "Deferred[Note | None]"]]
    )
    failures: dict[int, Note] = attrs.field(factory=dict[int, Note])
    requests: "dict[int, Deferred[Note]]" = attrs.field(factory=dict[int, "Deferred[Note]"])
    subscribers: dict[str, list[EmissionCallback]] = attrs.field(factory=dict[str, list[EmissionCallback]])

    def token(self, note: Note) -> tuple[int, Note]:
        """Return a new token, and the note with it."""
        self.last_token += 1
        return self.last_token, msgspec.structs.replace(note, request=self.last_token)

    def answer(self, note: Note) -> None:
        """Pass a reply to its request."""
        waiting = self.requests.pop(note.request, None)
        if waiting is not None:
            waiting.callback(note)
        elif note.type in FAILURES and any(token == note.request for token, _ in self.uncommitted):
            self.failures[note.request] = note

    def end(self) -> None:
        """Fail everything that waits."""
        self.over = True
        self.subscribers.clear()
        waiting: list[Deferred[Any]] = [*self.requests.values()]
        waiting += [each for _, each in self.uncommitted]
        self.requests, self.uncommitted, self.queue = {}, [], []
        for each in waiting:
            each.errback(NotMaster("the master was killed"))


class _MasterClock:
    """The clock as one master sees it: what it has scheduled is not called when it is dead."""

    def __init__(self, clock: Any, mastership: _Mastership) -> None:
        self._clock = clock
        self._mastership = mastership

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:  # noqa: N802
        """Call the function after `delay` seconds."""
        return self._clock.callLater(delay, self._call, function, args, kw)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kw: dict[str, Any]) -> None:
        if not self._mastership.over:
            function(*args, **kw)


class _HarnessContext(ServiceContextBase):
    """The `ServiceContext` of a service in a harness. It has more than 20 methods: what a service can do."""

    replica = 0
    host = "localhost"
    accepting = True

    def __init__(self, harness: ServiceHarness, mastership: _Mastership, name: str, args: str) -> None:
        self._harness = harness
        self._mastership = mastership
        self._name = name
        self.server_id = harness.agents.engine.server
        self.server_name = f"s{self.server_id}"
        self.homes = self.local_context = False
        self.directory = Path()
        self.peers: Sequence[tuple[int, str, str]] = [(0, self.host, args)]
        self.reactor: Any = _MasterClock(harness.clock, mastership)

    def spec_of(self, cls: type[Agent]) -> AgentSpec:
        """Examine an agent class, which need not be importable in a test."""
        self._harness.agents.know(cls)
        return agent_spec(cls)

    def when_accepting(self, callback: Callable[[], None]) -> None:
        callback()

    def setting(self, name: str, default: str = "") -> str:
        return self._harness.settings.get(name, default)

    def sibling(self, service: type[S]) -> S | None:
        return next(iter(self.siblings(service)), None)

    def siblings(self, service: type[S]) -> list[S]:
        return [each for each in self._harness.running if isinstance(each, service)]

    def log(self, line: str) -> None:
        self._harness.lines.append(f"{self._name}: {line}")

    def count(self, metric: str, n: int = 1) -> None:
        self._harness.counters[metric] = self._harness.counters.get(metric, 0) + n

    def gauge(self, metric: str, value: float) -> None:
        self._harness.gauges[metric] = value

    def status(self, line: str) -> None:
        self._harness.statuses[self._name] = line

    def in_thread(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":
        return maybeDeferred(cast("Any", function), *args)

    def post(self, notes: list[Note]) -> None:
        if not self._mastership.over:
            self._mastership.queue += notes

    def submit_note(self, note: Note) -> "Deferred[Note | None]":
        mastership = self._mastership
        if mastership.over:
            raise NotMaster("this replica is not the master")
        token, note = mastership.token(note)
        committed: Deferred[Note | None] = Deferred()
        mastership.uncommitted.append((token, committed))
        self.post([note])
        return committed

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        mastership = self._mastership
        if mastership.over:
            return fail(NotMaster("this replica is not the master"))
        token, note = mastership.token(note)
        reply: Deferred[Note] = Deferred()
        mastership.requests[token] = reply
        late: Any = self.reactor.callLater(timeout_s, self._time_out, token)

        def answered(result: Any) -> Any:
            if late.active():
                late.cancel()
            return result

        reply.addBoth(answered)
        self.post([note])
        return reply

    def _time_out(self, token: int) -> None:
        reply = self._mastership.requests.pop(token, None)
        if reply is not None:
            reply.errback(TimeoutError("no reply came in time"))

    def follow_views(self, callback: ViewCallback) -> None:
        callback(ServerView((1, self.replica), (self.replica,)))

    def subscribe(self, topic: str, callback: EmissionCallback) -> None:
        self._mastership.subscribers.setdefault(topic, []).append(callback)
