"""The status of every replica of every server, asked for all at once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from ..config import Server
from ..storage.running_file import RunningReport
from . import wire
from .client import NOT_IN_THE_FILE, ServerAdmin
from .connection import AdminError, Endpoint, Lost, Silent, Unreachable

__all__ = [
    "NO_ANSWER",
    "PARALLEL_STATUS",
    "STATUS_TIMEOUT_S",
    "ReplicaStatus",
    "as_agreed",
    "check_identity",
    "gather",
    "nobody_there",
]


STATUS_TIMEOUT_S = 2.0
NO_ANSWER = "runs, does not answer"
"""The role of a replica whose process is on this machine and does not answer."""


PARALLEL_STATUS = 32


def _all_endpoints(admin: ServerAdmin) -> list[Endpoint]:
    """Return the endpoint of every replica; port 0 for one that declares no network."""
    known = {endpoint.replica: endpoint for endpoint in admin.endpoints}
    return [known.get(each.id) or admin.endpoint(each.id, each.host, 0) for each in admin.server.replicas]


def nobody_there(error: AdminError) -> bool:
    """Return whether no connection could be made, as against one whose other side does not answer well."""
    return isinstance(error, Unreachable) and not isinstance(error, Silent)


@attrs.frozen
class ReplicaStatus:
    """The status of one replica, or the reason why there is none."""

    endpoint: Endpoint
    status: dict[str, Any] | None
    reason: str = ""
    nobody_there: bool = False
    """Whether no connection could be made."""
    refused: bool = False
    """Whether it refused administration from this host, or is another replica than expected."""
    pid: int | None = None
    """A process of this machine that runs the replica and does not answer."""
    running: RunningReport | None = None
    """What that process says that it runs."""

    @property
    def role(self) -> str:
        """The reported role; "down" or NO_ANSWER without an answer, "refused" when it refused to answer."""
        if self.status is None:
            if self.pid is not None:
                return NO_ANSWER
            return "refused" if self.refused else "down"
        return str(self.status.get("role", "unknown"))

    @property
    def in_charge(self) -> bool:
        """Whether it is the master and reports nothing that keeps it from serving."""
        return self.role == "master" and not (self.status or {}).get("diagnosis")


def gather(
    admins: Sequence[ServerAdmin], timeout_s: float = STATUS_TIMEOUT_S
) -> list[tuple[Server, list[ReplicaStatus]]]:
    """Ask every replica of every server for its status, all at the same time.

    Replicas that a cluster has and the file lacks are asked too, and come last. A replica that cannot be
    connected to at the address in the file is asked at the address that the cluster has.
    """

    def one(admin: ServerAdmin, endpoint: Endpoint) -> ReplicaStatus:
        try:
            if not endpoint.port:
                raise Unreachable(
                    f"{admin.server.name}.{endpoint.replica} declares no network to be asked on."
                )
            status = admin.ask_at(endpoint, wire.Status(), dict[str, Any], timeout_s)
            check_identity(admin, endpoint, status)
        except AdminError as error:
            refused = not isinstance(error, (Unreachable, Lost))
            return ReplicaStatus(endpoint, None, str(error), nobody_there(error), refused)
        return ReplicaStatus(endpoint, status)

    def every(pool: ThreadPoolExecutor, wanted: Sequence[list[Endpoint]]) -> list[list[ReplicaStatus]]:
        asked = [
            [pool.submit(one, admin, endpoint) for endpoint in endpoints]
            for admin, endpoints in zip(admins, wanted, strict=True)
        ]
        return [[future.result() for future in futures] for futures in asked]

    with ThreadPoolExecutor(max_workers=PARALLEL_STATUS) as pool:
        found = every(pool, [_all_endpoints(admin) for admin in admins])
        more = every(pool, [_beyond(admin, all) for admin, all in zip(admins, found, strict=True)])
        return [(admin.server, _merged(a, b)) for admin, a, b in zip(admins, found, more, strict=True)]


def _merged(first: list[ReplicaStatus], more: list[ReplicaStatus]) -> list[ReplicaStatus]:
    """Return `first`, replaced by what was found at other addresses; then the replicas only `more` has."""
    elsewhere = {each.endpoint.replica: each for each in more if not each.nobody_there}
    known = {each.endpoint.replica for each in first}
    there = [elsewhere.get(each.endpoint.replica, each) for each in first]
    return [*there, *(each for each in more if each.endpoint.replica not in known)]


def check_identity(admin: ServerAdmin, endpoint: Endpoint, status: dict[str, Any]) -> None:
    """Check that a status belongs to the replica that the file has at `endpoint`. Raises AdminError."""
    server, replica = admin.server, endpoint.replica
    reported = status.get("server", server.name), status.get("replica", replica)
    if reported[0] != server.name or (reported[1] != replica and replica != NOT_IN_THE_FILE):
        named = server.name if replica == NOT_IN_THE_FILE else f"{server.name}.{replica}"
        raise AdminError(
            f"{endpoint} is {reported[0]}.{reported[1]}, not {named}: correct the ids and the ports in the "
            "file."
        )
    runs_as = status.get("server_id", server.id)
    if runs_as != server.id:
        raise AdminError(
            f"{endpoint} runs as {server.name} with id {runs_as}, and the file says id {server.id}: a server "
            "keeps its id; correct the file."
        )


def as_agreed(statuses: Sequence[ReplicaStatus]) -> dict[int, dict[str, Any]]:
    """Return the replicas of the cluster by id, as the replica of the latest view has them; {} if unknown."""
    agreed = [each.status for each in statuses if each.status is not None and each.status.get("agreed")]
    if not agreed:
        return {}
    latest = max(agreed, key=lambda status: (status.get("role") == "master", status.get("view", 0)))
    return {int(id): seated for id, seated in latest.get("replicas", {}).items()}


def _beyond(admin: ServerAdmin, statuses: Sequence[ReplicaStatus]) -> list[Endpoint]:
    """Return trusted endpoints of the cluster that the file lacks."""
    found: list[Endpoint] = []
    heard = {each.endpoint.replica for each in statuses if not each.nobody_there}
    asked = {(each.endpoint.replica, each.endpoint.host, each.endpoint.port) for each in statuses}
    for id, seated in sorted(as_agreed(statuses).items()):
        address = seated.get("address")
        if id in heard or not address or not admin.trusts(address[0]):
            continue
        if (id, *address) not in asked:
            found.append(admin.endpoint(id, str(address[0]), int(address[1])))
    return found
