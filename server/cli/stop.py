"""`quorate stop`: an orderly end.

A cluster with disks that is stopped as a whole stops after one entry, so that any majority of it may begin
again. Otherwise slaves stop first: they leave a master that goes on.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import click

from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S, ServerAdmin
from ..admin.connection import AdminError, Lost, Unreachable
from ..admin.replica_status import ReplicaStatus, gather, nobody_there
from ..storage.data_directory import running_process
from .common import CommandError, admins, config_argument, read_config, replica_id, reported_errors
from .launcher import STOP_TOGETHER
from .local_hosts import is_local
from .output import Printer

STOP_TIMEOUT_S = 15.0
"""How long all replicas of one wave may take to be down."""
POLL_S = 0.1
POLL_TIMEOUT_S = 1.0


@attrs.define
class _StopTarget:
    admin: ServerAdmin
    replica: ReplicaStatus
    refusal: str = ""
    """Why it does not let itself be stopped from here."""
    together: bool = False
    """With all others of its server."""
    starting: int | None = None
    """Its process, which does not listen yet."""

    @property
    def name(self) -> str:
        return f"{self.admin.server.name}.{self.replica.endpoint.replica}"

    @property
    def leads(self) -> bool:
        """It is the master."""
        return self.replica.role == "master"

    @property
    def down(self) -> bool:
        """There is nothing to stop."""
        return self.replica.nobody_there and self.starting is None

    def look(self, data: Path) -> None:
        """Whether it is about to start, with its directory there."""
        endpoint = self.replica.endpoint
        if self.replica.nobody_there and is_local(endpoint.host):
            self.starting = running_process(data, self.admin.server.name, endpoint.replica)

    def ask(self) -> None:
        if self.replica.refused:
            self.refusal = self.replica.reason
        elif self.starting is not None:
            # Whether it is down is seen afterwards.
            with contextlib.suppress(OSError):
                os.kill(self.starting, STOP_TOGETHER if self.together else signal.SIGTERM)
        else:
            self._call()

    def _call(self) -> None:
        try:
            self.admin.ask_at(self.replica.endpoint, wire.Stop(self.together), type(None), CALL_TIMEOUT_S)
        except (Lost, Unreachable):
            pass  # The same.
        except AdminError as error:
            self.refusal = str(error)

    def is_down(self) -> bool:
        return not self._answers() and not self._process_lives()

    def _answers(self) -> bool:
        try:
            self.admin.ask_at(self.replica.endpoint, wire.Status(), dict, POLL_TIMEOUT_S)
        except AdminError as error:
            return not nobody_there(error)
        return True

    def _process_lives(self) -> bool:
        pid = self.starting or (self.replica.status or {}).get("pid")
        if not isinstance(pid, int) or pid <= 0 or not is_local(self.replica.endpoint.host):
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether the process has ended and only waits for its parent to notice."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[:1] == [b"Z"]


@click.command(epilog="Exit status: 0 if all that was to stop is down, 1 otherwise.")
@config_argument
@click.option("--server", metavar="NAME", help="Only this server (name or id).")
@click.option("--replica", metavar="ID", callback=replica_id, help="Only this replica of --server.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where replicas of this host are found that do not listen yet. Default: data beside the file.",
)
def command(config: Path, server: str | None, replica: int | None, data: Path | None) -> None:
    """Stop servers in order, and wait until they are down.

    The replicas of a cluster with disks stop together; of another one, slaves before the master.
    """
    printer = Printer("what was asked to stop is stopped")

    def say(line: str) -> None:
        printer(lambda: click.echo(line))

    with reported_errors():
        loaded = read_config(config)
        if replica is not None:
            if server is None:
                raise click.UsageError("--replica needs --server.")
            loaded.replica(server, replica)
        asked = admins(loaded, server)
        found = [
            _StopTarget(admin, each)
            for admin, (_, replicas) in zip(asked, gather(asked), strict=True)
            for each in replicas
            if replica in (None, each.endpoint.replica)
        ]
        for stopping in found:
            stopping.look(data or loaded.path.parent / "data")
            if stopping.down:
                say(f"{stopping.name} was down: {stopping.replica.reason}")
        running = [each for each in found if not each.down]
        if replica is None:
            _tie(running)
        left = _stop(_ordered([each for each in running if each.together]), say)
        apart = [each for each in running if not each.together]
        left += _stop([each for each in apart if not each.leads], say)
        left += _stop([each for each in apart if each.leads], say)
        late = [each.name for each in left if not each.refusal]
        said = [f"{each.name}: {each.refusal}" for each in left if each.refusal]
        if late:
            names = ", ".join(late)
            said.append(f"{names}: still running after {STOP_TIMEOUT_S:g} s; end the process by hand.")
        if said:
            raise CommandError("\nquorate: ".join(said))


def _tie(running: list[_StopTarget]) -> None:
    """Let the replicas of each server stop together that has disks, a master, and others."""
    for one in running:
        if one.leads and one.admin.server.stops_together:
            for each in running:
                each.together = each.together or each.admin is one.admin


def _ordered(wave: list[_StopTarget]) -> list[_StopTarget]:
    """Slaves before the master, for which they wait, and last those that may be long in answering."""
    return sorted(wave, key=lambda each: (each.replica.status is None, each.leads))


def _stop(wave: list[_StopTarget], say: Callable[[str], None]) -> list[_StopTarget]:
    """Ask replicas to stop and wait until they have; return those that refuse, and that have not in time."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for each in wave:
        each.ask()
    refused = [each for each in wave if each.refusal]
    left = [each for each in wave if not each.refusal]
    while left:
        still: list[_StopTarget] = []
        for each in left:
            if each.is_down():
                say(f"{each.name} stopped")
            else:
                still.append(each)
        left = still
        if not left or time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return [*refused, *left]
