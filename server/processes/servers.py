"""The servers of an ``a3servers.xml``, started by a Python program and stopped with it."""

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from ...agents import Agent, AgentError, AgentId, Create, agent_spec
from ...client.blocking import Connection, connect
from ..admin.client import ServerAdmin
from ..admin.connection import AdminError
from ..cli.common import CommandError
from ..cli.deploy import deploy
from ..cli.launcher import Launcher
from ..cli.restart_policy import RestartPolicy
from ..cli.supervisor import Event, Supervisor, SupervisorError
from ..config import Config, load
from .directory import temporary_directory
from .local_copy import write_local_copy

__all__ = ["Servers", "ServersError"]

T = TypeVar("T")

OUTPUT_LINES: Final = 1000
"""Lines of the output of all replicas that are kept."""
SHOWN_LINES: Final = 40
"""Lines of them that an error shows."""
LOG_LINES: Final = 5
"""Lines of the log of each replica that an error shows."""
READY_S: Final = 60.0
POLL_S: Final = 0.01


class ServersError(Exception):
    """The servers could not do what they were asked for. The text says why, and shows their last lines."""

    exit_code = 1


class Servers:
    """The servers that a configuration describes, one process for each replica, on this host.

    ::

        with Servers("a3servers.xml", free_ports=True) as servers:
            alice = servers.create("bank:Account", name="alice")
            with servers.connect("s0") as connection:
                connection.send(alice, Deposit(5))
                servers.kill_master("s0")
                print(connection.request(alice, Deposit(7)))

    The processes end with the ``with`` block, and also when this process ends in any other way. Any thread
    may use it. Where a server is an argument, the first of the configuration is meant by default.
    """

    def __init__(
        self,
        config: str | os.PathLike[str],
        *,
        data: str | os.PathLike[str] | None = None,
        free_ports: bool = False,
        only: Collection[str] | None = None,
        pythonpath: Iterable[str | os.PathLike[str]] = (),
        environment: Mapping[str, str] | None = None,
        restart: bool = False,
        ready_timeout_s: float = READY_S,
    ) -> None:
        """Read the configuration; `start`, or the ``with`` block, starts the processes.

        data: where the replicas keep their data; by default a temporary directory, which is removed at the
        end. free_ports: run a copy of the configuration with all replicas on this host and free ports.
        only: the names of the servers to start. pythonpath: directories of agents' modules. environment:
        variables for the processes, added to those of this one. restart: start replicas again that die.
        ready_timeout_s: seconds in which all replicas must be ready.
        Raises ConfigError for a configuration that is not valid, ServersError for a server that it lacks.
        """
        if isinstance(only, str):
            raise TypeError(f"only is {only!r}; give the names of the servers in a list: [{only!r}]")
        source = Path(config)
        self.output: deque[str] = deque(maxlen=OUTPUT_LINES)
        """The last lines of all replicas, each with the name of its replica in front."""
        self._temporary = temporary_directory() if data is None else None
        try:
            path = source
            if free_ports:
                # Beside the data that are kept, so that another run has the same ports.
                home = self._directory() if data is None else Path(data)
                home.mkdir(parents=True, exist_ok=True)
                path = home / f"local-{source.name}"
                try:
                    write_local_copy(source, path)
                except ValueError as error:
                    raise ServersError(f"{error}.") from None
            self.config: Config = load(path, check_imports=False)
            """The configuration that the servers run."""
            self.data = Path(data) if data is not None else self._directory() / "data"
            """Where the replicas keep their data: ``SERVER/REPLICA`` in it."""
            names = {server.name for server in self.config.servers}
            unknown = sorted(set(only or ()) - names)
            if unknown:
                raise ServersError(f"there is no server {unknown[0]}; there are: {', '.join(sorted(names))}")
            self._supervisor = Supervisor(
                path,
                self.data,
                restart=RestartPolicy() if restart else None,
                on_event=self._on_event,
                servers=only,
                launcher=Launcher(_environment(pythonpath, environment or {})),
                check_imports=False,
            )
        except BaseException:
            self._remove_temporary()
            raise
        self._ready_timeout_s = ready_timeout_s
        self._lock = threading.Lock()
        self._running = False

    def start(self) -> None:
        """Start all processes, and return when every replica is ready.

        Raises ServersError if one is not, after all have been stopped: the text shows their last lines.
        """
        atexit.register(self.stop)
        self._running = True
        try:
            self._supervisor.start()
            self._supervisor.wait_ready(self._ready_timeout_s)
        except SupervisorError as error:
            failure = self._error(str(error))
            self.stop()
            raise failure from None
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes in order, and remove the temporary directory. Idempotent."""
        with self._lock:
            running, self._running = self._running, False
        if running:
            self._supervisor.stop()
        self._remove_temporary()
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ServersError):
            error.add_note(f"The last lines of the servers:\n{self._last_lines()}")
        self.stop()

    # Clients and agents

    def connect(
        self,
        server: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        **options: Any,
    ) -> Connection:
        """Connect to a server as `quorate.connect` does, which says what the options are.

        user, password: by default the first user of its ConnectionManager. Raises ServersError if the server
        has no port for clients.
        """
        users = self.config.users(self._name(server))
        if user is None:
            user = next(iter(users), "")
        known = users.get(user, "") if password is None else password
        return connect(self.url(server), user=user, password=known, **options)

    def url(self, server: str | None = None) -> str:
        """Return where clients connect to a server. Raises ServersError if they cannot."""
        url = self.config.client_urls(self._name(server))
        if not url:
            raise ServersError(
                f"server {self._name(server)} has no TcpProxyService, so no client can connect"
            )
        return url

    def create(
        self, cls: type[Agent] | str, name: str | None = None, *, server: str | None = None, **state: Any
    ) -> AgentId:
        """Create an agent from the arguments of its constructor, and return its id.

        cls: the class, or ``module:Class``; the processes must be able to import it, see `pythonpath`.
        Raises AgentError if the agent cannot be created, ServersError if the server does not answer.
        """
        location = cls if isinstance(cls, str) else agent_spec(cls).location
        create = Create(location, name, msgspec.msgpack.encode(state), None, secrets.token_hex(16))
        try:
            return AgentId.parse(deploy(self._admin(server), create))
        except CommandError as error:
            raise AgentError(str(error)) from None
        except AdminError as error:
            raise self._error(str(error)) from None

    # Processes

    def master(self, server: str | None = None, timeout_s: float = READY_S) -> int:
        """Return the replica of a server that is master, as soon as there is one. Raises ServersError."""
        name = self._name(server)
        return self._until(lambda: self._supervisor.master(name), timeout_s, f"{name} has no master")

    def pid(self, server: str | None = None, replica: int = 0) -> int | None:
        """Return the process of a replica; None if it does not run."""
        return self._supervised(lambda: self._supervisor.pid(self._name(server), replica))

    def kill(self, server: str | None = None, replica: int = 0) -> None:
        """Kill the process of a replica with SIGKILL, and return when it is gone.

        Raises ServersError if it does not run.
        """
        name = self._name(server)
        self._signal(name, replica, signal.SIGKILL)
        self._until(
            lambda: self._supervisor.pid(name, replica) is None or None,
            self._ready_timeout_s,
            f"{name}.{replica} was killed and does not end",
        )

    def kill_master(self, server: str | None = None) -> int:
        """Kill the master of a server, as soon as there is one, and return which replica it was."""
        name = self._name(server)
        master = self.master(name)
        self.kill(name, master)
        return master

    def pause(self, server: str | None = None, replica: int = 0) -> None:
        """Stop the process of a replica where it stands, with SIGSTOP."""
        self._signal(self._name(server), replica, signal.SIGSTOP)

    def resume(self, server: str | None = None, replica: int = 0) -> None:
        """Let a paused process go on."""
        self._signal(self._name(server), replica, signal.SIGCONT)

    def start_replica(self, server: str | None = None, replica: int = 0) -> None:
        """Start a replica that does not run, and return when it is ready. Raises ServersError."""
        name = self._name(server)
        self._supervised(lambda: self._supervisor.start_replica(name, replica))

        def ready() -> bool | None:
            if self._supervisor.role(name, replica):
                return True
            if self._supervisor.pid(name, replica) is None:
                raise self._error(f"{name}.{replica} ended instead of getting ready")
            return None

        self._until(ready, self._ready_timeout_s, f"{name}.{replica} is not ready")

    def log(self, server: str | None = None, replica: int = 0) -> str:
        """Return the log that a replica has written to its directory, of this life and earlier ones."""
        directory = self.data / self._name(server) / str(replica)
        files = sorted(directory.glob("log*"), key=lambda path: path.stat().st_mtime)
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    # Parts

    def _name(self, server: str | None) -> str:
        if server is None:
            return self.config.servers[0].name
        names = [each.name for each in self.config.servers]
        if server not in names:
            raise ServersError(f"there is no server {server}; there are: {', '.join(names)}")
        return server

    def _admin(self, server: str | None) -> ServerAdmin:
        return ServerAdmin(self.config, self.config.server(self._name(server)))

    def _signal(self, name: str, replica: int, number: signal.Signals) -> None:
        self._supervised(lambda: self._supervisor.kill(name, replica, number))

    def _supervised(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except SupervisorError as error:
            raise self._error(str(error)) from None

    def _until(self, condition: Callable[[], T | None], timeout_s: float, failure: str) -> T:
        """Wait until a condition is not None, and return what it is."""
        end = time.monotonic() + timeout_s
        pause = threading.Event()
        while (found := condition()) is None:
            if time.monotonic() > end:
                raise self._error(f"{failure}, after {timeout_s:g} s.")
            pause.wait(POLL_S)
        return found

    def _on_event(self, event: Event) -> None:
        self.output.append(f"{event.name} {event.text}")

    def _error(self, text: str) -> ServersError:
        return ServersError(f"{text} The last lines of the servers:\n{self._last_lines()}")

    def _last_lines(self) -> str:
        lines = list(self.output)[-SHOWN_LINES:]
        for server in self.config.servers:
            for replica in server.replicas:
                log = self.log(server.name, replica.id).splitlines()[-LOG_LINES:]
                lines += [f"log of {server.name}.{replica.id}: {line}" for line in log]
        return "\n".join(f"  {line}" for line in lines) or "  (none)"

    def _directory(self) -> Path:
        assert self._temporary is not None
        return self._temporary

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._temporary)


def _environment(
    pythonpath: Iterable[str | os.PathLike[str]], environment: Mapping[str, str]
) -> dict[str, str]:
    inherited = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    paths = [*(str(Path(each).absolute()) for each in pythonpath), *([inherited] if inherited else [])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)} if paths else dict(environment)
