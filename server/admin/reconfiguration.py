"""Reconfiguration of a running cluster by the commands: ask the master for a step, wait until it is made.

A step is asked for again until the cluster has made it, because a change can be lost with the master that
was making it. Asking for a step that is made already changes nothing. While a cluster starts or changes its
master, the command waits.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec

from ...hachannel.protocol.diagnosis import TOO_FEW
from . import wire
from .client import NOT_IN_THE_FILE, ServerAdmin, without_period
from .connection import AdminError, CallFailed, Endpoint, Lost, Unreachable
from .reconfiguration_plan import ReconfigurationStep, SeatStatus, address_conflicts, plan
from .replica_status import check_identity

__all__ = [
    "WAIT_S",
    "ReconfigurationFailed",
    "Reconfigurer",
]

POLL_S = 0.2
ASK_TIMEOUT_S = 5.0
WAIT_S = 10.0
"""Default of the longest wait for a master, in seconds: longer than a start or a failover takes."""
REPORT_AFTER_S = 1.0
"""A step reports what it waits for only after this time: every step takes a change of the view."""
GONE_S = 1.0
"""An added replica that the master has not listed for this time was removed by another command."""


class ReconfigurationFailed(AdminError):
    """The cluster was not reconfigured, or not in time. The text is one sentence."""


class _Cluster(msgspec.Struct, frozen=True):
    """Status of the cluster, as its master reports it."""

    replicas: dict[int, SeatStatus]
    removed: frozenset[int] = frozenset()
    """Ids of former replicas, as far as the master has seen them removed."""


class _NoMaster(Unreachable):
    """No replica is a master that can reconfigure the cluster."""


@attrs.define
class Reconfigurer:
    """Applies reconfiguration steps to one cluster, one at a time. `report` gets lines on the progress."""

    admin: ServerAdmin
    timeout_s: float
    report: Callable[[str], None]
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wait_s: float = WAIT_S
    """Longest time without a master, in seconds."""

    def replicas(self) -> dict[int, SeatStatus]:
        """Return the replicas of the cluster by id, as its master reports them. Raises AdminError."""
        master_wait = _MasterWait(self)
        while True:
            try:
                return self._master()[1].replicas
            except _NoMaster as error:
                master_wait.no_master(error)
            self.sleep(POLL_S)

    def steps(self, wanted: Sequence[ReconfigurationStep]) -> list[ReconfigurationStep]:
        """Return the steps to `wanted`: see `plan`. Raises AdminError, also if addresses conflict."""
        replicas = self.replicas()
        steps = plan(wanted, replicas)
        self._check_addresses(steps, replicas)
        return steps

    def check(self, change: ReconfigurationStep) -> None:
        """Check a later step for address conflicts before an earlier one is applied. Raises AdminError."""
        self._check_addresses([change], self.replicas())

    def apply(self, change: ReconfigurationStep, *, wait: bool = True) -> None:
        """Apply one step; `wait`: until an added replica takes part. Raises AdminError."""
        name = self.admin.server.name
        deadline = self.seconds() + self.timeout_s
        master_wait = _MasterWait(self, f"{change} is not known to be done")
        asked, last_reason, reported = 0, "", False
        waits_since: float | None = None
        while True:
            at_most_s = self.timeout_s
            try:
                master, cluster = self._master()
                master_wait.master_found()
                if change.done(cluster.replicas):
                    if not asked:
                        self._check_known(change, cluster)
                    break
                self._check_addresses([change], cluster.replicas)
                self._ask(master, change)
                asked += 1
                if asked < 3:
                    again = ", for it came to nothing: the master has changed, or another command undid it"
                    self.report(f"{name}: {change}: asked{again if asked > 1 else ''}")
            except CallFailed as error:
                if error.failure.kind not in ("not yet", "not master"):
                    raise ReconfigurationFailed(f"{name}: {change}: {error}") from None
                reason = str(error)
            except _NoMaster as error:
                master_wait.no_master(error)
                reason, at_most_s = str(error), min(self.wait_s, self.timeout_s)
            except (Lost, Unreachable) as error:
                reason = str(error)
            else:
                reason = ""
            if not reason:
                waits_since = None
            elif waits_since is None:
                waits_since = self.seconds()
            elif not reported and self.seconds() - waits_since >= REPORT_AFTER_S:
                self.report(f"{name}: {change}: waits up to {at_most_s:g} s: {without_period(reason)}")
                reported = True
            last_reason = reason or last_reason
            self._poll_again(
                deadline, f"{name}: {change} is not done within {self.timeout_s:g} s: {last_reason}"
            )
        self.report(f"{name}: {change}: {'done' if asked else 'done already'}")
        if change.address is not None and wait:
            self._wait_for(change.replica, deadline)

    def _check_addresses(
        self, changes: Sequence[ReconfigurationStep], replicas: dict[int, SeatStatus]
    ) -> None:
        """Raise ReconfigurationFailed if a step gives a replica the address of another one."""
        taken = address_conflicts(changes, replicas)
        if taken:
            raise ReconfigurationFailed(
                f"{self.admin.server.name}: nothing was changed: {'; '.join(taken)}. Replicas keep their "
                "ids: give a new one an id that was not used before, wherever it stands in the file; to put "
                "it in the place of another one, remove that one first."
            )

    def _check_known(self, change: ReconfigurationStep, cluster: _Cluster) -> None:
        """Raise ReconfigurationFailed if the replica to remove is unknown to file and cluster."""
        declared = {replica.id for replica in self.admin.server.replicas}
        if change.address is None and change.replica not in declared | cluster.removed:
            has = ", ".join(map(str, sorted(cluster.replicas)))
            raise ReconfigurationFailed(
                f"{self.admin.server.name} has no replica {change.replica}, neither running nor in the file; "
                f"it has {has}."
            )

    def _wait_for(self, replica: int, deadline: float) -> None:
        """Wait until a replica is a voter that holds the log."""
        name = self.admin.server.name
        master_wait = _MasterWait(self, f"replica {replica} was added, and is not known to take part")
        reported = advised = False
        missing_since: float | None = None
        while True:
            last_reason = "it does not take part yet"
            try:
                seat = self._master()[1].replicas.get(replica)
                master_wait.master_found()
            except _NoMaster as error:
                master_wait.no_master(error)
                last_reason = str(error)
            except AdminError as error:
                last_reason = str(error)
            else:
                if seat is not None and seat.voter and (seat.member or seat.witness):
                    self.report(f"{name}: replica {replica} takes part")
                    return
                if seat is not None:
                    missing_since = None
                elif missing_since is None:
                    missing_since = self.seconds()
                elif self.seconds() - missing_since > GONE_S:
                    raise ReconfigurationFailed(
                        f"{name}: replica {replica} was added, and somebody has removed it again: "
                        "another command changes this cluster, run one at a time."
                    )
                if not reported or self.seconds() > deadline:
                    last_reason, advice = self._absent(replica)
                    if advice and not advised:
                        last_reason, advised = f"{last_reason}; {advice}", True
                if not reported:
                    self.report(f"{name}: replica {replica}: {last_reason}")
                reported = True
            self._poll_again(
                deadline, f"{name}: replica {replica} was added, and after {self.timeout_s:g} s {last_reason}"
            )

    def _absent(self, replica: int) -> tuple[str, str]:
        """Return why an added replica does not take part yet, and what to do ("" if it runs)."""
        name = self.admin.server.name
        try:
            status = self.admin.ask(replica, wire.Status(), dict[str, Any], ASK_TIMEOUT_S)
        except AdminError:
            command = f"quorate start {self.admin.config.path} --server {name} --replica {replica} --join"
            return "it does not take part yet", f"start it with `{command}`"
        reason = without_period(str(status.get("diagnosis") or status.get("role") or "it has just started"))
        return f"it runs, and does not take part yet: {reason}", ""

    def _poll_again(self, deadline: float, sentence: str) -> None:
        if self.seconds() > deadline:
            raise ReconfigurationFailed(f"{without_period(sentence)}.")
        self.sleep(POLL_S)

    def _ask(self, master: Endpoint, change: ReconfigurationStep) -> None:
        body: wire.Body
        if change.address is None:
            body = wire.Remove(change.replica)
        else:
            body = wire.Admit(change.replica, change.address, change.witness)
        self.admin.ask_at(master, body, bool, ASK_TIMEOUT_S)

    def _master(self) -> tuple[Endpoint, _Cluster]:
        """Find the master, which the file may lack; return it with its status. Raises _NoMaster."""
        reasons: list[str] = []
        blocked = False
        pending = list(self.admin.endpoints)
        for endpoint in pending:
            try:
                status = self.admin.ask_at(endpoint, wire.Status(), dict[str, Any], ASK_TIMEOUT_S)
            except AdminError as error:
                reasons.append(without_period(str(error)))
                continue
            # Another server must not be changed in the place of this one.
            check_identity(self.admin, endpoint, status)
            diagnosis = without_period(str(status.get("diagnosis") or ""))
            alone = diagnosis.startswith(TOO_FEW)
            if not alone if status.get("role") == "master" else status.get("changeable"):
                return endpoint, msgspec.convert(status, _Cluster, strict=False)
            reasons.append(f"{endpoint} is {status.get('role')}{f' ({diagnosis})' if diagnosis else ''}")
            blocked = blocked or alone
            hint = status.get("master_address")
            if hint is not None and self.admin.trusts(hint[0]):
                address = (str(hint[0]), int(hint[1]))
                if address not in [(each.host, each.port) for each in pending]:
                    pending.append(self.admin.endpoint(NOT_IN_THE_FILE, *address))
        if blocked:
            # Without disks there is nothing to begin again from; what to do is among the reasons.
            kept = self.admin.server.durability == "disk"
            lost = "; if one is lost for good, see `quorate replica force-new-cluster --help`" if kept else ""
            reasons.append(f"without a majority nothing can be changed{lost}")
        raise _NoMaster(f"{self.admin.server.name} has no master now: {'; '.join(reasons)}")


class _MasterWait:
    """The time for which a command has been without a master."""

    def __init__(self, reconfigurer: Reconfigurer, undone: str = "") -> None:
        """`undone` says what is not known to be done; "" if nothing was asked yet."""
        self._reconfigurer = reconfigurer
        self._undone = undone
        self._since: float | None = None

    def master_found(self) -> None:
        """Forget the time without a master."""
        self._since = None

    def no_master(self, error: _NoMaster) -> None:
        """Note that there is no master. Raises ReconfigurationFailed when that has lasted too long."""
        reconfigurer = self._reconfigurer
        now, wait_s = reconfigurer.seconds(), reconfigurer.wait_s
        if self._since is None:
            self._since = now
            if not self._undone and wait_s:
                reconfigurer.report(f"{without_period(str(error))}; waits up to {wait_s:g} s for one")
        if now - self._since >= wait_s:
            undone = f"{reconfigurer.admin.server.name}: {self._undone}: " if self._undone else ""
            waited = f"; none came in {wait_s:g} s" if wait_s else ""
            raise ReconfigurationFailed(f"{undone}{without_period(str(error))}{waited}.") from None
