"""Changing the replicas of a running cluster, as the commands do it: ask the master, wait until it is so.

Each step is asked for again until the cluster has made it: a change that comes to nothing because a master
died is no error, and asking for what is so already changes nothing.
"""

import time
from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from . import admin_wire as wire
from .admin_client import AdminError, CallFailed, Endpoint, Lost, ServerAdmin, Unreachable
from .places import place_of, read_place

__all__ = ["Change", "ChangeFailed", "Changer", "Seated", "plan"]

POLL_S = 0.2
ASK_TIMEOUT_S = 5.0


class ChangeFailed(AdminError):
    """The cluster was not changed, or not in time. The text is one sentence."""


class Seated(msgspec.Struct, frozen=True):
    """What the master says of one replica of the cluster."""

    at: str
    voter: bool
    member: bool


@attrs.frozen
class Change:
    """One step."""

    replica: int
    place: bytes | None
    """Where it is to be; None to remove it."""

    def __str__(self) -> str:
        if self.place is None:
            return f"remove replica {self.replica}"
        return f"add replica {self.replica} at {read_place(self.place)}"

    def done(self, replicas: dict[int, Seated]) -> bool:
        """Whether the cluster is so."""
        seated = replicas.get(self.replica)
        if self.place is None:
            return seated is None
        return seated is not None and seated.at == str(read_place(self.place))


def plan(declared: dict[int, bytes], replicas: dict[int, Seated]) -> list[Change]:
    """The steps that make the cluster what the file declares: first those that add, so that none is last."""
    changes = [Change(replica, place) for replica, place in sorted(declared.items())]
    changes += [Change(replica, None) for replica in sorted(replicas) if replica not in declared]
    return [change for change in changes if not change.done(replicas)]


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
        return self._master()[1]

    def declared(self) -> dict[int, bytes]:
        """The replicas of the file."""
        return {replica.id: place_of(replica) for replica in self.admin.server.replicas}

    def make(self, change: Change, *, wait: bool = True) -> None:
        """Make one change; `wait` until a replica that is added takes part. Raises AdminError."""
        name = self.admin.server.name
        deadline = self.seconds() + self.timeout_s
        asked, said = False, ""
        while True:
            try:
                master, replicas = self._master()
                if change.done(replicas):
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

    def _wait_for(self, replica: int, deadline: float) -> None:
        """Wait until a replica is a voter that holds the log."""
        name = self.admin.server.name
        said = ""
        while True:
            try:
                seated = self.replicas().get(replica)
            except AdminError as error:
                said = str(error)
            else:
                if seated is not None and seated.voter and seated.member:
                    self.say(f"{name}: replica {replica} takes part")
                    return
                if not said:
                    said = (
                        "it does not take part yet; start it with "
                        f"`quorate start FILE --server {name} --replica {replica}`"
                    )
                    self.say(f"{name}: replica {replica}: {said}")
            self._pause(
                deadline, f"{name}: replica {replica} was added, and after {self.timeout_s:g} s {said}"
            )

    def _pause(self, deadline: float, sentence: str) -> None:
        if self.seconds() > deadline:
            raise ChangeFailed(f"{sentence.rstrip(': ')}.")
        self.sleep(POLL_S)

    def _ask(self, master: Endpoint, change: Change) -> None:
        body: wire.Body = (
            wire.Remove(change.replica) if change.place is None else wire.Admit(change.replica, change.place)
        )
        self.admin.ask_at(master, body, bool, ASK_TIMEOUT_S)

    def _master(self) -> tuple[Endpoint, dict[int, Seated]]:
        """The master, which may not be in the file, and what it says of the replicas. Raises Unreachable."""
        reasons: list[str] = []
        pending = list(self.admin.endpoints)
        for endpoint in pending:
            try:
                status = self.admin.ask_at(endpoint, wire.Status(), dict[str, Any], ASK_TIMEOUT_S)
            except AdminError as error:
                reasons.append(str(error))
                continue
            if status.get("role") == "master":
                return endpoint, msgspec.convert(status["replicas"], dict[int, Seated], strict=False)
            reasons.append(f"{endpoint} is {status.get('role')}")
            hint = status.get("master_address")
            if hint is not None and self._trusted(hint[0]):
                address = (str(hint[0]), int(hint[1]))
                if address not in [(each.host, each.port) for each in pending]:
                    pending.append(Endpoint(-1, *address))
        raise Unreachable(f"{self.admin.server.name} has no master now: {'; '.join(reasons)}")

    def _trusted(self, host: object) -> bool:
        """Whether to believe in a master that the file lacks: it proves the secret, or its host is known."""
        hosts = [replica.host for replica in self.admin.server.replicas]
        first = self.admin.server.replicas[0].id
        secret = self.admin.config.setting("secret", server=self.admin.server.name, replica=first)
        return secret is not None or host in hosts


def describe(seated: Seated) -> str:
    """One replica, for a list."""
    if seated.member:
        return f"{seated.at}, takes part"
    return f"{seated.at}, {'is a voter and down' if seated.voter else 'has not joined'}"
