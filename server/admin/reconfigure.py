"""Changing the replicas of a running cluster, as the commands do it: ask the master, wait until it is so.

Each step is asked for again until the cluster has made it: a change that comes to nothing because a master
died is no error, and asking for what is so already changes nothing. A cluster that is just being started, or
changes its master, is waited for.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec

from ...hachannel.protocol.diagnosis import TOO_FEW
from ..config import Replica, Server
from ..network.addresses import place_of, read_place
from . import wire
from .client import (
    NOT_IN_THE_FILE,
    AdminError,
    CallFailed,
    Endpoint,
    Lost,
    ServerAdmin,
    Unreachable,
    bare,
    check_identity,
)

__all__ = [
    "WAIT_S",
    "Change",
    "ChangeFailed",
    "Changer",
    "Seated",
    "addition",
    "declared",
    "plan",
    "taken_places",
]

POLL_S = 0.2
ASK_TIMEOUT_S = 5.0
WAIT_S = 10.0
"""A cluster without a master for so long is given up: longer than a start or a failover takes."""
SAY_AFTER_S = 1.0
"""What a change waits for is told when it has lasted so long: each change takes a change of the view."""
GONE_S = 1.0
"""A replica that was added, and is missing for so long from what the master says, was removed by somebody."""


class ChangeFailed(AdminError):
    """The cluster was not changed, or not in time. The text is one sentence."""


class Seated(msgspec.Struct, frozen=True):
    """What the master says of one replica of the cluster."""

    at: str
    voter: bool
    member: bool
    witness: bool = False
    address: tuple[str, int] | None = None
    """Where it listens in the first of its domains."""


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


def taken_places(changes: Sequence[Change], replicas: dict[int, Seated]) -> list[str]:
    """Which of the changes put a replica where another one of the cluster is, in words; one phrase each.

    That one may run: the ids of replicas that are there were shifted in the file, or an id was replaced by a
    new one. Either way two replicas would be confused.
    """
    found: list[str] = []
    for change in changes:
        place = None if change.place is None else read_place(change.place)
        wanted = set() if place is None else {(host, port) for _, host, port in place.networks}
        found += [
            f"replica {change.replica} is to be at {place}, where replica {id} of the cluster is"
            for id, seated in sorted(replicas.items())
            if id != change.replica and seated.address in wanted
        ]
    return found


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


class _NoMaster(Unreachable):
    """No replica says that it is the master, and can change anything."""


@attrs.define
class Changer:
    """Makes changes of one server, one at a time."""

    admin: ServerAdmin
    timeout_s: float
    say: Callable[[str], None]
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wait_s: float = WAIT_S
    """How long there may be no master."""

    def replicas(self) -> dict[int, Seated]:
        """The replicas of the cluster, as its master says. Raises AdminError."""
        patience = _Patience(self)
        while True:
            try:
                return self._master()[1].replicas
            except _NoMaster as error:
                patience.without_master(error)
            self.sleep(POLL_S)

    def steps(self, wanted: Sequence[Change]) -> list[Change]:
        """What makes the cluster as wanted: see `plan`. Raises AdminError, also when it would be confused."""
        replicas = self.replicas()
        steps = plan(wanted, replicas)
        self._check_places(steps, replicas)
        return steps

    def check(self, change: Change) -> None:
        """See that a change confuses no replicas, before another one is made. Raises AdminError."""
        self._check_places([change], self.replicas())

    def make(self, change: Change, *, wait: bool = True) -> None:
        """Make one change; `wait` until a replica that is added takes part. Raises AdminError."""
        name = self.admin.server.name
        deadline = self.seconds() + self.timeout_s
        patience = _Patience(self, f"{change} is not known to be done")
        asked, said, told = 0, "", False
        waits_since: float | None = None
        while True:
            at_most_s = self.timeout_s
            try:
                master, cluster = self._master()
                patience.renew()
                if change.done(cluster.replicas):
                    if not asked:
                        self._check_known(change, cluster)
                    break
                self._check_places([change], cluster.replicas)
                self._ask(master, change)
                asked += 1
                if asked < 3:
                    again = ", for it came to nothing: the master has changed, or another command undid it"
                    self.say(f"{name}: {change}: asked{again if asked > 1 else ''}")
            except CallFailed as error:
                if error.failure.kind not in ("not yet", "not master"):
                    raise ChangeFailed(f"{name}: {change}: {error}") from None
                reason = str(error)
            except _NoMaster as error:
                patience.without_master(error)
                reason, at_most_s = str(error), min(self.wait_s, self.timeout_s)
            except (Lost, Unreachable) as error:
                reason = str(error)
            else:
                reason = ""
            if not reason:
                waits_since = None
            elif waits_since is None:
                waits_since = self.seconds()
            elif not told and self.seconds() - waits_since >= SAY_AFTER_S:
                self.say(f"{name}: {change}: waits up to {at_most_s:g} s: {bare(reason)}")
                told = True
            said = reason or said
            self._pause(deadline, f"{name}: {change} is not done within {self.timeout_s:g} s: {said}")
        self.say(f"{name}: {change}: {'done' if asked else 'it is so'}")
        if change.place is not None and wait:
            self._wait_for(change.replica, deadline)

    def _check_places(self, changes: Sequence[Change], replicas: dict[int, Seated]) -> None:
        """No replica is to take the place of another one. Raises ChangeFailed."""
        taken = taken_places(changes, replicas)
        if taken:
            raise ChangeFailed(
                f"{self.admin.server.name}: nothing was changed: {'; '.join(taken)}. Replicas keep their "
                "ids: give a new one an id that was not used before, wherever it stands in the file; to put "
                "it in the place of another one, remove that one first."
            )

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
        patience = _Patience(self, f"replica {replica} was added, and is not known to take part")
        told = advised = False
        missing_since: float | None = None
        while True:
            said = "it does not take part yet"
            try:
                seated = self._master()[1].replicas.get(replica)
                patience.renew()
            except _NoMaster as error:
                patience.without_master(error)
                said = str(error)
            except AdminError as error:
                said = str(error)
            else:
                if seated is not None and seated.voter and (seated.member or seated.witness):
                    self.say(f"{name}: replica {replica} takes part")
                    return
                if seated is not None:
                    missing_since = None
                elif missing_since is None:
                    missing_since = self.seconds()
                elif self.seconds() - missing_since > GONE_S:
                    raise ChangeFailed(
                        f"{name}: replica {replica} was added, and somebody has removed it again: "
                        "another command changes this cluster, run one at a time."
                    )
                if not told or self.seconds() > deadline:
                    said, advice = self._absent(replica)
                    if advice and not advised:
                        said, advised = f"{said}; {advice}", True
                if not told:
                    self.say(f"{name}: replica {replica}: {said}")
                told = True
            self._pause(
                deadline, f"{name}: replica {replica} was added, and after {self.timeout_s:g} s {said}"
            )

    def _absent(self, replica: int) -> tuple[str, str]:
        """Why a replica that was added does not take part yet; what to do, "" if it runs."""
        name = self.admin.server.name
        try:
            status = self.admin.ask(replica, wire.Status(), dict[str, Any], ASK_TIMEOUT_S)
        except AdminError:
            command = f"quorate start {self.admin.config.path} --server {name} --replica {replica} --join"
            return "it does not take part yet", f"start it with `{command}`"
        reason = bare(str(status.get("situation") or status.get("role") or "it has just started"))
        return f"it runs, and does not take part yet: {reason}", ""

    def _pause(self, deadline: float, sentence: str) -> None:
        if self.seconds() > deadline:
            raise ChangeFailed(f"{bare(sentence)}.")
        self.sleep(POLL_S)

    def _ask(self, master: Endpoint, change: Change) -> None:
        body: wire.Body
        if change.place is None:
            body = wire.Remove(change.replica)
        else:
            body = wire.Admit(change.replica, change.place, change.witness)
        self.admin.ask_at(master, body, bool, ASK_TIMEOUT_S)

    def _master(self) -> tuple[Endpoint, _Cluster]:
        """The master, which may not be in the file, and what it says of the cluster. Raises _NoMaster."""
        reasons: list[str] = []
        blocked = False
        pending = list(self.admin.endpoints)
        for endpoint in pending:
            try:
                status = self.admin.ask_at(endpoint, wire.Status(), dict[str, Any], ASK_TIMEOUT_S)
            except AdminError as error:
                reasons.append(bare(str(error)))
                continue
            # Another server must not be changed in the place of this one.
            check_identity(self.admin, endpoint, status)
            situation = bare(str(status.get("situation") or ""))
            alone = situation.startswith(TOO_FEW)
            if not alone if status.get("role") == "master" else status.get("changeable"):
                return endpoint, msgspec.convert(status, _Cluster, strict=False)
            reasons.append(f"{endpoint} is {status.get('role')}{f' ({situation})' if situation else ''}")
            blocked = blocked or alone
            hint = status.get("master_address")
            if hint is not None and self.admin.trusts(hint[0]):
                address = (str(hint[0]), int(hint[1]))
                if address not in [(each.host, each.port) for each in pending]:
                    pending.append(Endpoint(NOT_IN_THE_FILE, *address))
        if blocked:
            # Without disks there is nothing to begin again from; what to do is among the reasons.
            kept = self.admin.server.durability == "disk"
            lost = "; if one is lost for good, see `quorate replica force-new-cluster --help`" if kept else ""
            reasons.append(f"without a majority nothing can be changed{lost}")
        raise _NoMaster(f"{self.admin.server.name} has no master now: {'; '.join(reasons)}")


class _Patience:
    """How long a command has been without a master."""

    def __init__(self, changer: Changer, undone: str = "") -> None:
        """`undone` is what is not known to be done."""
        self._changer = changer
        self._undone = undone
        self._since: float | None = None

    def renew(self) -> None:
        """There is one."""
        self._since = None

    def without_master(self, error: _NoMaster) -> None:
        """There is none. Raises ChangeFailed when that has lasted too long."""
        changer = self._changer
        now, wait_s = changer.seconds(), changer.wait_s
        if self._since is None:
            self._since = now
            if not self._undone and wait_s:
                changer.say(f"{bare(str(error))}; waits up to {wait_s:g} s for one")
        if now - self._since >= wait_s:
            undone = f"{changer.admin.server.name}: {self._undone}: " if self._undone else ""
            waited = f"; none came in {wait_s:g} s" if wait_s else ""
            raise ChangeFailed(f"{undone}{bare(str(error))}{waited}.") from None


def describe(seated: Seated) -> str:
    """One replica, for a list."""
    if seated.witness:
        return f"{seated.at}, a witness{'' if seated.voter else ', has not joined'}"
    if seated.member:
        return f"{seated.at}, takes part"
    return f"{seated.at}, {'is a voter and down' if seated.voter else 'has not joined'}"
