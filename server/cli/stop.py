"""`quorate stop`: stop replicas in order.

When a whole cluster with disks is stopped, all its replicas stop after the same entry, so that any majority
of them can start again. Otherwise slaves stop first, while a master still serves.
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
from .common import (
    CommandError,
    admins,
    any_replica_option,
    any_server_option,
    config_argument,
    read_choice,
    reported_errors,
)
from .launcher import STOP_TOGETHER
from .local_hosts import is_local
from .output import Printer

STOP_TIMEOUT_S = 15.0
"""The longest time for all replicas of one wave to stop."""
POLL_S = 0.1
POLL_TIMEOUT_S = 1.0


@attrs.define
class _StopTarget:
    admin: ServerAdmin
    replica: ReplicaStatus
    refusal: str = ""
    """The reason why the replica refuses to be stopped from here; "" if it does not."""
    together: bool = False
    """All replicas of its server stop at the same time."""
    starting: int | None = None
    """The id of its process, when that does not listen yet."""

    @property
    def name(self) -> str:
        return f"{self.admin.server.name}.{self.replica.endpoint.replica}"

    @property
    def leads(self) -> bool:
        """Whether it is the master."""
        return self.replica.role == "master"

    @property
    def down(self) -> bool:
        """Whether there is no process to stop."""
        return self.replica.nobody_there and self.starting is None

    def find_starting(self, data: Path) -> None:
        """Find its process by its data directory, when it does not listen yet."""
        endpoint = self.replica.endpoint
        if self.replica.nobody_there and is_local(endpoint.host):
            self.starting = running_process(data, self.admin.server.name, endpoint.replica)

    def ask(self) -> None:
        """Ask the replica, or its process, to stop."""
        if self.replica.refused:
            self.refusal = self.replica.reason
        elif self.starting is not None:
            # A process that has ended meanwhile is found by `is_down`.
            with contextlib.suppress(OSError):
                os.kill(self.starting, STOP_TOGETHER if self.together else signal.SIGTERM)
        else:
            self._call()

    def _call(self) -> None:
        try:
            self.admin.ask_at(self.replica.endpoint, wire.Stop(self.together), type(None), CALL_TIMEOUT_S)
        except (Lost, Unreachable):
            pass  # It may be stopping already: `is_down` finds out.
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


@click.command(epilog="Exit status: 0 if all chosen replicas are down, 1 otherwise.")
@config_argument
@any_server_option
@any_replica_option
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where to find replicas of this host that do not listen yet. Default: data beside the file.",
)
def command(config: Path, server: str | None, replica: int | None, data: Path | None) -> None:
    """Stop servers in order, and wait until they are down.

    The replicas of a cluster with disks stop together; otherwise slaves stop before the master.
    """
    printer = Printer("the replicas are stopped anyway")

    def print_line(line: str) -> None:
        printer(lambda: click.echo(line))

    with reported_errors():
        loaded = read_choice(config, server, replica)
        asked = admins(loaded, server)
        found = [
            _StopTarget(admin, each)
            for admin, (_, replicas) in zip(asked, gather(asked), strict=True)
            for each in replicas
            if replica in (None, each.endpoint.replica)
        ]
        for stopping in found:
            stopping.find_starting(data or loaded.path.parent / "data")
            if stopping.down:
                print_line(f"{stopping.name} was down: {stopping.replica.reason}")
        running = [each for each in found if not each.down]
        if replica is None:
            _tie(running)
        left = _stop(_ordered([each for each in running if each.together]), print_line)
        apart = [each for each in running if not each.together]
        left += _stop([each for each in apart if not each.leads], print_line)
        left += _stop([each for each in apart if each.leads], print_line)
        late = [each.name for each in left if not each.refusal]
        problems = [f"{each.name}: {each.refusal}" for each in left if each.refusal]
        if late:
            names = ", ".join(late)
            problems.append(f"{names}: still running after {STOP_TIMEOUT_S:g} s; end the process by hand.")
        if problems:
            raise CommandError("\nquorate: ".join(problems))


def _tie(running: list[_StopTarget]) -> None:
    """Mark the replicas that stop together: those of servers with disks, several replicas and a master."""
    for one in running:
        if one.leads and one.admin.server.stops_together:
            for each in running:
                each.together = each.together or each.admin is one.admin


def _ordered(wave: list[_StopTarget]) -> list[_StopTarget]:
    """Order a wave: slaves before the master they wait for, and last the replicas that did not answer."""
    return sorted(wave, key=lambda each: (each.replica.status is None, each.leads))


def _stop(wave: list[_StopTarget], report: Callable[[str], None]) -> list[_StopTarget]:
    """Ask replicas to stop and wait for them; return those that refuse or have not stopped in time."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for each in wave:
        each.ask()
    refused = [each for each in wave if each.refusal]
    left = [each for each in wave if not each.refusal]
    while left:
        still: list[_StopTarget] = []
        for each in left:
            if each.is_down():
                report(f"{each.name} stopped")
            else:
                still.append(each)
        left = still
        if not left or time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return [*refused, *left]
