"""The status map of a replica."""

import os
import time
from importlib.metadata import version
from typing import Any, Final

from ...hachannel.protocol.diagnosis import strangers
from ..storage.disk_room import disk_room
from .replica import Replica

__all__ = ["build_status"]


RELEASE: Final = version("quorate")


def build_status(replica: Replica) -> dict[str, Any]:
    """Return the map of `AdminTarget.status`, without the digest, which takes longer."""
    node = replica.node
    channel, engine = node.channel, node.engine
    view = channel.view
    voters = {voter.replica for voter in view.config} if view is not None else set[int]()
    context, addresses = replica.context, replica.peers.addresses
    server, declared, metrics = context.server, context.replica, context.metrics
    network = declared.networks[0] if declared.networks else None
    transport, durability = replica.peers.transport, replica.disk.durability
    master_address = replica.master_address()
    room = disk_room(context.directory)
    listeners = {id: list(address) for id, address in addresses.in_domain(nat=False).items()}
    return {
        "server": server.name,
        "server_id": server.id,
        "replica": declared.id,
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
                "at": str(address),
                "address": listeners.get(id),
                "voter": id in voters,
                "member": id in channel.members,
                "witness": id in addresses.witnesses,
            }
            for id, address in addresses.items()
        },
        "agreed": addresses.agreed,
        "removed": sorted(addresses.removed),
        "difference": addresses.difference(),
        "divergence": node.divergence,
        "unfit": channel.standing.unfit,
        "diagnosis": replica.diagnosis(),
        "turned_away": replica.peers.turned_away,
        "strangers": strangers(channel),
        "master_address": list(master_address) if master_address is not None else None,
        "commit": channel.commit,
        "applied": engine.applied,
        "last": channel.last,
        "lag": max(0, channel.commit - engine.applied) if node.unapplied else 0,
        "connections": int(metrics.gauges.get("connections", 0)) if node.posting else 0,
        "network_connections": replica.listeners.connections,
        "peers": transport.connected if transport is not None else [],
        "servers": {
            str(other): {"connected": connection.connected, "waiting": connection.waiting}
            for other, connection in replica.master.networks.outgoing.items()
        },
        "from_servers": replica.master.networks.incoming.connected,
        "notifications": engine.position,
        "reactions": node.reactions,
        "dead_letters": engine.dead_letters,
        "failed_reactions": engine.failures,
        "paused_agents": engine.paused_agents,
        "disk_free_bytes": room.free_bytes if room is not None else None,
        "disk_problem": room.problem(context.directory) if room is not None else "",
        "journal_bytes": room.journal_bytes if room is not None else None,
        "stopped_turn": engine.stopped_turn,
        "backlog": engine.backlog,
        "queued": node.queued_notes,
        "accepting": node.accepting,
        "garbage": metrics.counters.get("garbage", 0),
        "agents": engine.agents,
        "incarnation": replica.incarnations.current,
        "durability": server.durability,
        "saved": durability.saved if durability is not None else None,
        "syncs": durability.writes if durability is not None else None,
        "release": RELEASE,
        "configuration": context.config.digest,
        "settings": context.config.settings_digest(server.id, declared.id),
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - context.started_at, 3),
        "host": network.host if network is not None else declared.host,
        "port": network.port if network is not None else 0,
        "address": [network.host, network.port] if network is not None else None,
        "services_failed": replica.master.failed,
        "services": replica.master.status_lines(),
        "trace_problem": replica.trace.problem,
        "counters": dict(metrics.counters),
        "gauges": dict(metrics.gauges),
    }
