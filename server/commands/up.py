"""`quorate up`: every replica of this host, until Ctrl-C."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.text import Text

from ..admin_cli import config_argument, console, import_from_here, read_config, sentences
from ..supervisor import Event, Supervisor

_COLOURS = {
    "ready": "green",
    "role": "bold",
    "settled": "green",
    "died": "bold red",
    "gave up": "bold red",
    "said": "dim",
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 0.5


@click.command(
    epilog="Exit status: 0 after Ctrl-C or an orderly stop of all replicas, 1 if they died or cannot start."
)
@config_argument
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
@click.option("--server", "servers", metavar="NAME", multiple=True, help="Only this server; may be repeated.")
@click.option("--restart", is_flag=True, help="Start a replica that died again, ever less eagerly.")
@click.pass_context
def command(
    ctx: click.Context, config: Path, data: Path | None, servers: tuple[str, ...], restart: bool
) -> None:
    """Run every replica that belongs to this host, one process each, until Ctrl-C.

    One line per event. A replica that dies stays dead, unless --restart is given: its last line says how to
    bring it back by hand.
    """
    import_from_here()
    screen = console()
    dead: set[str] = set()

    def show(event: Event) -> None:
        if event.kind == "died":
            dead.add(event.name)
        elif event.kind == "started":
            dead.discard(event.name)
        line = Text.assemble(f"{event.name} ", (event.text, _COLOURS.get(event.kind, "")))
        try:
            screen.print(line, soft_wrap=True)
        except (OSError, SystemExit):
            # Nobody reads our lines any more: end as by Ctrl-C. (rich makes SystemExit of a broken pipe.)
            asked.set()

    with sentences(), _asked_to_stop() as asked:
        loaded = read_config(config)
        names = [loaded.server(name).name for name in servers] or None
        supervisor = Supervisor(config, data, restart=restart, on_event=show, servers=names)
        try:
            supervisor.start()
            while supervisor.running and not asked.wait(POLL_S):
                pass
        finally:
            supervisor.stop()
    ctx.exit(0 if asked.is_set() or not dead else 1)


@contextmanager
def _asked_to_stop() -> Generator[threading.Event]:
    """Signals set the event, instead of ending the process before the replicas are stopped."""
    asked = threading.Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
