"""The services of a master: started, given events and stopped, with a context for each of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred

from ...agents import Note
from ...client.local.server import LocalListener
from ...engine import Effects
from ...engine.error_text import described, error_text, located
from ...hachannel.transport.ports import DelayedCallPort, ReactorPort
from ...services.base import EmissionCallback, ServerView, Service, ServiceError, ViewCallback
from ...services.context_base import ServiceContextBase
from ..config import REPLICA_SERVICES, ServiceSpec
from ..context import ReplicaContext
from ..network.addresses import Addresses
from .leased_reactor import LeasedReactor
from .service_class import load_service
from .service_threads import ServiceThreads
from .submissions import Submissions

__all__ = ["Services"]

INIT_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
RETRY_FIRST_S = 1.0
RETRY_LAST_S = 30.0
"""Pauses between the attempts to start a service that could not start, doubled from the first to the last."""

MAX_STATUS_CHARS = 200
"""Characters of the line that a service sets with `ServiceContext.status`."""

LOCAL_CONNECTIONS = ServiceSpec("quorate.services.local_connections:LocalConnections")
"""The service of every replica for clients in its process: it starts last, and stops first."""

S = TypeVar("S", bound=Service)


def _nobody(_: LocalListener | None) -> None:
    return


class _Context(ServiceContextBase):
    """The server as one service sees it: a `ServiceContext`.

    It has more than 20 methods: they are what a service can do.
    """

    def __init__(
        self,
        context: ReplicaContext,
        submissions: Submissions,
        addresses: Addresses,
        services: "Services",
        spec: ServiceSpec,
    ) -> None:
        self._context = context
        self._submissions = submissions
        self._addresses = addresses
        self._services = services
        self._spec = spec
        self.server_id = context.server.id
        self.server_name = context.server.name
        self.replica = context.replica.id
        self.host = context.replica.host
        self.leased = LeasedReactor(context.reactor, services.may_act)
        # It passes on what it does not have itself, which a type checker cannot see.
        self.reactor = cast("ReactorPort", self.leased)
        self.tls = context.tls
        self.threads = ServiceThreads(context.reactor)
        self.status_line = ""
        """The line that the service has set with `status`."""
        self.lacked = ""
        """The class of another service that this one needs and that could not start; "" if none."""

    @property
    def homes(self) -> bool:
        return self._context.settings.node.homes

    @property
    def local_context(self) -> bool:
        return self._context.server.context == "local"

    @property
    def directory(self) -> Path:
        return self._context.directory / "services"

    def follow_views(self, callback: ViewCallback) -> None:
        self._services.follow_views(self, callback)

    @property
    def peers(self) -> Sequence[tuple[int, str, str]]:
        return self._addresses.service_peers(self._spec.class_name)

    @property
    def accepting(self) -> bool:
        return self._submissions.accepting

    def when_accepting(self, callback: Callable[[], None]) -> None:
        self._services.when_accepting(callback)

    def setting(self, name: str, default: str = "") -> str:
        value = self._context.config.setting(name, default, server=self.server_id, replica=self.replica)
        return self._services.bounded(name, default if value is None else value)

    def sibling(self, service: type[S]) -> S | None:
        found = self._services.sibling(service)
        if found is None:
            self.lacked = self._services.failed_one(service)
        return found

    def siblings(self, service: type[S]) -> list[S]:
        return self._services.siblings(service)

    def log(self, line: str) -> None:
        self._context.log(f"{self._spec.short_name}: {line}")

    def count(self, metric: str, n: int = 1) -> None:
        self._context.metrics.count(metric, n)

    def gauge(self, metric: str, value: float) -> None:
        self._context.metrics.gauge(metric, value)

    def status(self, line: str) -> None:
        self.status_line = " ".join(line.split("\n"))[:MAX_STATUS_CHARS]

    def in_thread(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":
        return self.threads.run(function, *args)

    def post(self, notes: list[Note]) -> None:
        self._submissions.post(notes)

    def submit_note(self, note: Note) -> "Deferred[Note | None]":
        return self._submissions.submit(note)

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        return self._submissions.request(note, timeout_s)

    def subscribe(self, topic: str, callback: EmissionCallback) -> None:
        self._services.subscribe(self, topic, callback)

    def listen_local(self, listener: LocalListener | None) -> None:
        self._services.listen_local(listener)


class Services:
    """The services of a replica: started in the order of the XML, stopped in the opposite order.

    A service that cannot start is logged, counted (``services_failed``) and tried again while this replica
    serves. The others run meanwhile: a server whose metrics page cannot listen still serves its clients.
    Starts and stops never overlap.
    """

    def __init__(
        self,
        context: ReplicaContext,
        submissions: Submissions,
        addresses: Addresses,
        specs: Sequence[ServiceSpec] | None = None,
        beside: "Services | None" = None,
    ) -> None:
        """`addresses` are those of the replicas of this server.

        specs: the services, in order; None for all that the replica has. beside: the services that run on
        this replica whether it is master or not; these here may ask for them.
        """
        self.failed: dict[str, str] = {}
        """Why services could not start so far, by their class."""
        self.limits: dict[str, int] = {} if beside is None else beside.limits
        """The largest value that this process allows for a setting, by the name of the setting."""
        self.may_act: Callable[[], bool] = submissions.may_act
        """Returns whether delayed calls of services may happen now."""
        self._beside = beside
        self._context = context
        self._submissions = submissions
        self._addresses = addresses
        own = [each for each in context.replica.services if each.class_name not in REPLICA_SERVICES]
        self._specs = tuple(specs) if specs is not None else (*own, LOCAL_CONNECTIONS)
        self._running: dict[int, tuple[_Context, Service]] = {}
        """By their position in the XML."""
        self._order = 0
        """Number of the last order to start or stop. A start that follows an earlier order is abandoned."""
        self._turns = DeferredLock()
        self._retry: DelayedCallPort | None = None
        self._topics: dict[str, list[tuple[_Context, EmissionCallback]]] = {}
        self._followers: list[tuple[_Context, ViewCallback]] = []
        self._view: ServerView | None = None
        self.listen_local: Callable[[LocalListener | None], None] = _nobody
        """Called with what serves the connections of clients in this process, and with None at its end."""
        self.waiting: list[Callable[[], None]] = []
        """Callbacks of services that wait until they may send again."""

    def start(self, first_time: bool) -> "Deferred[None]":
        """Start all services; fires when each has been tried once."""
        self.abandon()
        self.failed = {}
        return self._in_turn(first_time, self._order, RETRY_FIRST_S)

    def abandon(self) -> None:
        """Abandon a start that is under way: failures in it are not reported from now on."""
        self._order += 1

    def stop(self) -> "Deferred[None]":
        """Stop all services; fires when done, and never fails."""
        self.abandon()
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        return self._turns.run(lambda: Deferred.fromCoroutine(self._stop()))

    def subscribe(self, context: _Context, topic: str, callback: EmissionCallback) -> None:
        """Call back for each emission on the topic."""
        self._topics.setdefault(topic, []).append((context, callback))

    def follow_views(self, context: _Context, callback: ViewCallback) -> None:
        """Call back with the view of the replicas, now and whenever it changes."""
        self._followers.append((context, callback))
        if self._view is not None:
            callback(self._view)

    def view_changed(self, view: ServerView) -> None:
        """Pass on that another view is active."""
        self._view = view
        for _, callback in list(self._followers):
            self._guard("a follower of the view", callback, view)

    def sibling(self, service: type[S]) -> S | None:
        """Return the running service of a class, None if there is none."""
        return next(iter(self.siblings(service)), None)

    def siblings(self, service: type[S]) -> list[S]:
        """Return the running services of a class, in the order of the XML."""
        running = (self._running[position][1] for position in sorted(self._running))
        beside = [] if self._beside is None else self._beside.siblings(service)
        return [*beside, *(each for each in running if isinstance(each, service))]

    def bounded(self, name: str, value: str) -> str:
        """Return the value of a setting, bounded by what this process allows: see `limits`."""
        limit = self.limits.get(name)
        return value if limit is None or not value.isdigit() else str(min(int(value), limit))

    def status_lines(self) -> dict[str, str]:
        """Return the line of each running service that has set one, by the class of the service."""
        return {
            self._specs[position].class_name: context.status_line
            for position, (context, _) in sorted(self._running.items())
            if context.status_line
        }

    def failed_one(self, service: type[Service]) -> str:
        """Return the name of a service if it could not start, "" otherwise."""
        name = f"{service.__module__}:{service.__qualname__}"
        beside = self._beside is not None and name in self._beside.failed
        return service.__name__ if beside or name in self.failed else ""

    def when_accepting(self, callback: Callable[[], None]) -> None:
        """Call back when clients may send, at once if they may now."""
        if self._submissions.accepting:
            callback()
        else:
            self.waiting.append(callback)

    def accept_again(self) -> None:
        """Call the callbacks in `waiting`: clients may send again."""
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            self._guard("a callback of when_accepting", callback)

    def emit(self, effects: Effects) -> None:
        """Deliver the emissions of a committed entry to the subscribers of their topics."""
        for topic, agent, message in effects.emissions:
            for _, callback in self._topics.get(topic, ()):
                self._guard(f"a subscriber of {topic}", callback, agent, message)

    def _guard(self, what: str, callback: Callable[..., None], *args: Any) -> None:
        """Call a callback and log its error: one service must not keep the others from their events."""
        try:
            callback(*args)
        except (Exception, SystemExit) as error:
            self._context.metrics.count("service_errors")
            self._context.log(f"{what} failed: {': '.join(described(error))}")

    def _in_turn(self, first_time: bool, order: int, pause_s: float) -> "Deferred[None]":
        return self._turns.run(lambda: Deferred.fromCoroutine(self._start(first_time, order, pause_s)))

    async def _start(self, first_time: bool, order: int, pause_s: float) -> None:
        """Try to start each service that does not run; try those that failed again after the pause."""
        for position, spec in enumerate(self._specs):
            if order != self._order:
                return
            if position not in self._running:
                await self._start_one(position, spec, first_time, order)
        if order == self._order and len(self._running) < len(self._specs):
            later = min(2 * pause_s, RETRY_LAST_S)
            self._retry = self._context.reactor.callLater(pause_s, self._again, first_time, order, later)

    def _again(self, first_time: bool, order: int, pause_s: float) -> None:
        self._in_turn(first_time, order, pause_s).addErrback(
            lambda failure: self._context.log(f"starting the services failed: {failure.getErrorMessage()}")
        )

    async def _start_one(self, position: int, spec: ServiceSpec, first_time: bool, order: int) -> None:
        try:
            service = load_service(spec.class_name)()
        except (Exception, SystemExit) as error:
            self._record_failure(spec, error)
            return
        context = _Context(self._context, self._submissions, self._addresses, self, spec)
        # Before init: later services may ask for this one, and a service that fails in init must be stopped.
        self._running[position] = (context, service)
        try:
            done = maybeDeferred(cast("Any", service.init), context, spec.args, first_time)
            await done.addTimeout(INIT_TIMEOUT_S, self._context.reactor)
        except (Exception, SystemExit) as error:
            if order == self._order:
                self._record_failure(spec, error, context.lacked)
            del self._running[position]
            for subscribers in self._topics.values():
                subscribers[:] = [each for each in subscribers if each[0] is not context]
            self._followers = [each for each in self._followers if each[0] is not context]
            await self._stop_one(spec, context, service)
        else:
            if self.failed.pop(spec.class_name, None) is not None:
                self._context.announce(f"service {spec.short_name} has started now")

    async def _stop(self) -> None:
        self.failed = {}
        self._topics.clear()
        self._followers.clear()
        self.waiting.clear()
        running, self._running = self._running, {}
        for position in sorted(running, reverse=True):
            await self._stop_one(self._specs[position], *running[position])

    async def _stop_one(self, spec: ServiceSpec, context: _Context, service: Service) -> None:
        context.leased.ending = True
        try:
            done = maybeDeferred(cast("Any", service.stop))
            await done.addTimeout(STOP_TIMEOUT_S, self._context.reactor)
        except (Exception, SystemExit) as error:
            self._context.log(f"{spec.short_name} did not stop in order: {': '.join(described(error))}")

    def _record_failure(self, spec: ServiceSpec, error: BaseException, lacked: str = "") -> None:
        """Record why a service cannot start: because of `lacked`, the service it needs, or of `error`."""
        told = error_text(error) if isinstance(error, ServiceError) else located(error)
        reason = f"it needs {lacked}" if lacked else told
        before = self.failed.get(spec.class_name)
        if before is None:
            self._context.metrics.count("services_failed")
        if before != reason:
            self.failed[spec.class_name] = reason
            # The failure of the required service has been reported already.
            (self._context.log if lacked else self._context.announce)(
                f"service {spec.short_name} cannot start: {reason}; "
                "it is tried again while this replica serves"
            )
