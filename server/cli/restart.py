"""`quorate restart`: restart replicas one after the other, while their servers go on.

Each process stops its replica in order and executes its command anew, so new code is used and whoever has
started it sees the same process. The next one follows when the replica takes part again and has caught up.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import click

from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S, ServerAdmin
from ..admin.connection import AdminError
from ..admin.health import disagreement, is_led, is_whole_mesh
from ..admin.replica_status import ReplicaStatus, gather
from .common import (
    READY_ROLES,
    CommandError,
    Seconds,
    admins,
    any_replica_option,
    any_server_option,
    config_argument,
    read_choice,
    reported_errors,
)
from .output import Printer

RETURN_TIMEOUT_S: Final = 120.0
SETTLE_S: Final = 5.0
POLL_S: Final = 0.2
MAX_BEHIND: Final = 100
"""Entries that a replica may lack, as a server under load is never still."""


@attrs.define
class _Server:
    """One server, while its replicas are restarted."""

    admin: ServerAdmin
    timeout_s: float
    report: Callable[[str], None]

    @property
    def name(self) -> str:
        return self.admin.server.name

    def replicas(self) -> list[ReplicaStatus]:
        """Return the replicas as they are now."""
        return gather([self.admin])[0][1]

    def restart(self, only: int | None) -> None:
        """Restart the replicas, the master last. Raises CommandError, and leaves the others as they are."""
        if len(self.admin.server.replicas) == 1 and self.admin.server.durability == "memory":
            raise CommandError(
                f"{self.name} has one replica and keeps its agents in memory: they would be lost. Give it "
                f'durability="disk", or stop it and start it anew.'
            )
        found = self._whole("is not restarted")
        if problem := disagreement(self.admin.config, found):
            raise CommandError(f"{self.name} is not restarted: {problem}.")
        chosen = [each for each in found if only in (None, each.endpoint.replica)]
        for each in sorted(chosen, key=lambda each: each.role == "master"):
            self._restart_one(each.endpoint.replica)

    def _whole(self, what: str) -> list[ReplicaStatus]:
        """Return the replicas if all of them do what they are there for. Raises CommandError.

        A change of the view that is under way has some seconds to end.
        """
        deadline = time.monotonic() + SETTLE_S
        while True:
            replicas = self.replicas()
            problem = self._problem(replicas)
            if not problem:
                return replicas
            if time.monotonic() > deadline:
                raise CommandError(f"{self.name} {what}: {problem}.")
            time.sleep(POLL_S)

    @staticmethod
    def _problem(replicas: list[ReplicaStatus]) -> str:
        """Return why no replica may be restarted, "" if one may."""
        lacking = [each for each in replicas if each.role not in READY_ROLES]
        if lacking:
            first = min(lacking, key=lambda each: each.status is not None)
            why = f" ({first.reason.rstrip('.')})" if first.reason else ""
            return (
                f"replica {first.endpoint.replica} is {first.role}{why}, and a restart would take one more "
                "copy away; start it before"
            )
        if not _served(replicas):
            return "no master serves; `quorate status` says why"
        return ""

    def _restart_one(self, replica: int) -> None:
        found = self._whole("is not restarted any further")
        before = next(each for each in found if each.endpoint.replica == replica)
        begun = time.monotonic()
        try:
            self.admin.ask_at(before.endpoint, wire.Stop(again=True), type(None), CALL_TIMEOUT_S)
        except AdminError as error:
            raise CommandError(f"{self.name}.{replica} cannot be restarted: {error}") from None
        after = self._back(replica, begun)
        line = f"{self.name}.{replica} restarted, {after.role}, {time.monotonic() - begun:.1f} s"
        if before.role == "master" and after.role != "master":
            line += f"; the master is {self._master(after)} now"
        self.report(line)

    def _back(self, replica: int, begun: float) -> ReplicaStatus:
        """Wait until a replica takes part again, in a life that has begun since, and has what it lacked."""
        while True:
            waited_s = time.monotonic() - begun
            replicas = self.replicas()
            now = next(each for each in replicas if each.endpoint.replica == replica)
            back = now.role in READY_ROLES and _is_new(now, waited_s) and not _behind(now, replicas)
            if back and _served(replicas):
                return now
            if waited_s > self.timeout_s:
                why = now.reason or str((now.status or {}).get("diagnosis") or "") or f"it is {now.role}"
                raise CommandError(
                    f"{self.name}.{replica} is not back within {self.timeout_s:g} s: {why.rstrip('.')}. The "
                    "replicas after it were not restarted. Start it, and restart the others then."
                )
            time.sleep(POLL_S)

    def _master(self, seen_by: ReplicaStatus) -> str:
        return f"{self.name}.{(seen_by.status or {}).get('master')}"


def _served(replicas: list[ReplicaStatus]) -> bool:
    """Return whether a server has a master that all others follow; of a mesh, whether all of it answers."""
    return is_led(replicas) or is_whole_mesh(replicas)


def _is_new(replica: ReplicaStatus, waited_s: float) -> bool:
    """Return whether the process of a replica has started it within a time."""
    status: dict[str, Any] = replica.status or {}
    return bool(status.get("uptime_s", waited_s + 1) < waited_s + POLL_S)


def _behind(replica: ReplicaStatus, replicas: list[ReplicaStatus]) -> bool:
    """Return whether a replica has to catch up with what the master had committed a moment before."""
    status = replica.status or {}
    if "applied" not in status:
        return False
    committed = max(((each.status or {}).get("commit") or 0) for each in replicas)
    return bool(status.get("lag")) and committed - status["applied"] > MAX_BEHIND


@click.command(epilog="Exit status: 0 if all chosen replicas were restarted, 1 otherwise.")
@config_argument
@any_server_option
@any_replica_option
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=Seconds(1),
    default=RETURN_TIMEOUT_S,
    show_default=True,
    help="Longest wait for a replica to take part again.",
)
def command(config: Path, server: str | None, replica: int | None, timeout_s: float) -> None:
    """Restart replicas one after the other, the master last, while the server goes on."""
    printer = Printer("the restart goes on")

    def print_line(line: str) -> None:
        printer(lambda: click.echo(line))

    with reported_errors():
        loaded = read_choice(config, server, replica)
        for admin in admins(loaded, server):
            _Server(admin, timeout_s, print_line).restart(replica)
