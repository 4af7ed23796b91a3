"""The service that bridges topics of a mesh with queues and topics of this server.

It runs on the master. What it must not forget is in its agents, which are replicated: see `MeshInlet` and
`MeshOutlet`. So the service of the next master goes on where this one was, with nothing lost or repeated.
"""

import random
from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from ..agents import AgentId
from ..client.driver import Port
from ..client.errors import QuorateClientError
from ..client.events import SessionSettings
from ..client.twisted import TwistedPort
from ..hachannel.transport.ports import DelayedCallPort, ReactorPort
from ..mesh.client.driver import MeshDriver
from ..mesh.client.publisher import Confirmation
from ..mesh.client.session import MeshSession
from ..mesh.client.subscriber import MeshMessage
from ..services.base import Service, ServiceContext, ServiceError
from .inlet import MeshInlet
from .notes import BRIDGE_TOPIC, RETRY_S
from .outlet import MeshOutlet
from .running import InwardWay, OutwardWay, RunningWay
from .ways import BridgeSettings, Way, read_arguments

__all__ = ["MeshBridge"]

FOREVER_S = 1e9
REPORT_S = 1.0


class MeshBridge(Service):
    """Service ``quorate.bridge.service:MeshBridge``.

    Its arguments are the addresses of the mesh, ways, and options::

        quorate://oslo:2560,bergen:2560 mesh:prices->topic:prices topic:alerts->mesh:alerts

    The properties ``mesh_user`` and ``mesh_password`` of the server are those of a user of the mesh.
    """

    ctx: ServiceContext
    session: MeshSession

    def __init__(self) -> None:
        self.name = ""
        self.whole = False
        self._inward: dict[str, InwardWay] = {}
        """By topic of the mesh."""
        self._outward: dict[str, OutwardWay] = {}
        self._by_agent: dict[AgentId, RunningWay] = {}
        self._driver: MeshDriver | None = None
        self.port: Callable[[ReactorPort, MeshDriver], Port] = TwistedPort
        """Makes the port of the session."""
        self._stopped = False
        self._problem = ""
        self._writing: DelayedCallPort | None = None
        self._reporting: DelayedCallPort | None = None
        self._reconnecting: DelayedCallPort | None = None

    async def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Have the agents, and connect to the mesh. Raises ServiceError for arguments that cannot be used."""
        self.ctx = ctx
        try:
            settings = read_arguments(args)
        except ValueError as error:
            raise ServiceError(f"MeshBridge: {error}") from None
        self._settings = settings
        self.name = settings.name or f"bridge-{ctx.server_name}"
        self.whole = settings.whole
        for way in settings.ways:
            running = self._running(way, settings)
            running.agent = agent = await self._agent(way)
            self._by_agent[agent] = running
        ctx.subscribe(BRIDGE_TOPIC, self._emitted)
        self._connect()

    def _running(self, way: Way, settings: BridgeSettings) -> RunningWay:
        back = Way(way.topic, way.destination, not way.inward)
        if not way.inward:
            running = OutwardWay(way, self, both_ways=back in settings.ways)
            self._outward[way.topic] = running
            return running

        def own() -> list[str]:
            other = self._outward.get(way.topic)
            return [other.identifier] if other is not None and other.way == back else []

        inward = self._inward[way.topic] = InwardWay(way, self, own)
        return inward

    def _agent(self, way: Way) -> "Deferred[AgentId]":
        state = {"topic": way.topic, "destination": way.destination}
        if way.inward:
            return self.ctx.create(MeshInlet, name=way.agent, state=state)
        return self.ctx.create(MeshOutlet, name=way.agent, state={**state, "client_id": way.agent})

    def stop(self) -> None:
        """Leave the mesh. What is not carried is with the agents."""
        self._stopped = True
        for call in (self._reporting, self._reconnecting, self._writing):
            if call is not None and call.active():
                call.cancel()
        for way in self._by_agent.values():
            way.stop()
        if self._driver is not None and not self.session.closed:
            self.session.close()
            self._driver.step()

    def _connect(self) -> None:
        """Begin with a session, and with all ways."""
        self.session = MeshSession(
            self._settings.endpoints,
            self.ctx.setting("mesh_user"),
            self.ctx.setting("mesh_password"),
            "",
            self,
            SessionSettings(open_timeout_s=FOREVER_S, reconnect_timeout_s=FOREVER_S),
            random.random,
        )
        driver = self._driver = MeshDriver(self.session)
        driver.tls = self._settings.tls
        driver.start(self.port(self.ctx.reactor, driver))
        # Outward ones first: their publishers are known when something comes back.
        for way in (*self._outward.values(), *self._inward.values()):
            way.begin()
        self.report()

    def _emitted(self, agent: AgentId, note: msgspec.Struct) -> None:
        way = self._by_agent.get(agent)
        if way is not None and not self._stopped:
            way.emitted(note)

    # What the ways use

    def write(self) -> None:
        """Write what the session has to send, in the next turn of the reactor."""
        if self._writing is None or not self._writing.active():
            self._writing = self.ctx.reactor.callLater(0, self._write)

    def _write(self) -> None:
        if self._driver is not None and not self.session.closed:
            self._driver.step()

    def report(self) -> None:
        """Show the state of the ways, a little later."""
        if self._reporting is None or not self._reporting.active():
            self._reporting = self.ctx.reactor.callLater(REPORT_S, self._report)

    def _report(self) -> None:
        connected = self.session.daemon
        at = f"at daemon {connected}" if connected else self._problem or "not connected"
        ways = self._by_agent.values()
        lines = [f"{each.way}: {each.problem or each.problem_here or each.carried}" for each in ways]
        self.ctx.status(f"mesh: {at}; {'; '.join(lines)}")
        self.ctx.gauge("mesh_bridge_problems", sum(bool(each.problem or each.problem_here) for each in ways))

    # The interface SessionUser

    def opened(self) -> None:
        """The session is open."""
        self._problem = ""
        self.report()

    def confirmed(self, topic: str, confirmation: Confirmation) -> None:
        """Messages were acknowledged or refused."""
        self._outward[topic].confirmed(confirmation)

    def order_lost(self, topic: str) -> None:
        """The order of messages cannot be kept."""
        self._outward[topic].order_lost()

    def answered(self, request: int, result: Any, error: QuorateClientError | None) -> None:
        """A request was answered: only subscriptions that are left are requested."""

    def attached(self, consumer: int, error: QuorateClientError | None) -> None:
        """A subscription was attached, or refused."""
        for way in self._inward.values():
            if way.consumer == consumer:
                way.attached(error)

    def received(self, consumer: int, messages: list[MeshMessage]) -> None:
        """Messages have arrived."""
        for way in self._inward.values():
            if way.consumer == consumer:
                way.received(messages)

    def ended(self, consumer: int, error: QuorateClientError) -> None:
        """A subscription has ended."""
        for way in self._inward.values():
            if way.consumer == consumer:
                way.ended(error)

    def closed(self, error: QuorateClientError | None) -> None:
        """The session has ended: begin with another one after a while."""
        if self._stopped or error is None:
            return
        self._problem = str(error)
        for way in self._by_agent.values():
            way.disconnected()
        self.ctx.log(f"the bridge to the mesh is interrupted: {error}")
        self.report()
        self._reconnecting = self.ctx.reactor.callLater(RETRY_S, self._connect)
