"""The two ways of a bridge while a service runs them: between a session with the mesh and an agent."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, cast

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from ..agents import AgentId, ColumnValue, Notification, Pack
from ..client.errors import QuorateClientError
from ..hachannel.transport.ports import DelayedCallPort
from ..mesh.client.errors import SubscriptionEnded, SubscriptionTakenOver
from ..mesh.client.publisher import Confirmation, Publisher
from ..mesh.client.session import MeshSession
from ..mesh.client.subscriber import MeshMessage, Subscriber
from ..mesh.frames import Cursor
from ..mesh.model import MAX_BODY
from ..services.base import NotMaster, ServiceContext
from .notes import (
    RETRY_S,
    Bring,
    Carried,
    InletOpened,
    InletPublishers,
    InletState,
    OpenInlet,
    OpenOutlet,
    OrderLost,
    OutletBatch,
    OutletOpened,
    OutletState,
    Refuse,
    Resubscribe,
    stream_key,
    stream_of,
    unwrapped,
    wrapped,
)
from .ways import Way

__all__ = ["BridgePort", "InwardWay", "OutwardWay", "RunningWay"]

BRING: Final = 1000
"""Most messages in one `Bring`."""
BRING_BYTES: Final = 1024 * 1024
AHEAD: Final = 4000
"""Most messages that an inlet keeps for a destination that does not take them."""


class BridgePort(Protocol):
    """The service, as its ways use it."""

    ctx: ServiceContext
    session: MeshSession
    name: str
    whole: bool

    def write(self) -> None:
        """Write what the session has to send, in the next turn of the reactor."""
        ...

    def report(self) -> None:
        """Show the state of the ways, a little later."""
        ...


class RunningWay:
    """What both ways have in common: the agent, and what was last wrong."""

    def __init__(self, way: Way, bridge: BridgePort) -> None:
        self.way = way
        self.agent: AgentId | None = None
        self.carried = 0
        """Messages since the service has started."""
        self.problem = ""
        """At the mesh."""
        self.problem_here = ""
        """At the destination."""
        self._bridge = bridge
        self._ctx = bridge.ctx
        self._stopped = False
        self._retry: DelayedCallPort | None = None

    def begin(self) -> None:
        """Have the agent emit its state; what it emits after that begins this way anew."""
        raise NotImplementedError

    def emitted(self, note: msgspec.Struct) -> None:
        """Take what the agent emits."""
        raise NotImplementedError

    def disconnected(self) -> None:
        """Take note that the session has ended. `begin` follows with another one."""
        raise NotImplementedError

    def stop(self) -> None:
        """Do nothing more."""
        self._stopped = True
        self._cancel_retry()

    def _cancel_retry(self) -> None:
        if self._retry is not None and self._retry.active():
            self._retry.cancel()

    def _tell(self, note: Notification, then: Callable[[], None] | None = None) -> None:
        """Send the agent something, and call `then` when it is committed."""
        assert self.agent is not None
        told: Deferred[Any] = self._ctx.submit(self.agent, note)

        def committed(_: object) -> None:
            if then is not None and not self._stopped:
                then()

        told.addCallback(committed).addErrback(self._not_told)

    def _not_told(self, failure: Failure) -> None:
        # With the mastership this service ends: the next one goes on.
        if not isinstance(cast("Any", failure).value, NotMaster):
            self.fail(f"the agent {self.way.agent} does not answer: {failure.getErrorMessage()}")

    def fail(self, problem: str) -> None:
        """Begin anew after a while."""
        self._leave()
        if problem != self.problem:
            self._ctx.log(f"bridge {self.way}: {problem}")
        self.problem = problem
        self._bridge.report()
        if not self._stopped and (self._retry is None or not self._retry.active()):
            self._retry = self._ctx.reactor.callLater(RETRY_S, self.begin)

    def _leave(self) -> None:
        """Take this way out of the session."""
        raise NotImplementedError


@attrs.define
class _Opening:
    """The cursor of an inlet, until all of it has come."""

    note: InletOpened
    publishers: dict[str, int] = attrs.field(factory=dict[str, int])


class InwardWay(RunningWay):
    """From the mesh to a destination."""

    def __init__(self, way: Way, bridge: BridgePort, own: Callable[[], Iterable[str]]) -> None:
        """own: the publishers whose messages came from the destination."""
        super().__init__(way, bridge)
        self._own = own
        self._opening: _Opening | None = None
        self._core: Subscriber | None = None
        self.consumer = 0
        self._messages: deque[MeshMessage] = deque()
        self._bringing = False
        self._waiting = 0
        """Messages that the destination has not taken."""
        self._dots_known = 0

    def begin(self) -> None:
        """Have the agent emit its cursor."""
        self._cancel_retry()
        self._leave()
        self._tell(OpenInlet())

    def disconnected(self) -> None:
        """Take note that the session has ended."""
        self.consumer = 0
        self._leave()

    def _leave(self) -> None:
        self._opening = self._core = None
        self._messages.clear()
        self._bringing = False
        if self.consumer:
            self._bridge.session.detach(self.consumer, end=False)
            self.consumer = 0

    def emitted(self, note: msgspec.Struct) -> None:
        """Take what the agent emits."""
        match note:
            case InletOpened():
                self._opening = _Opening(note)
            case InletPublishers() if self._opening is not None:
                self._opening.publishers.update(note.publishers)
                if note.last:
                    self._subscribe(self._opening)
                    self._opening = None
            case InletState():
                self._waiting = note.waiting
                self.carried = note.taken
                self.problem_here = note.problem
                self._bridge.report()
                self._bring()
            case _:
                pass

    def _subscribe(self, opening: _Opening) -> None:
        session, opened = self._bridge.session, opening.note
        cursor: Cursor | None = None
        self._dots_known = len(opened.dots)
        if opened.dots:
            positions = {stream_of(key): number for key, number in opened.positions}
            cursor = Cursor(
                self.way.topic, self._bridge.name, opened.token, opened.dots, positions, opening.publishers
            )
        core = Subscriber(self.way.topic, self._bridge.name, opened.token, cursor=cursor)
        if cursor is None:
            core.last.update(opening.publishers)
        self._core = core
        self.consumer = session.subscribe(core, BRING_BYTES)
        self._bridge.write()

    def attached(self, error: QuorateClientError | None) -> None:
        """The subscription was attached, or refused."""
        if error is not None:
            self.ended(error)
            return
        self.problem = ""
        assert self._core is not None
        if len(self._core.dots) > self._dots_known:
            self._dots_known = len(self._core.dots)
            self._tell(Bring(Pack.of([]), self._core.dots, [], {}))

    def ended(self, error: QuorateClientError) -> None:
        """The subscription has ended, or was refused."""
        self.consumer = 0
        if isinstance(error, SubscriptionEnded) and not isinstance(error, SubscriptionTakenOver):
            self._tell(Resubscribe())
            self.fail(f"{error}; messages until a new subscription begins are not carried")
        else:
            self.fail(str(error))

    def received(self, messages: list[MeshMessage]) -> None:
        """Messages have arrived."""
        self._messages.extend(messages)
        self._bring()

    def _bring(self) -> None:
        if self._bringing or not self._messages or self._waiting >= AHEAD or self._core is None:
            return
        self._bringing = True
        taken: list[MeshMessage] = []
        size = 0
        while self._messages and len(taken) < BRING and size < BRING_BYTES:
            taken.append(self._messages.popleft())
            size += len(taken[-1].body)
        core, consumer = self._core, self.consumer
        positions, publishers = core.until(taken[-1])
        own = set(self._own())
        pack = self._pack([each for each in taken if each.publisher not in own])
        bring = Bring(
            pack, core.dots, [(stream_key(each), number) for each, number in positions.items()], publishers
        )
        self._waiting += len(pack)

        def brought() -> None:
            if self._core is not core:
                return
            self._bringing = False
            self._ctx.count("mesh_bridge_in", len(pack))
            self._bridge.session.acknowledge(consumer, taken[-1])
            self._bridge.write()
            self._bring()

        self._tell(bring, brought)

    def _pack(self, messages: list[MeshMessage]) -> Pack:
        none: dict[str, ColumnValue] = {}
        found = [unwrapped(each.body) if self._bridge.whole else (each.body, none) for each in messages]
        names = {name for _, columns in found for name in columns}
        columns: dict[str, list[ColumnValue]] = {
            name: [columns.get(name) for _, columns in found] for name in sorted(names)
        }
        columns[".mesh_topic"] = [self.way.topic] * len(found)
        columns[".mesh_publisher"] = [each.publisher for each in messages]
        columns[".mesh_number"] = [each.number for each in messages]
        columns[".mesh_time"] = [each.at_ms for each in messages]
        return Pack.of([body for body, _ in found], **columns)


class OutwardWay(RunningWay):
    """From a destination to the mesh."""

    def __init__(self, way: Way, bridge: BridgePort, *, both_ways: bool) -> None:
        super().__init__(way, bridge)
        self.identifier = ""
        self._both_ways = both_ways
        self._publisher: Publisher | None = None

    def begin(self) -> None:
        """Have the agent emit what is not carried yet."""
        self._cancel_retry()
        self._leave()
        self._tell(OpenOutlet(self._both_ways))

    def disconnected(self) -> None:
        """Take note that the session has ended."""
        self._leave()

    def _leave(self) -> None:
        self._publisher = None
        self._bridge.session.publishers.pop(self.way.topic, None)

    def emitted(self, note: msgspec.Struct) -> None:
        """Take what the agent emits."""
        match note:
            case OutletOpened():
                self.identifier = note.identifier
                self._publisher = Publisher(
                    self.way.topic,
                    note.identifier,
                    note.epoch,
                    position=note.position,
                    acknowledged=note.acknowledged,
                    count=note.acknowledged,
                )
                self._bridge.session.publishers[self.way.topic] = self._publisher
            case OutletBatch() if self._publisher is not None:
                self._publish(self._publisher, note)
            case OutletState():
                self.problem_here = note.problem
                self._bridge.report()
            case _:
                pass

    def _publish(self, publisher: Publisher, batch: OutletBatch) -> None:
        refused = set(batch.refused)
        for index in range(len(batch.pack)):
            number = batch.first + index
            if number <= publisher.count or number in refused:
                continue
            body = wrapped(batch.pack, index) if self._bridge.whole else batch.pack.body(index)
            if len(body) > MAX_BODY:
                self._tell(Refuse(number, f"it has {len(body)} bytes, and the mesh takes {MAX_BODY} at most"))
                continue
            publisher.add_numbered(number, body)
        self._bridge.write()

    def confirmed(self, confirmation: Confirmation) -> None:
        """The mesh has taken messages, or refused them."""
        assert self._publisher is not None
        refusal = confirmation.refusal
        if refusal is None:
            self.problem = ""
            self.carried += len(confirmation.numbers)
            self._ctx.count("mesh_bridge_out", len(confirmation.numbers))
            self._tell(Carried(confirmation.numbers[-1], self._publisher.position))
            self._bridge.report()
        else:
            # They stay with the agent, and are published again.
            self.fail(refusal.text)

    def order_lost(self) -> None:
        """The mesh cannot keep the order: nothing is sent until the agent has noted the new epoch."""
        publisher = self._publisher
        assert publisher is not None
        publisher.held = True

        def noted() -> None:
            publisher.held = False
            self._bridge.write()

        self._tell(OrderLost(publisher.epoch), noted)
