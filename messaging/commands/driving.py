"""A recorded load, put on agents that stand for those of the recording."""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ...agents import ExceptionNotification, UnknownAgent
from ...client import Connection, NotPermitted, QuorateClientError, Received
from ...replay.errors import ReplayError
from ...replay.stand_in import Done, Load, StandIn, stand_in_name
from ...replay.workload import Chain, Workload
from ...server.cli.common import CommandError
from .latencies import Counts, LoadRun

__all__ = ["Drive"]

MAX_CONNECTIONS: Final = 20
"""The clients of a recording share so many."""
MAX_AGENTS: Final = 10_000
QUIET_S: Final = 30.0
"""When nothing has come back for so long, what is missing does not come any more."""


class Drive(LoadRun):
    """A recorded load that is sent again, at the times of the recording."""

    def __init__(
        self, path: Path, opens: Callable[[], Connection], speed: float, servers: Sequence[str]
    ) -> None:
        """Open the file. speed: how many times as fast as it was; 0: as fast as it can.

        servers: the names of those that stand for the servers of the recording, in their order; none: that of
        the connection stands for all of them. Raises CommandError.
        """
        if find_spec("pyarrow") is None:
            raise CommandError("A recorded load needs pyarrow: pip install 'quorate[replay]'.")
        try:
            self._workload = Workload(path)
        except ReplayError as error:
            raise CommandError(str(error)) from error
        if len(self._workload.agents) > MAX_AGENTS:
            count = len(self._workload.agents)
            raise CommandError(f"The load has {count} agents; at most {MAX_AGENTS} can be stood for.")
        self._opens = opens
        self._speed = speed
        numbers = self._workload.servers
        if servers and len(servers) != len(numbers):
            raise CommandError(
                f"The load has {len(numbers)} servers: give --on for each of them, or for none."
            )
        self._homes = dict(zip(numbers, servers or [""] * len(numbers), strict=True))
        """By the number of a server in the file, the name of the one that stands for it."""
        self._run = secrets.token_hex(4)
        super().__init__(max(1, min(MAX_CONNECTIONS, self._workload.connections)))
        self.late_ns = 0
        """How far sending fell behind the times of the recording at most."""
        self._expected = 0
        self._last = 0.0

    def go(self, show: Callable[[float], None]) -> float:
        """Send the load, calling `show` with the seconds so far; return how many seconds it took."""
        with contextlib.ExitStack() as stack:
            try:
                connections = [stack.enter_context(self._opens()) for _ in self.counts]
                self._make(connections[0])
            except QuorateClientError as error:
                self.failures.append(error)
                return 0.0
            for connection, counts in zip(connections, self.counts, strict=True):
                connection.listen(self._listener(counts))
            sending = threading.Thread(target=self._send, args=(connections,), daemon=True)
            began = self._last = time.monotonic()
            sending.start()
            while self._busy(sending):
                time.sleep(0.1)
                now = time.monotonic() - began
                self.series.append((now, self.sent, self.received))
                show(now)
            took_s = time.monotonic() - began
            self._remove(connections[0])
        return took_s

    def _busy(self, sending: threading.Thread) -> bool:
        if self.failures:
            return False
        if sending.is_alive():
            return True
        if self.received < self._expected and time.monotonic() - self._last > QUIET_S:
            missing = self._expected - self.received
            why = f"{missing} of {self._expected} notifications did not come back within {QUIET_S:g} s"
            self.failures.append(CommandError(f"{why}: see the dead letters of the servers."))
        return self.received < self._expected and not self.failures

    def _make(self, connection: Connection) -> None:
        """Create the agents. Raises QuorateClientError."""
        # By the numbers in the file, which are those of the steps.
        homes = [self._homes.get(number, "") for number in range(max(self._workload.servers) + 1)]
        by_home: dict[str, dict[str, dict[str, list[str]]]] = {}
        for agent, server in self._workload.agents.items():
            states = by_home.setdefault(self._homes[server], {})
            states[stand_in_name(self._run, agent)] = {"servers": homes}
        try:
            for home, states in by_home.items():
                connection.create_all(StandIn, states, server=home or None)
        except NotPermitted as error:
            raise QuorateClientError(f"the agents of the load cannot be made: {error}") from error

    def _remove(self, connection: Connection) -> None:
        """Delete the agents, unless something went wrong: then they may show what."""
        with contextlib.suppress(QuorateClientError):
            for agent, server in self._workload.agents.items():
                connection.delete(stand_in_name(self._run, agent), server=self._homes[server] or None)

    def _listener(self, counts: Counts) -> Callable[[Received], None]:
        def listen(note: Received) -> None:
            self._last = time.monotonic()
            if isinstance(note.notification, Done):
                counts.add(time.monotonic_ns() - note.notification.sent_ns)
            elif isinstance(note.notification, ExceptionNotification | UnknownAgent):
                self.failures.append(CommandError(f"The load was refused: {note.notification}."))
            else:
                counts.other += 1

        return listen

    def _send(self, connections: Sequence[Connection]) -> None:
        began = time.monotonic_ns()
        try:
            for chain in self._workload.chains():
                due = began + int(chain.at_ns / self._speed) if self._speed else 0
                wait_ns = due - time.monotonic_ns()
                if wait_ns > 0:
                    time.sleep(wait_ns / 1e9)
                elif self._speed:
                    self.late_ns = max(self.late_ns, -wait_ns)
                if self.failures:
                    return
                place = max(0, chain.connection - 1) % len(connections)
                self._expected += sum(1 for step in chain.steps if not step[1])
                self._send_one(connections[place], chain)
                self.counts[place].sent += 1
            for connection in connections:
                connection.flush(QUIET_S)
        except (QuorateClientError, ReplayError) as error:
            self.failures.append(error)

    def _send_one(self, connection: Connection, chain: Chain) -> None:
        to = stand_in_name(self._run, chain.agent, self._homes[chain.server])
        load = Load.of(self._run, time.monotonic_ns(), None, chain.steps, chain.bytes)
        connection.send_nowait(to, load)
