"""`quorate skip`: end a reaction that does not end, on all replicas alike."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from ..admin.client import ServerAdmin
from ..admin.replica_status import gather
from ..config import Config, Replica, Server
from ..storage.data_directory import directory_error, running_process
from ..storage.running_file import INTERRUPT_SIGNAL, RunningReport, read_running
from ..storage.skip_orders import SkipOrder, SkipOrders
from .common import CommandError, WrongArgument, config_argument, read_config, reported_errors, server_option
from .local_hosts import is_local

WAIT_S = 10.0
"""The longest wait for the replicas that run the reaction."""
POLL_S = 0.1


@attrs.frozen
class _LocalReplica:
    """A replica whose directory is on this machine."""

    name: str
    directory: Path
    pid: int | None
    """Its process; None if it does not run."""
    report: RunningReport | None
    """What it says that it runs, or ran when it was killed."""

    def interrupt(self) -> None:
        """Interrupt the reaction, in case that the replica's own thread for that cannot run."""
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, INTERRUPT_SIGNAL)

    def runs(self, order: SkipOrder) -> bool:
        """Return whether its process runs the reaction now, as far as it says."""
        report = read_running(self.directory)
        return (
            self.pid is not None
            and report is not None
            and report.pid == self.pid
            and report.reaction == order
        )


@click.command(epilog="Exit status: 0 if no replica of this machine runs the reaction any more, 1 otherwise.")
@config_argument
@server_option
@click.argument("reaction", metavar="ENTRY")
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
def command(config: Path, server: str, reaction: str, data: Path | None) -> None:
    """Skip the reaction that keeps a server busy in ENTRY, as `quorate status` names it.

    The reaction fails like one that raises: it is undone, and its sender gets an ExceptionNotification. The
    order is written into the directory of each replica on this machine, and holds when the entry is applied
    again. It must be given on every machine that has a replica of the server: the command prints how. ENTRY
    is a number, or ENTRY.POSITION.BIRTH as this command prints it for other machines.
    """
    with reported_errors():
        loaded = read_config(config)
        declared = loaded.server(server)
        here = _local_replicas(declared, data or loaded.path.parent / "data")
        order = _order(loaded, declared, here, reaction)
        for each in here:
            try:
                SkipOrders(each.directory).add(order)
            except OSError as error:
                raise CommandError(directory_error(each.directory, error)) from None
            click.echo(f"{each.name}: entry {order.entry}, reaction {order.position} is to be skipped")
        elsewhere = [each for each in _data_replicas(declared) if not is_local(each.host)]
        for host in sorted({each.host for each in elsewhere}):
            click.echo(
                f"on {host} run, too: quorate skip {click.format_filename(config)} "
                f"--server {declared.name} {order}"
            )
        _wait(here, order)


def _data_replicas(server: Server) -> list[Replica]:
    return [each for each in server.replicas if not each.witness]


def _local_replicas(server: Server, data: Path) -> list[_LocalReplica]:
    """Return the replicas that have a directory here. Raises CommandError if none has one."""
    found: list[_LocalReplica] = []
    for each in _data_replicas(server):
        directory = data / server.name / str(each.id)
        if is_local(each.host) and directory.is_dir():
            pid, report = running_process(data, server.name, each.id), read_running(directory)
            if report is not None and pid is not None and report.pid != pid:
                report = None
            found.append(_LocalReplica(f"{server.name}.{each.id}", directory, pid, report))
    if not found:
        raise CommandError(
            f"No replica of {server.name} has a directory in {data} on this machine: run the command where "
            "one runs, or give its directory with --data."
        )
    return found


def _order(config: Config, server: Server, here: Sequence[_LocalReplica], text: str) -> SkipOrder:
    """Return the order that the user means. Raises CommandError."""
    if "." in text:
        try:
            return SkipOrder.parse(text)
        except ValueError as error:
            raise WrongArgument(f"{error}.") from None
    if not (text.isascii() and text.isdigit()):
        raise WrongArgument(f"{text!r} is not the number of an entry; `quorate status` names it.")
    entry = int(text)
    reports = [each.report for each in here if each.report is not None]
    named = sorted({each.reaction for each in reports if each.entry == entry and each.reaction is not None})
    if not named:
        raise CommandError(_nothing_runs(entry, here))
    if len(named) > 1:
        texts = ", ".join(map(str, named))
        raise CommandError(f"Entry {entry} is at several reactions: give one of {texts} in its place.")
    passed = [
        f"{server.name}.{each.endpoint.replica}"
        for _, replicas in gather([ServerAdmin(config, server)])
        for each in replicas
        if each.status is not None and int(each.status.get("applied") or 0) >= entry
    ]
    if passed:
        raise CommandError(
            f"{', '.join(passed)} has applied entry {entry} already: the reaction ends, so wait for the "
            f"others. If it was skipped there, give {named[0]} in place of {entry}."
        )
    return named[0]


def _nothing_runs(entry: int, here: Sequence[_LocalReplica]) -> str:
    names = ", ".join(each.name for each in here)
    others = [f"{each.name}: {each.report.sentence}" for each in here if each.report is not None]
    seen = f" They say: {'; '.join(others)}." if others else ""
    return (
        f"None of {names} says that it runs a reaction of entry {entry}.{seen} If a replica on another "
        "machine does, run the command there first: it prints what to give here."
    )


def _wait(here: Sequence[_LocalReplica], order: SkipOrder) -> None:
    """Wait until no replica of this machine runs the reaction. Raises CommandError after WAIT_S."""
    left = [each for each in here if each.runs(order)]
    for each in left:
        each.interrupt()
    deadline = time.monotonic() + WAIT_S
    while left:
        still = [each for each in left if each.runs(order)]
        for each in left:
            if each not in still:
                click.echo(f"{each.name} goes on")
        left = still
        if left and time.monotonic() > deadline:
            pids = " ".join(str(each.pid) for each in left)
            raise CommandError(
                f"{', '.join(each.name for each in left)}: the reaction did not end within {WAIT_S:g} s. It "
                "catches what interrupts it, or is in code that is not Python's. Kill the process "
                f"(kill -9 {pids}) and start it again: the reaction is then skipped without being run."
            )
        if left:
            time.sleep(POLL_S)
