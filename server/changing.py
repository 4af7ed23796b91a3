"""Changing the replicas of a running cluster, as the commands do it: ask the master, wait until it is so.

Each step is asked for again until the cluster has made it: a change that comes to nothing because a master
died is no error, and asking for what is so already changes nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec

from . import admin_wire as wire
from .admin_client import (
    NOT_IN_THE_FILE,
    AdminError,
    CallFailed,
    Endpoint,
    Lost,
    ServerAdmin,
    Unreachable,
)
from .config import Replica, Server
from .places import place_of, read_place

__all__ = ["Change", "ChangeFailed", "Changer", "Seated", "addition", "declared", "plan"]

POLL_S = 0.2
ASK_TIMEOUT_S = 5.0


class ChangeFailed(AdminError):
    """The cluster was not changed, or not in time. The text is one sentence."""


class Seated(msgspec.Struct, frozen=True):
    """What the master says of one replica of the cluster."""

    at: str
    voter: bool
    member: bool
    witness: bool = False


class _Cluster(msgspec.Struct, frozen=True):
    """What the master says of the cluster."""

    replicas: dict[int, Seated]
    removed: frozenset[int] = frozenset()
    """Replicas that it has had, as far as the master has seen them go."""


@attrs.frozen
class Change:
    """One step."""

    replica: int
    place: bytes | None
    """Where it is to be; None to remove it."""
    witness: bool = False

    def __str__(self) -> str:
        if self.place is None:
            return f"remove replica {self.replica}"
        kind = "witness" if self.witness else "replica"
        return f"add {kind} {self.replica} at {read_place(self.place)}"

    def done(self, replicas: dict[int, Seated]) -> bool:
        """Whether the cluster is so."""
        seated = replicas.get(self.replica)
        if self.place is None:
            return seated is None
        return (
            seated is not None and seated.at == str(read_place(self.place)) and seated.witness == self.witness
        )


def plan(declared: Sequence[Change], replicas: dict[int, Seated]) -> list[Change]:
    """The steps that make the cluster what the file declares: first those that add, so that none is last.

    declared: see `declared`. A witness that is to hold the log, or the other way round, goes and comes again.
    """
    changes: list[Change] = []
    for change in declared:
        seated = replicas.get(change.replica)
        if seated is not None and seated.witness != change.witness:
            changes.append(Change(change.replica, None))
        changes.append(change)
    kept = {change.replica for change in declared}
    changes += [Change(replica, None) for replica in sorted(replicas) if replica not in kept]
    return [change for change in changes if not change.done(replicas)]


def declared(server: Server) -> list[Change]:
    """What adds the replicas of the file, each."""
    return [addition(replica) for replica in sorted(server.replicas, key=lambda each: each.id)]


def addition(replica: Replica) -> Change:
    """What adds a replica of the file."""
    return Change(replica.id, place_of(replica), replica.witness)


@attrs.define
class Changer:
    """Makes changes of one server, one at a time."""

    admin: ServerAdmin
    timeout_s: float
    say: Callable[[str], None]
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def replicas(self) -> dict[int, Seated]:
        """The replicas of the cluster, as its master says. Raises AdminError."""
        return self._master()[1].replicas

    def make(self, change: Change, *, wait: bool = True) -> None:
        """Make one change; `wait` until a replica that is added takes part. Raises AdminError."""
        name = self.admin.server.name
        deadline = self.seconds() + self.timeout_s
        asked, said = False, ""
        while True:
            try:
                master, cluster = self._master()
                if change.done(cluster.replicas):
                    if not asked:
                        self._check_known(change, cluster)
                    break
                self._ask(master, change)
                if not asked:
                    self.say(f"{name}: {change}: asked")
                asked = True
            except CallFailed as error:
                if error.failure.kind not in ("not yet", "not master"):
                    raise
                reason = str(error)
            except (Lost, Unreachable) as error:
                reason = str(error)
            else:
                reason = ""
            if reason and not said:
                self.say(f"{name}: {change}: waits up to {self.timeout_s:g} s: {reason}")
            said = reason or said
            self._pause(deadline, f"{name}: {change} is not done within {self.timeout_s:g} s: {said}")
        self.say(f"{name}: {change}: {'done' if asked else 'it is so'}")
        if change.place is not None and wait:
            self._wait_for(change.replica, deadline)

    def _check_known(self, change: Change, cluster: _Cluster) -> None:
        """A replica that is not there was there once, or is in the file. Raises ChangeFailed."""
        declared = {replica.id for replica in self.admin.server.replicas}
        if change.place is None and change.replica not in declared | cluster.removed:
            has = ", ".join(map(str, sorted(cluster.replicas)))
            raise ChangeFailed(
                f"{self.admin.server.name} has no replica {change.replica}, neither running nor in the file; "
                f"it has {has}."
            )

    def _wait_for(self, replica: int, deadline: float) -> None:
        """Wait until a replica is a voter that holds the log."""
        name = self.admin.server.name
        command = f"quorate start FILE --server {name} --replica {replica}"
        absent = f"it does not take part yet; start it with `{command}`"
        said, told = "", False
        while True:
            try:
                seated = self.replicas().get(replica)
            except AdminError as error:
                said = str(error)
            else:
                if seated is not None and seated.voter and (seated.member or seated.witness):
                    self.say(f"{name}: replica {replica} takes part")
                    return
                said = absent
                if not told:
                    self.say(f"{name}: replica {replica}: {said}")
                told = True
            self._pause(
                deadline, f"{name}: replica {replica} was added, and after {self.timeout_s:g} s {said}"
            )

    def _pause(self, deadline: float, sentence: str) -> None:
        if self.seconds() > deadline:
            raise ChangeFailed(f"{sentence.rstrip(': ')}.")
        self.sleep(POLL_S)

    def _ask(self, master: Endpoint, change: Change) -> None:
        body: wire.Body
        if change.place is None:
            body = wire.Remove(change.replica)
        else:
            body = wire.Admit(change.replica, change.place, change.witness)
        self.admin.ask_at(master, body, bool, ASK_TIMEOUT_S)

    def _master(self) -> tuple[Endpoint, _Cluster]:
        """The master, which may not be in the file, and what it says of the cluster. Raises Unreachable."""
        reasons: list[str] = []
        pending = list(self.admin.endpoints)
        for endpoint in pending:
            try:
                status = self.admin.ask_at(endpoint, wire.Status(), dict[str, Any], ASK_TIMEOUT_S)
            except AdminError as error:
                reasons.append(str(error))
                continue
            if status.get("role") == "master":
                return endpoint, msgspec.convert(status, _Cluster, strict=False)
            reasons.append(f"{endpoint} is {status.get('role')}")
            hint = status.get("master_address")
            if hint is not None and self.admin.trusts(hint[0]):
                address = (str(hint[0]), int(hint[1]))
                if address not in [(each.host, each.port) for each in pending]:
                    pending.append(Endpoint(NOT_IN_THE_FILE, *address))
        raise Unreachable(f"{self.admin.server.name} has no master now: {'; '.join(reasons)}")


def describe(seated: Seated) -> str:
    """One replica, for a list."""
    if seated.witness:
        return f"{seated.at}, a witness{'' if seated.voter else ', has not joined'}"
    if seated.member:
        return f"{seated.at}, takes part"
    return f"{seated.at}, {'is a voter and down' if seated.voter else 'has not joined'}"
