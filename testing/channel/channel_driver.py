"""The driver of a simulated channel: passes inputs in, acts on the output, and calls it at its deadline."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from ...hachannel.model.log import Reset
from .disk import Write

if TYPE_CHECKING:
    from .host import Host

__all__ = ["ChannelDriver", "StepCountdown"]


@attrs.define(eq=False)
class StepCountdown:
    """An action that runs after a number of steps of a process."""

    steps: int
    """Steps that are left. One step is a message sent, a write begun or a sync ended."""
    action: Callable[[], None]


class ChannelDriver:
    """Steps the channel of the present process."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.backlog: list[Callable[[], None]] = []
        """Inputs that have arrived while the process is paused."""
        self.countdown: StepCountdown | None = None
        self._alarm_at: float | None = None
        """The reading of the clock for which an alarm is set."""

    def begin(self) -> None:
        """Drop what is left of the last process."""
        self.backlog.clear()
        self.countdown = None
        self._alarm_at = None

    def act(self, action: Callable[[], None]) -> None:
        """Run an input now, or once the process is resumed. An ended process drops it."""
        if not self.host.running:
            return
        if self.host.paused:
            self.backlog.append(lambda: self.act(action))
            return
        action()
        self.settle()

    def resume(self) -> None:
        """Run the inputs that arrived during a pause, one by one."""
        backlog, self.backlog = self.backlog, []
        for action in backlog:
            if self.host.running:
                action()
        if self.host.running:
            self._tick()

    def settle(self) -> None:
        """Act on the output of the channel until there is none, then set the alarm."""
        host = self.host
        world = host.world
        while host.running:
            output = host.channel.drain()
            if not output:
                break
            for line in output.notes:
                world.trace(f"{host}: {line}")
            world.observer.stepped(host, output)
            if output.persist:
                resets = [record.base.at for record in output.persist if isinstance(record, Reset)]
                state = host.app.saved() if resets else None
                host.machine.write(Write(output.persist, output.token, state, max(resets, default=0)))
            for peer, message in output.messages:
                if not self.count_step():
                    return
                world.net.send(host.replica, host, peer, message)
            for event in output.events:
                if host.running:
                    host.application.handle(event)
        if host.running:
            host.machine.save_application()
            self.set_alarm()

    def count_step(self) -> bool:
        """Count one step of the process. Return False if the process has ended by it."""
        countdown = self.countdown
        if countdown is not None:
            countdown.steps -= 1
            if countdown.steps < 0:
                self.countdown = None
                countdown.action()
        return self.host.running

    def set_alarm(self) -> None:
        """Schedule a tick for the deadline of the channel, unless an earlier one is scheduled."""
        host, deadline = self.host, self.host.channel.deadline
        if deadline is None or (self._alarm_at is not None and self._alarm_at <= deadline):
            return
        self._alarm_at = deadline
        life, at = host.life, host.machine.time_of(deadline)
        host.world.at(max(at, host.world.now), lambda: self._ring(life, deadline))

    def _ring(self, life: int, deadline: float) -> None:
        if life == self.host.life and self.host.running and self._alarm_at == deadline:
            self._alarm_at = None
            if not self.host.paused:
                self._tick()

    def _tick(self) -> None:
        self.host.channel.tick(self.host.clock())
        self.settle()
