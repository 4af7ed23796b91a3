"""The status map of a replica."""

import os
import time
from typing import Any

from ...hachannel.protocol.diagnosis import strangers
from .replica import Replica

__all__ = ["build_status"]


def build_status(replica: Replica) -> dict[str, Any]:
    """Return the map of `AdminTarget.status`, without the digest, which takes longer."""
    node = replica.node
    channel, engine = node.channel, node.engine
    view = channel.view
    voters = {voter.replica for voter in view.config} if view is not None else set[int]()
    network = replica.replica.networks[0] if replica.replica.networks else None
    metrics = replica.metrics
    master_address = replica.master_address()
    listeners = {id: list(address) for id, address in replica.addresses.in_domain(nat=False).items()}
    return {
        "server": replica.server.name,
        "server_id": replica.server.id,
        "replica": replica.replica.id,
        "role": node.role,
        "serving": node.serving,
        "waits_for": node.waits_for,
        "view": view.number.counter if view is not None else 0,
        "members": list(channel.members),
        "master": channel.master,
        # True also for a master that serves no clients because it has too few copies.
        "changeable": channel.standing.may_change,
        "replicas": {
            str(id): {
                "at": str(place),
                "address": listeners.get(id),
                "voter": id in voters,
                "member": id in channel.members,
                "witness": id in replica.addresses.witnesses,
            }
            for id, place in replica.addresses.items()
        },
        "agreed": replica.addresses.agreed,
        "removed": sorted(replica.addresses.removed),
        "difference": replica.addresses.difference(),
        "diagnosis": replica.diagnosis(),
        "turned_away": replica.peers.turned_away,
        "strangers": strangers(channel),
        "master_address": list(master_address) if master_address is not None else None,
        "commit": channel.commit,
        "applied": engine.applied,
        "last": channel.last,
        "lag": max(0, channel.commit - engine.applied) if node.unapplied else 0,
        "connections": int(metrics.gauges.get("connections", 0)) if node.serving else 0,
        "network_connections": replica.connections,
        "peers": replica.transport.connected if replica.transport is not None else [],
        "servers": {
            str(server): {"connected": way.connected, "waiting": way.waiting}
            for server, way in replica.master.outgoing.items()
        },
        "from_servers": replica.master.incoming.connected,
        "notifications": engine.position,
        "reactions": node.reactions,
        "dead_letters": engine.dead_letters,
        "backlog": engine.backlog,
        "queued": node.queued_notes,
        "accepting": node.accepting,
        "garbage": metrics.counters.get("garbage", 0),
        "agents": sum(1 for _ in engine.cells()),
        "incarnation": replica.incarnation,
        "durability": replica.server.durability,
        "saved": replica.durability.saved if replica.durability is not None else None,
        "syncs": replica.durability.writes if replica.durability is not None else None,
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - replica.started_at, 3),
        "host": network.host if network is not None else replica.replica.host,
        "port": network.port if network is not None else 0,
        "address": [network.host, network.port] if network is not None else None,
        "services_failed": replica.master.services.failed,
        "trace_problem": replica.trace.problem,
        "counters": dict(metrics.counters),
        "gauges": dict(metrics.gauges),
    }
