"""Judgements on servers, from the statuses of their replicas. Pure."""

from collections.abc import Sequence
from typing import Any

from ..config import Config, Server
from ..network.addresses import decode_address, describe_replica, differences, encode_address
from .replica_status import ReplicaStatus, as_agreed

__all__ = [
    "cluster_conflict",
    "differences_from_file",
    "disagreement",
    "is_down",
    "is_led",
    "is_whole_mesh",
    "masters",
    "may_get_a_master",
    "outdated",
    "problems",
    "releases",
    "statuses_object",
]


def masters(replicas: list[ReplicaStatus]) -> list[int]:
    """Return the ids of the replicas that report to be the master: one, unless something is wrong."""
    return [replica.endpoint.replica for replica in replicas if replica.role == "master"]


def _strays(replicas: list[ReplicaStatus]) -> list[int]:
    """Return the ids of slaves of another cluster: no reported master is a member of their view."""
    led = set(masters(replicas))
    return [
        each.endpoint.replica
        for each in replicas
        if led and each.role == "slave" and led.isdisjoint((each.status or {}).get("members") or led)
    ]


def is_led(replicas: list[ReplicaStatus]) -> bool:
    """Return whether exactly one replica is the master, it can serve, and all slaves are in its cluster."""
    led = len(masters(replicas)) == 1 and any(each.in_charge for each in replicas)
    return led and not _strays(replicas)


def is_whole_mesh(replicas: list[ReplicaStatus]) -> bool:
    """Return whether these are daemons of a mesh, and all of them answer: a mesh has no master."""
    return all(each.role == "daemon" for each in replicas)


def may_get_a_master(replicas: list[ReplicaStatus]) -> bool:
    """Return whether no master serves, and a replica may still become one that does."""
    led = any(each.in_charge or each.role == "daemon" for each in replicas)
    return not led and any(each.endpoint.port and not each.refused for each in replicas)


def is_down(replicas: list[ReplicaStatus]) -> bool:
    """Return whether no replica could be connected to."""
    return all(each.nobody_there for each in replicas)


def cluster_conflict(replicas: list[ReplicaStatus]) -> str:
    """Say that the replicas are in different clusters, and what to do; "" if nothing shows that."""
    led = masters(replicas)
    if len(led) > 1:
        return (
            f"replicas {_listed(led)} are all master: there are several clusters, which are not connected. "
            "If one was begun again by `quorate replica force-new-cluster`, stop the others and remove their "
            "directories"
        )
    if strays := _strays(replicas):
        return (
            f"master {_listed(led)} and replica {_listed(strays)} are in different clusters. If new replicas "
            "have founded one of their own, stop them, remove their directories and start them with "
            "`quorate start --join`"
        )
    return ""


def releases(replicas: list[ReplicaStatus]) -> str:
    """Say that the replicas run different releases of Quorate, as during an upgrade; "" if they do not."""
    found: dict[str, list[int]] = {}
    for each in replicas:
        release = str((each.status or {}).get("release") or "")
        if release:
            found.setdefault(release, []).append(each.endpoint.replica)
    if len(found) < 2:
        return ""
    listed = ", ".join(f"{release} ({_listed(ids)})" for release, ids in sorted(found.items()))
    return f"its replicas run different releases: {listed}; restart the others with the new one"


def outdated(config: Config, server: Server, replicas: list[ReplicaStatus]) -> str:
    """Say that replicas run with other properties than the file has now, and what to do; "" if none does."""
    old: list[int] = []
    for each in replicas:
        id, running = each.endpoint.replica, (each.status or {}).get("settings")
        if running and id in server.replica_ids and running != config.settings_digest(server.id, id):
            old.append(id)
    if not old:
        return ""
    who = f"replica {old[0]} runs" if len(old) == 1 else f"replicas {_listed(old)} run"
    return f"{who} with other properties than the file has now; `quorate restart` applies it"


def disagreement(config: Config, replicas: list[ReplicaStatus]) -> str:
    """Say that running replicas and the file differ in what all must agree on; "" if nothing shows that."""
    running = {str((each.status or {}).get("configuration") or config.digest) for each in replicas}
    if running == {config.digest}:
        return ""
    return (
        "the file differs from that of the running replicas in what all must agree on, so they would turn a "
        "restarted one away; stop all and start all with it, or undo the change"
    )


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


def differences_from_file(server: Server, replicas: list[ReplicaStatus]) -> list[str] | None:
    """Return a phrase for each difference between the running cluster and the file; None if unknown."""
    cluster = as_agreed(replicas) if server.clustered else {}
    if not cluster:
        return None
    declared = {
        each.id: describe_replica(decode_address(encode_address(each)), each.witness)
        for each in server.replicas
    }
    return differences(
        declared,
        {
            id: describe_replica(seated.get("at"), bool(seated.get("witness")))
            for id, seated in cluster.items()
        },
    )


def problems(replica: ReplicaStatus, *, same_file: bool = False) -> list[str]:
    """Return a sentence for each problem that a replica reports.

    `same_file`: the file of this command agrees with the cluster. Then it does not matter that the replica
    was started with another one.
    """
    if replica.refused:
        return [replica.reason]
    values = replica.status or {}
    failed: dict[str, str] = values.get("services_failed") or {}
    found = [f"the service {service} cannot start: {reason}" for service, reason in failed.items()]
    for key in ("diagnosis", "strangers") if same_file else ("diagnosis", "strangers", "difference"):
        problem = str(values.get(key) or "")
        if problem and not any(problem in line for line in found):
            found.append(problem)
    if values.get("disk_problem"):
        found.append(str(values["disk_problem"]))
    if values.get("divergence"):
        found.append(f"last difference: {values['divergence']}")
    if values.get("stopped_turn") and values.get("role") == "master":
        found.append(f"last stopped turn, in {values['stopped_turn']}")
    if values.get("turned_away") and not values.get("diagnosis"):
        found.append(str(values["turned_away"]))
    if values.get("waits_for") and not values.get("diagnosis"):
        found.append(f"its services wait for {values['waits_for']}")
    if values.get("trace_problem"):
        found.append(f"trace: {values['trace_problem']}")
    return found


def statuses_object(statuses: Sequence[tuple[Server, list[ReplicaStatus]]]) -> dict[str, Any]:
    """Return statuses in values that JSON has, as `quorate status --json` prints them."""
    return {
        "servers": [
            {
                "server": server.name,
                "id": server.id,
                "differences": differences_from_file(server, replicas) or [],
                "replicas": [_replica_object(replica) for replica in replicas],
            }
            for server, replicas in statuses
        ]
    }


def _replica_object(replica: ReplicaStatus) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "replica": replica.endpoint.replica,
        "role": replica.role,
        "host": replica.endpoint.host,
        "port": replica.endpoint.port,
    }
    if replica.status is None:
        if replica.pid is not None:
            fixed |= {"pid": replica.pid, "running": replica.running}
        return {**fixed, "reason": replica.reason}
    return {**replica.status, **fixed}
