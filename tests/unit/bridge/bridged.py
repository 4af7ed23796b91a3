"""A server with a bridge, on virtual time, beside a simulated mesh."""

from typing import Any

from quorate.bridge.service import MeshBridge
from quorate.engine import NetInput
from quorate.testing.mesh.simulated_mesh import SimulatedMesh
from quorate.testing.mesh.simulated_port import SimulatedPort
from quorate.testing.service_harness import ServiceHarness

from ..messaging.agents.clients import Client, Site

__all__ = ["BOTH", "Bridged"]

STEP_S = 0.05
URL = "quorate://mesh:1,mesh:2,mesh:3"
BOTH = "mesh:prices->topic:prices topic:prices->mesh:prices"


class _Site(Site):
    """The destinations, and clients of them. What they do reaches the services."""

    def __init__(self) -> None:
        super().__init__()
        self.services = ServiceHarness(self.harness)

    def apply(self, item: NetInput) -> None:
        """Apply an entry."""
        self.services.apply(item)


class Bridged:
    """The server, its bridge and the mesh. `run` lets time pass, `fail_over` replaces the master."""

    def __init__(self, ways: str, seed: int = 0, *, topics: tuple[str, ...] = ("prices",)) -> None:
        self.mesh = SimulatedMesh(seed)
        for topic in topics:
            self.mesh.command(0, "create", topic=topic)
        self.site = _Site()
        self.services = self.site.services
        self._ways = ways
        self._port: SimulatedPort | None = None
        self.service = MeshBridge()

    def start(self) -> "Bridged":
        """Start the bridge, and wait until it works."""
        self._start()
        self.run(2.0)
        return self

    def _start(self) -> None:
        def port(_: Any, driver: Any) -> Any:
            self._port = self.mesh.port(driver)
            return self._port

        self.service = MeshBridge()
        self.service.port = port
        self.services.start(self.service, f"{URL} {self._ways}")

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.mesh.now + seconds
        while self.mesh.now < end:
            self.mesh.run(STEP_S)
            self.services.advance(STEP_S)
            self.site.hand_out()

    def fail_over(self) -> None:
        """Kill the master, and let another one begin."""
        if self._port is not None:
            self._port.end()
        self.services.kill()
        self._start()

    def unsubscribe(self, topic: str, name: str) -> None:
        """End a subscription of the mesh, as an administrator does."""
        mesh = self.mesh
        request = {"topic": topic, "name": name}
        mesh.call(0, lambda daemon: daemon.command(mesh.now, mesh.wall_ms, "unsubscribe", request))

    @property
    def status(self) -> str:
        """The line that `quorate status` shows."""
        return self.services.statuses["MeshBridge"]

    def listener(self, destination: str) -> "Listener":
        """Return a consumer, which accepts what it gets."""
        return Listener(self, destination)


class Listener:
    """A consumer of a destination."""

    def __init__(self, bridged: Bridged, destination: str) -> None:
        self._client: Client = bridged.site.client()
        self._destination = destination
        self._texts: list[str] = []
        self._client.consume(destination)

    @property
    def texts(self) -> list[str]:
        """All that has come."""
        while new := self._client.messages():
            self._texts += [text for text, _, _ in new]
            self._client.settle(self._destination, *[number for _, number, _ in new])
        return self._texts
