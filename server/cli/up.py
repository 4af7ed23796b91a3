"""`quorate up`: every replica of this host, until Ctrl-C."""

import signal
import threading
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.text import Text

from ..config import ConfigError
from .common import config_argument, import_from_here, read_config, reported_errors
from .local_hosts import is_local
from .output import Printer
from .restart_policy import RestartPolicy
from .supervisor import Event, Supervisor
from .terminal import console

_COLOURS = {
    "ready": "green",
    "role": "bold",
    "settled": "green",
    "died": "bold red",
    "gave up": "bold red",
    "output": "dim",
}
POLL_S = 0.5


@click.command(
    epilog="Exit status: 0 after Ctrl-C or an orderly stop of all replicas, 1 if they died or cannot start."
)
@config_argument
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
@click.option("--server", "servers", metavar="NAME", multiple=True, help="Only this server; may be repeated.")
@click.option("--restart", is_flag=True, help="Start replicas that died again, after growing delays.")
@click.pass_context
def command(
    ctx: click.Context, config: Path, data: Path | None, servers: tuple[str, ...], restart: bool
) -> None:
    """Run every replica that belongs to this host, one process each, until Ctrl-C.

    It prints one line per event. Without --restart, a replica that dies stays dead; its last line is the
    command that starts it again.
    """
    import_from_here()
    screen, printer = console(), Printer("the replicas continue")
    dead: set[str] = set()

    def print_line(line: Text) -> None:
        printer(lambda: screen.print(line, soft_wrap=True))

    def show(event: Event) -> None:
        if event.kind == "died":
            dead.add(event.name)
        elif event.kind == "started":
            dead.discard(event.name)
        print_line(Text.assemble(f"{event.name} ", (event.text, _COLOURS.get(event.kind, ""))))

    with reported_errors(), _stop_requested() as requested:
        loaded = read_config(config)
        names = [loaded.server(name).name for name in servers] or None
        supervisor = Supervisor(
            config, data, restart=RestartPolicy() if restart else None, on_event=show, servers=names
        )
        try:
            watch = ConfigFileWatch(config)
            supervisor.start()
            while supervisor.running and not requested.wait(POLL_S):
                for line in watch.edits(supervisor.replicas):
                    print_line(Text(line))
        finally:
            supervisor.stop()
    ctx.exit(0 if requested.is_set() or not dead else 1)


class ConfigFileWatch:
    """Notices edits of the file while replicas run with its former text."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()
        self._text = self._read()

    def edits(self, running: Collection[tuple[str, int]]) -> list[str]:
        """Return lines about an edit since the last call; `running` are the (server, replica) of `up`."""
        stamp = self._stamp()
        if stamp == self._seen:
            return []
        self._seen = stamp
        text = self._read()
        if text in (self._text, None):
            return []
        self._text = text
        name = click.format_filename(self._path)
        try:
            loaded = read_config(self._path)
        except ConfigError:
            return [f"{name} was edited and is not valid; see `quorate check {name}`"]
        lines = [
            f"{name} was edited; the servers run as before: `quorate apply {name}` adds and removes "
            "replicas, any other change needs a restart of all servers"
        ]
        for server in loaded.servers:
            lines += [
                f"{server.name}.{replica.id} is new: start it with "
                f"`quorate start {name} --server {server.name} --replica {replica.id} --join`"
                for replica in server.replicas
                if (server.name, replica.id) not in running and is_local(replica.host)
            ]
        return lines

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except OSError:
            return None


@contextmanager
def _stop_requested() -> Generator[threading.Event]:
    """Let signals set the event, instead of ending the process before the replicas are stopped."""
    requested = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        requested.set()

    handled = [signal.SIGINT, signal.SIGTERM]
    # Under nohup, SIGHUP stays ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
