"""One process per replica on this host, watched by threads. Used by `quorate up` and by the demo."""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

import attrs

from ..config import load
from .launcher import STOP_TOGETHER, Launcher, exit_text, stop_processes
from .local_hosts import is_local
from .replica_output import ReplicaOutput, cut
from .restart_policy import FailureCount, RestartPolicy

__all__ = ["Event", "Supervisor", "SupervisorError"]

JOIN_TIMEOUT_S = 10.0
"""The wait for a thread whose process has ended."""
LATE_OUTPUT_S = 1.0
"""The wait for the last lines of a process that has ended."""

Kind = Literal[
    "skipped", "started", "ready", "role", "settled", "output", "died", "stopped", "restarting", "gave up"
]
Key = tuple[str, int]


class SupervisorError(Exception):
    """The supervisor could not do what it was asked for; the text is one sentence for the user."""


@attrs.frozen
class Event:
    """Something that happened to the process of one replica."""

    server: str
    replica: int
    kind: Kind
    text: str
    """One line for people."""
    pid: int | None = None
    role: str = ""
    """The role of the replica, "" when it is not ready."""

    @property
    def name(self) -> str:
        """The replica as it is written in front of its lines, for example ``s0.1``."""
        return _name(self.server, self.replica)


def _name(server: str, replica: int) -> str:
    return f"{server}.{replica}"


@attrs.define
class _Child:
    server: str
    replica: int
    command: list[str]
    failures: FailureCount
    output: ReplicaOutput
    stops_together: bool = False
    """All replicas of its server are on this host and have disks, so they stop at the same time."""
    process: "subprocess.Popen[str] | None" = None
    started_s: float = 0.0
    stop_expected: bool = False
    """The process got a signal that stops it in order."""
    restart_pending: bool = False
    watched: bool = False
    """The process was started, and its end has not been handled yet."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def role(self) -> str:
        return self.output.role


class Supervisor:
    """Starts and watches the replicas of a configuration that belong to this host.

    `restart` says when a replica that died is started again; None: never. `on_event` is called from the
    threads of the supervisor, one call at a time; it may call anything but `stop`. `servers` limits it to
    those names. `check_imports`: modules that the configuration names are imported here, too, and not in the
    processes only. Raises ConfigError when the configuration is not valid.
    """

    def __init__(
        self,
        config_path: str | os.PathLike[str],
        data: str | os.PathLike[str] | None = None,
        *,
        restart: RestartPolicy | None = None,
        on_event: Callable[[Event], None] = lambda _event: None,
        servers: Collection[str] | None = None,
        launcher: Launcher | None = None,
        check_imports: bool = True,
    ) -> None:
        self._path = Path(config_path)
        self._on_event = on_event
        self._launcher = Launcher() if launcher is None else launcher
        self._changed = threading.Condition()
        self._emitting = threading.RLock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._children: dict[Key, _Child] = {}
        self._skipped: list[tuple[Key, str]] = []
        config = load(self._path, check_imports=check_imports)
        for server in config.servers:
            if servers is not None and server.name not in servers:
                continue
            complete = all(is_local(replica.host) for replica in server.replicas)
            for replica in server.replicas:
                key = (server.name, replica.id)
                if not is_local(replica.host):
                    self._skipped.append((key, replica.host))
                    continue
                self._children[key] = _Child(
                    *key,
                    self._launcher.command(self._path, None if data is None else Path(data), *key),
                    FailureCount(restart),
                    ReplicaOutput(_name(*key)),
                    stops_together=complete and server.stops_together,
                )

    def start(self) -> None:
        """Start every process; returns at once."""
        for (server, replica), host in self._skipped:
            text = f"host {host} is not this machine: start it there"
            self._emit(Event(server, replica, "skipped", text))
        if not self._children:
            raise SupervisorError("No replica of the configuration belongs to this host.")
        for key in self._children:
            self.start_replica(*key)

    def start_replica(self, server: str, replica: int) -> int:
        """Start the process of a replica that does not run, for example after a kill; return its pid."""
        child = self._child(server, replica)
        with self._changed:
            if child.alive:
                raise SupervisorError(f"{server}.{replica} runs already.")
            child.stop_expected = False
            child.failures.reset()
        return self._spawn(child)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until every process is master or slave.

        Raises SupervisorError when one of them ended instead or `timeout_s` seconds have passed.
        """

        def settled() -> bool:
            return all(
                child.role or not (child.alive or child.restart_pending) for child in self._children.values()
            )

        with self._changed:
            in_time = self._changed.wait_for(settled, timeout_s)
            late = [f"{s}.{r}" for (s, r), child in self._children.items() if not child.role]
        if late:
            why = "ended" if in_time else f"not ready after {timeout_s:g} s"
            raise SupervisorError(f"{', '.join(late)}: {why}.")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no process runs or will be restarted; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.running, timeout_s)

    @property
    def running(self) -> bool:
        """Whether any process runs, will be restarted, or has ended and its end is not handled yet."""
        return any(child.watched or child.restart_pending for child in self._children.values())

    @property
    def replicas(self) -> list[Key]:
        """The (server name, replica id) of every replica of this host, in the order of the configuration."""
        return list(self._children)

    def pid(self, server: str, replica: int) -> int | None:
        """The process of a replica, or None when it does not run."""
        child = self._child(server, replica)
        with self._changed:
            return child.process.pid if child.process is not None and child.alive else None

    def role(self, server: str, replica: int) -> str:
        """The role that the replica last printed: master, slave or witness; "" when it is not ready."""
        return self._child(server, replica).role

    def master(self, server: str) -> int | None:
        """The running replica of `server` that last printed the role of master, or None."""
        with self._changed:
            for (name, replica), child in self._children.items():
                if name == server and child.role == "master" and child.alive:
                    return replica
        return None

    def command(self, server: str, replica: int) -> str:
        """The command that starts this replica in a shell."""
        return shlex.join(["quorate", *self._child(server, replica).command[3:]])

    def kill(self, server: str, replica: int, signal_number: int = signal.SIGKILL) -> int:
        """Send a signal to one process; return its pid. Raises SupervisorError when it does not run."""
        child = self._child(server, replica)
        with self._changed:
            if child.process is None or not child.alive:
                raise SupervisorError(f"{server}.{replica} does not run.")
            # After such a signal the end of the process is no failure, and nothing is restarted.
            child.stop_expected = signal_number in (signal.SIGTERM, signal.SIGINT)
            child.process.send_signal(signal_number)
            return child.process.pid

    def stop(self) -> None:
        """Stop every process in order, and with SIGKILL if that takes too long. Idempotent.

        The replicas of a cluster with disks, all of them on this host, stop together; otherwise masters last.
        """
        with self._changed:
            self._stopping.set()
            children = list(self._children.values())
            apart = [child for child in children if not child.stops_together]
            slaves = [child for child in apart if child.role != "master"]
            masters = [child for child in apart if child.role == "master"]
            self._changed.notify_all()
        self._stop_all([child for child in children if child.stops_together], STOP_TOGETHER)
        self._stop_all(slaves)
        self._stop_all(masters)
        with self._changed:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(timeout=JOIN_TIMEOUT_S)
        self._launcher.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _child(self, server: str, replica: int) -> _Child:
        child = self._children.get((server, replica))
        if child is None:
            known = ", ".join(f"{s}.{r}" for s, r in self._children) or "none"
            raise SupervisorError(f"There is no replica {server}.{replica} on this host; there are: {known}.")
        return child

    def _spawn(self, child: _Child) -> int:
        with self._changed:
            child.restart_pending = False
            if self._stopping.is_set():
                raise SupervisorError("The supervisor is stopping.")
            output = child.output = ReplicaOutput(_name(child.server, child.replica))
            child.started_s = time.monotonic()
            try:
                process = self._launcher.launch(child.command)
            except OSError as error:
                raise SupervisorError(f"Cannot run {child.command[0]}: {error.strerror}.") from error
            child.process = process
            child.watched = True
        self._emit(self._event(child, "started", f"started, pid {process.pid}"))
        self._thread(self._watch, child, process, output)
        return process.pid

    def _thread(self, function: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=args, name="quorate-supervisor", daemon=True)
        with self._changed:
            self._threads = [known for known in self._threads if known.is_alive()]
            thread.start()
            self._threads.append(thread)
        return thread

    def _watch(self, child: _Child, process: "subprocess.Popen[str]", output: ReplicaOutput) -> None:
        readers = [
            self._thread(self._read_output, child, process.stdout, output),
            self._thread(self._read_errors, child, process.stderr),
        ]
        status = process.wait()
        for reader in readers:
            # A grandchild that keeps the pipe open must not hide the death of the replica.
            reader.join(timeout=LATE_OUTPUT_S)
        self._ended(child, process, output, status)

    def _read_output(self, child: _Child, stream: IO[str], output: ReplicaOutput) -> None:
        for line in stream:
            with self._changed:
                stopping = child.stop_expected or self._stopping.is_set()
                event = output.read(line, stopping=stopping)
                if event is not None and event.kind != "output":
                    child.failures.reset()
                    self._changed.notify_all()
            if event is not None:
                self._emit(self._event(child, event.kind, event.text))

    def _read_errors(self, child: _Child, stream: IO[str]) -> None:
        for line in stream:
            if text := cut(line):
                self._emit(self._event(child, "output", text))

    def _ended(
        self, child: _Child, process: "subprocess.Popen[str]", output: ReplicaOutput, status: int
    ) -> None:
        with self._changed:
            ready = bool(output.role)
            # A user may have started the replica again already: its process and output are others then.
            if child.process is process:
                child.output = ReplicaOutput(_name(child.server, child.replica))
                child.watched = False
            orderly = status == 0 or child.stop_expected or self._stopping.is_set()
            ran_s = time.monotonic() - child.started_s
            delay_s = None if orderly else child.failures.add(ran_s, ready=ready)
            child.restart_pending = delay_s is not None
        how = exit_text(status, stopped=orderly)
        if orderly:
            self._emit(self._event(child, "stopped", how))
        elif delay_s is not None:
            self._emit(self._event(child, "died", how))
            self._emit(self._event(child, "restarting", f"restarting in {delay_s:g} s"))
        else:
            # A replica that never was ready has printed why.
            advice = "mend that, then start it with" if status > 0 and not ready else "bring it back with"
            command = self.command(child.server, child.replica)
            self._emit(self._event(child, "died", f"{how}; {advice}: {command}"))
            if child.failures.policy is not None:
                failures = child.failures.failures
                self._emit(self._event(child, "gave up", f"ended {failures} times, not restarted"))
        with self._changed:
            self._changed.notify_all()
        if delay_s is not None:
            self._restart(child, delay_s)

    def _restart(self, child: _Child, delay_s: float) -> None:
        self._stopping.wait(delay_s)
        with self._changed:
            # A user may have started it meanwhile; a supervisor that is stopping starts nothing.
            if child.restart_pending:
                with contextlib.suppress(SupervisorError):
                    self._spawn(child)
            self._changed.notify_all()

    def _stop_all(self, children: list[_Child], signal_number: int = signal.SIGTERM) -> None:
        processes = [child.process for child in children if child.process is not None]
        stop_processes(processes, signal_number, self._launcher.stop_timeout_s)

    def _event(self, child: _Child, kind: Kind, text: str) -> Event:
        pid = child.process.pid if child.process is not None else None
        return Event(child.server, child.replica, kind, text, pid, child.role)

    def _emit(self, event: Event) -> None:
        with self._emitting:
            try:
                self._on_event(event)
            except Exception:
                # The processes are watched even if their lines cannot be shown.
                traceback.print_exc()
