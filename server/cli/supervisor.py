"""One process per replica on this host, watched by plain threads. Used by `quorate up` and by the demo.

Each process is a `quorate start` in a session of its own, so that Ctrl-C reaches the supervisor only, which
then stops them in order. They hold the reading end of a pipe whose writing end is ours: when this process
ends in any way, they see the end of the pipe and stop (see `lifeline` in ``commands/start.py``).
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

import attrs

from ..config import load
from .local_hosts import is_local

STOP_TIMEOUT_S = 10.0
"""A process that has not ended so long after SIGTERM gets SIGKILL."""
BACKOFF_FIRST_S = 0.5
BACKOFF_LAST_S = 15.0
BACKOFF_RESET_S = 30.0
"""A process that lived so long starts again with the first backoff."""
MAX_FAILED_STARTS = 5
"""So many deaths in a row before being ready, and the replica is given up."""
MAX_LINE_CHARS = 2000

STOP_TOGETHER = signal.SIGUSR1
"""Tells a `quorate start` to stop in order, and that all other replicas of its server are told the same."""

LIFELINE = "QUORATE_LIFELINE"
"""Environment variable with the descriptor whose end of file says that the supervisor has ended."""

Kind = Literal[
    "skipped", "started", "ready", "role", "settled", "said", "died", "stopped", "restarting", "gave up"
]
Key = tuple[str, int]

_READY = re.compile(r"\S+ (?P<role>master|slave|witness), (?:no )?network.*")
_WAITING = re.compile(r"(?:joining|changing|blocked|witness|master): .*")


class SupervisorError(Exception):
    """What was asked of the supervisor did not come to be; the text is one sentence for the user."""


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
    """"master" or "slave" in "ready" and "role" events."""

    @property
    def name(self) -> str:
        """The replica as it is written in front of its lines, for example ``s0.1``."""
        return f"{self.server}.{self.replica}"


@attrs.define
class _Child:
    server: str
    replica: int
    command: list[str]
    whole: bool = False
    """All replicas of its server are here, and have disks: they stop together."""
    process: "subprocess.Popen[str] | None" = None
    role: str = ""
    started_s: float = 0.0
    failures: int = 0
    to_stop: bool = False
    waiting: bool = False
    """It has said what it waits for since it last said its role."""
    pending: bool = False
    watched: bool = False
    """The process was started, and its end has not been judged yet: did it fail, or was it stopped?"""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Starts and watches the replicas of a configuration that belong to this host.

    `on_event` is called from the threads of the supervisor, one call at a time; it may call anything but
    `stop`. `servers` limits it to those names; `env` is added to our environment for the processes; `python`
    runs them. Raises ConfigError when the configuration is not valid.
    """

    def __init__(
        self,
        config_path: str | os.PathLike[str],
        data: str | os.PathLike[str] | None = None,
        *,
        restart: bool = False,
        on_event: Callable[[Event], None] = lambda _event: None,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
        servers: Collection[str] | None = None,
    ) -> None:
        self._path = Path(config_path)
        self._data = None if data is None else Path(data)
        self._restart = restart
        self._on_event = on_event
        self._env = dict(env or {})
        self._python = python
        self._changed = threading.Condition()
        self._saying = threading.RLock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lifeline = os.pipe()
        self._children: dict[Key, _Child] = {}
        self._skipped: list[tuple[Key, str]] = []
        config = load(self._path)
        for server in config.servers:
            if servers is not None and server.name not in servers:
                continue
            here = all(is_local(replica.host) for replica in server.replicas)
            whole = here and server.stops_together
            for replica in server.replicas:
                key = (server.name, replica.id)
                if is_local(replica.host):
                    self._children[key] = _Child(server.name, replica.id, self._command(*key), whole)
                else:
                    self._skipped.append((key, replica.host))

    # -- what the owner calls

    def start(self) -> None:
        """Start every process; returns at once."""
        for (server, replica), host in self._skipped:
            text = f"host {host} is not this machine: start it there"
            self._say(Event(server, replica, "skipped", text))
        if not self._children:
            raise SupervisorError("No replica of the configuration belongs to this host.")
        for key in self._children:
            self.start_replica(*key)

    def start_replica(self, server: str, replica: int) -> int:
        """Start one process that does not run (a killed replica, say); return its pid."""
        child = self._child(server, replica)
        with self._changed:
            if child.alive:
                raise SupervisorError(f"{server}.{replica} runs already.")
            child.to_stop = False
            child.failures = 0
        return self._spawn(child)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until every process is master or slave.

        Raises SupervisorError when one of them ended instead or `timeout_s` seconds have passed.
        """

        def settled() -> bool:
            return all(child.role or not (child.alive or child.pending) for child in self._children.values())

        with self._changed:
            in_time = self._changed.wait_for(settled, timeout_s)
            late = [f"{s}.{r}" for (s, r), child in self._children.items() if not child.role]
        if late:
            why = "ended" if in_time else f"not ready after {timeout_s:g} s"
            raise SupervisorError(f"{', '.join(late)}: {why}.")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no process runs or will be restarted; say whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.running, timeout_s)

    @property
    def running(self) -> bool:
        """Whether any process runs or will be restarted, or has ended without a verdict so far."""
        return any(child.watched or child.pending for child in self._children.values())

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
        """What the replica last said to be: master, slave or witness; "" when it is not ready."""
        return self._child(server, replica).role

    def master(self, server: str) -> int | None:
        """The replica of `server` that last said to be the master and runs, or None."""
        with self._changed:
            for (name, replica), child in self._children.items():
                if name == server and child.role == "master" and child.alive:
                    return replica
        return None

    def command(self, server: str, replica: int) -> str:
        """The line by which a user starts this replica in a shell."""
        return shlex.join(["quorate", *self._child(server, replica).command[3:]])

    def kill(self, server: str, replica: int, signal_number: int = signal.SIGKILL) -> int:
        """Send a signal to one process; return its pid. Raises SupervisorError when it does not run."""
        child = self._child(server, replica)
        with self._changed:
            if child.process is None or not child.alive:
                raise SupervisorError(f"{server}.{replica} does not run.")
            # A process that stops in order on its own does so because of this signal: not a death to undo.
            child.to_stop = signal_number in (signal.SIGTERM, signal.SIGINT)
            child.process.send_signal(signal_number)
            return child.process.pid

    def stop(self) -> None:
        """Stop every process, by SIGTERM or `STOP_TOGETHER` and, after STOP_TIMEOUT_S, SIGKILL. Idempotent.

        Clusters with disks, all of which is here, stop together; of others, the masters last.
        """
        with self._changed:
            self._stopping.set()
            children = sorted(self._children.values(), key=lambda child: child.role == "master")
            self._changed.notify_all()
        self._stop_wave([child for child in children if child.whole], STOP_TOGETHER)
        apart = [child for child in children if not child.whole]
        self._stop_wave([child for child in apart if child.role != "master"])
        self._stop_wave([child for child in apart if child.role == "master"])
        with self._changed:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(timeout=STOP_TIMEOUT_S)
        for end in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(end)
        self._lifeline = (-1, -1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- inside

    def _child(self, server: str, replica: int) -> _Child:
        child = self._children.get((server, replica))
        if child is None:
            known = ", ".join(f"{s}.{r}" for s, r in self._children) or "none"
            raise SupervisorError(f"There is no replica {server}.{replica} on this host; there are: {known}.")
        return child

    def _command(self, server: str, replica: int) -> list[str]:
        command = [self._python, "-m", "quorate", "start", str(self._path)]
        command += ["--server", server, "--replica", str(replica)]
        if self._data is not None:
            command += ["--data", str(self._data)]
        return command

    def _spawn(self, child: _Child) -> int:
        reading = self._lifeline[0]
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **self._env, LIFELINE: str(reading)}
        with self._changed:
            child.pending = False
            if self._stopping.is_set():
                raise SupervisorError("The supervisor is stopping.")
            child.role = ""
            child.waiting = False
            child.started_s = time.monotonic()
            try:
                process = subprocess.Popen(
                    child.command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    env=env,
                    pass_fds=(reading,),
                    start_new_session=True,
                )
            except OSError as error:
                raise SupervisorError(f"Cannot run {self._python}: {error.strerror}.") from error
            child.process = process
            child.watched = True
        self._say(self._event(child, "started", f"started, pid {process.pid}"))
        self._thread(self._watch, child, process)
        return process.pid

    def _thread(self, function: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=args, name="quorate-supervisor", daemon=True)
        with self._changed:
            self._threads = [known for known in self._threads if known.is_alive()]
            thread.start()
            self._threads.append(thread)
        return thread

    def _watch(self, child: _Child, process: "subprocess.Popen[str]") -> None:
        readers = [
            self._thread(self._read_output, child, process.stdout),
            self._thread(self._read_errors, child, process.stderr),
        ]
        status = process.wait()
        for reader in readers:
            # A grandchild that keeps the pipe open must not hide the death of the replica.
            reader.join(timeout=1.0)
        self._ended(child, status)

    def _read_output(self, child: _Child, stream: IO[str]) -> None:
        for line in stream:
            text = line.rstrip()[:MAX_LINE_CHARS]
            match = _READY.fullmatch(text)
            if match is None:
                text = text.removeprefix(f"{child.server}.{child.replica} ")
                waits = _WAITING.fullmatch(text) is not None
                child.waiting = child.waiting or waits
                if waits and (child.to_stop or self._stopping.is_set()):
                    # The others have gone because they were stopped, and this one goes as well.
                    continue
                self._say(self._event(child, "said", text))
                continue
            with self._changed:
                waited, child.waiting = child.waiting, False
                before, child.role = child.role, match["role"]
                child.failures = 0
                self._changed.notify_all()
            if not before:
                self._say(self._event(child, "ready", f"ready, {text.partition(' ')[2]}"))
            elif before != child.role:
                self._say(self._event(child, "role", f"{before} -> {child.role}"))
            elif waited:
                self._say(self._event(child, "settled", f"{child.role} again"))

    def _read_errors(self, child: _Child, stream: IO[str]) -> None:
        for line in stream:
            text = line.rstrip()[:MAX_LINE_CHARS]
            if text:
                self._say(self._event(child, "said", text))

    def _ended(self, child: _Child, status: int) -> None:
        with self._changed:
            was_ready, child.role = bool(child.role), ""
            orderly = status == 0 or child.to_stop or self._stopping.is_set()
            if time.monotonic() - child.started_s >= BACKOFF_RESET_S:
                child.failures = 0
            delay_s = min(BACKOFF_FIRST_S * 2**child.failures, BACKOFF_LAST_S)
            child.failures += 1
            hopeless = not was_ready and child.failures >= MAX_FAILED_STARTS
            child.pending = again = self._restart and not orderly and not hopeless
            child.watched = False
        how = _how_it_ended(status)
        if orderly:
            if -status in (signal.SIGTERM, STOP_TOGETHER):
                # It had hardly begun.
                how = "stopped"
            self._say(self._event(child, "stopped", how))
        elif again:
            self._say(self._event(child, "died", how))
            self._say(self._event(child, "restarting", f"restarting in {delay_s:g} s"))
        else:
            # One that never was there has said why.
            advice = "mend that, then start it with" if status > 0 and not was_ready else "bring it back with"
            command = self.command(child.server, child.replica)
            self._say(self._event(child, "died", f"{how}; {advice}: {command}"))
            if self._restart:
                self._say(self._event(child, "gave up", f"ended {child.failures} times, not restarted"))
        with self._changed:
            self._changed.notify_all()
        if again:
            self._stopping.wait(delay_s)
            # A supervisor that stops meanwhile does not start it, which is all there is to know.
            with contextlib.suppress(SupervisorError):
                self._spawn(child)
            with self._changed:
                self._changed.notify_all()

    def _stop_wave(self, children: list[_Child], signal_number: int = signal.SIGTERM) -> None:
        for child in children:
            if child.process is not None and child.alive:
                child.process.send_signal(signal_number)
                # A suspended process would not see that.
                child.process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for child in children:
            if child.process is None:
                continue
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()

    def _event(self, child: _Child, kind: Kind, text: str) -> Event:
        pid = child.process.pid if child.process is not None else None
        return Event(child.server, child.replica, kind, text, pid, child.role)

    def _say(self, event: Event) -> None:
        with self._saying:
            try:
                self._on_event(event)
            except Exception:
                # The processes are watched whatever becomes of their lines.
                traceback.print_exc()


def _how_it_ended(status: int) -> str:
    if status == 0:
        return "stopped"
    if status > 0:
        return f"ended with status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
