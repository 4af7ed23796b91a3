"""The driver of a simulated application: handles the events of the channel, and answers them in time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from ...hachannel import (
    Deliver,
    Event,
    InstallPart,
    LeaseChanged,
    ProvidePart,
    ProvideSnapshot,
    Stopped,
    ViewEvent,
)
from .application import App, Spoiled

if TYPE_CHECKING:
    from .host import Host

__all__ = ["MAX_PIECES", "PARTS", "ApplicationDriver"]

MAX_PIECES = 20
"""A state that is provided as a whole has at most about this number of pieces."""
PARTS = 24
"""A part takes `Shape.snapshot_s` divided by this number; a whole state takes all of `snapshot_s`."""


class ApplicationDriver:
    """The application of the present process, its services, and the transfers of its state."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.app = App()
        self.services = 0
        """Services that need the lease and have not ended: one for each time that the lease was gained."""
        self.redeliver: list[Deliver] = []
        """Entries on the disk, above the saved state, that a new process delivers before it starts."""
        self._gathered: list[bytes] = []
        self._free_at = 0.0
        """The virtual time at which the application has finished its work."""

    def begin(self) -> None:
        """Replace the application for a new process."""
        self.app = App()
        self.services = 0

    def recover(self) -> None:
        """Deliver the entries from the disk, as a server does before it starts its channel."""
        for event in self.redeliver:
            self.app.deliver(event)
            self.host.world.observer.delivered(self.host, event)
        self.redeliver = []

    def handle(self, event: Event) -> None:
        """Act on one event of the channel, and report it to the observer once it is handled."""
        host = self.host
        match event:
            case Deliver():
                self.app.deliver(event)
            case ProvideSnapshot() | ProvidePart():
                self._provide(event)
            case InstallPart():
                if host.world.shape.parts or event.index is not None:
                    self.later(lambda: self.install(event))
                else:
                    self.install(event)
                return
            case LeaseChanged():
                if event.held:
                    self.services += 1
                else:
                    self._stop_services()
            case Stopped():
                host.stopped()
            case ViewEvent():
                host.world.trace(f"{host} {event}")
                self.app.settle(master=event.master == host.replica)
            case _:
                pass
        host.world.observer.delivered(host, event)

    def _stop_services(self) -> None:
        """End the services within `Shape.stop_s`, then tell the channel."""
        host = self.host
        world, life = host.world, host.life

        def stopped() -> None:
            if life == host.life:
                self.services -= 1
                host.channel.lease_ended(host.clock())

        if world.shape.stop_s:
            delay = world.service_random.uniform(0, world.shape.stop_s)
            world.at(world.now + delay, lambda: host.driver.act(stopped))
        else:
            stopped()

    def _provide(self, event: ProvideSnapshot | ProvidePart) -> None:
        """Provide the whole state, or its next part. A part is captured when the channel asks for it."""
        host, app = self.host, self.app
        channel, shape = host.channel, host.world.shape
        if shape.parts:
            if isinstance(event, ProvideSnapshot):
                app.begin(event)
            part = app.next(event.token, event.index, 1 + shape.chunk // 2)
            if part is None:
                self.later(lambda: channel.part_failed(host.clock(), event.token, "it has ended"))
                return
            data, index, last = part
            self.later(lambda: channel.part_ready(host.clock(), event.token, data, index, last=last))
        else:
            whole = app.whole()
            size = max(shape.chunk, len(whole) // MAX_PIECES)
            pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
            self.later(lambda: channel.snapshot_ready(host.clock(), event.token, event.index, pieces))

    def install(self, event: InstallPart) -> None:
        """Install a part of a state, or collect a piece of one that is installed as a whole."""
        host = self.host
        world, channel = host.world, host.channel
        if not world.shape.parts:
            if not event.number:
                self._gathered.clear()
            self._gathered.append(event.data)
            if event.index is not None:
                event = attrs.evolve(event, number=0, data=b"".join(self._gathered))
        marker = b""
        if world.shape.parts or event.index is not None:
            try:
                marker = self.app.install(event)
            except Spoiled as error:
                reason = str(error)
                world.trace(f"{host} refuses: {reason}")
                channel.part_refused(host.clock(), event.token, reason)
                return
        world.observer.delivered(host, event)
        channel.part_installed(host.clock(), event.token, marker if world.shape.parts else b"")

    def later(self, action: Callable[[], None]) -> None:
        """Call `action` after the time that the application needs, in the order of the events."""
        host = self.host
        world, life = host.world, host.life

        def act() -> None:
            if life == host.life:
                host.driver.act(action)

        longest_s = world.shape.snapshot_s / (PARTS if world.shape.parts else 1)
        self._free_at = max(self._free_at, world.now + world.machine_random.uniform(0, longest_s))
        world.at(self._free_at, act)
