"""The sample cluster of the demo: its processes, their events, and the kill of the master."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from ..server.cli.restart_policy import RestartPolicy
from ..server.cli.supervisor import Event as ProcessEvent
from ..server.cli.supervisor import Supervisor, SupervisorError
from ..server.config import TCP_PROXY_SERVICE, load
from .ports import write_config
from .result import Event, Killed

CLUSTER = "s0"
READY_TIMEOUT_S = 60.0
BACK_TIMEOUT_S = 60.0
MAX_EVENTS = 1000
"""Events kept for the report."""


class DemoError(Exception):
    """The demo cannot go on; the text is one sentence for the user."""


@attrs.frozen
class _ClusterEvent:
    at_s: float
    server: str
    kind: str
    text: str


class Cluster:
    """The servers of the sample configuration, each in a process of its own. A context manager.

    `report` gets one line for people per event; it is called from other threads.
    """

    def __init__(self, sample: Path, directory: Path, report: Callable[[str], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._events: list[_ClusterEvent] = []
        self._started = False
        self._last_output = ""
        self._own_kill: Killed | None = None
        self.directory = directory
        self.data = directory / "data"
        config_path = directory / "a3servers.xml"
        self.moved_ports = write_config(sample, config_path)
        self.config = load(config_path)
        self.supervisor = Supervisor(config_path, self.data, restart=RestartPolicy(), on_event=self._on_event)

    def __enter__(self) -> "Cluster":
        self.supervisor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.stop()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every replica serves. Raises DemoError."""
        try:
            self.supervisor.wait_ready(timeout_s)
        except SupervisorError as error:
            raise DemoError(f"The servers did not start: {error} {self._last_output}") from error
        with self._lock:
            self._started = True
            self._events.clear()

    def all_back(self, timeout_s: float = BACK_TIMEOUT_S) -> bool:
        """Wait until every replica serves again; return whether all do."""
        try:
            self.supervisor.wait_ready(timeout_s)
        except SupervisorError:
            return False
        return True

    @property
    def url(self) -> str:
        """The URL at which clients connect to the cluster."""
        endpoints = [
            f"{replica.host}:{service.args.split()[0]}"
            for replica in self.config.server(CLUSTER).replicas
            for service in replica.services
            if service.class_name == TCP_PROXY_SERVICE
        ]
        return "quorate://" + ",".join(endpoints)

    @property
    def processes(self) -> list[str]:
        """One line per process, for people who want to kill one."""
        lines: list[str] = []
        for server, replica in self.supervisor.replicas:
            pid, role = self.supervisor.pid(server, replica), self.supervisor.role(server, replica)
            lines.append(f"{server}.{replica} {role or 'starting'} (pid {pid})")
        return lines

    def failure(self) -> str | None:
        """Return one sentence if the run cannot succeed any more, None while it can."""
        with self._lock:
            killed = [each.server for each in self._events if each.kind == "killed"]
        dead = [
            name for name in killed if name != CLUSTER and self.config.server(name).durability == "memory"
        ]
        if not dead:
            return None
        return (
            f"{dead[0]} has died. It has no replicas and keeps its agents in memory, so they are gone: "
            f"start again, and kill processes of {CLUSTER} only."
        )

    def kill_master(self) -> Killed | None:
        """Send SIGKILL to the process of the master.

        Returns None if that is not possible now: there is no master, or a replica is missing already.
        """
        supervisor = self.supervisor
        roles = [supervisor.role(server, replica) for server, replica in supervisor.replicas]
        replica = supervisor.master(CLUSTER)
        if replica is None or not all(roles):
            return None
        with self._lock:
            try:
                pid = supervisor.kill(CLUSTER, replica)
            except SupervisorError:
                return None
            killed = self._own_kill = Killed(replica, pid, time.monotonic())
        self._record(CLUSTER, "killed", f"{CLUSTER}.{replica}, the master (pid {pid}), killed by SIGKILL")
        return killed

    def events(self, start_s: float) -> list[Event]:
        """Return the events since `start_s` (monotonic), with times relative to it."""
        with self._lock:
            return [
                Event(each.at_s - start_s, each.kind, each.text)
                for each in self._events
                if each.at_s >= start_s
            ]

    def _record(self, server: str, kind: str, text: str) -> None:
        with self._lock:
            if len(self._events) < MAX_EVENTS:
                self._events.append(_ClusterEvent(time.monotonic(), server, kind, text))
        self._report(text)

    def _on_event(self, event: ProcessEvent) -> None:
        pid = f" (pid {event.pid})" if event.pid is not None else ""
        with self._lock:
            own = self._own_kill is not None and self._own_kill.pid == event.pid
        if event.kind == "output":
            self._last_output = f"{event.name} says: {event.text}"
        elif event.kind == "died" and not own:
            self._record(event.server, "killed", f"{event.name}{pid} {event.text.partition(';')[0]}")
        elif event.kind == "ready" and self._started:
            self._record(event.server, "back", f"{event.name}{pid} is back as {event.role}")
        elif event.kind == "role" and event.role == "master":
            self._record(event.server, "master", f"{event.name}{pid} is master now")
        elif event.kind == "gave up":
            self._record(event.server, "gone", f"{event.name} {event.text}")
