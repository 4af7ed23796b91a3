"""What a replica is and does, as metrics for Prometheus. Pure: it takes the map of `AdminTarget.status`.

All names begin with ``quorate_``, all metrics have the labels ``server`` and ``replica``. Counters end with
``_total``; units are in the names.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from .figures import DestinationFigures

__all__ = ["exposition"]

ROLES: Final = ("master", "slave", "witness", "joining", "changing", "blocked", "daemon")
PREFIX: Final = "quorate_"

_GAUGES: Final = {
    "view": ("view", "Number of the view that the replica is in."),
    "commit": ("commit_index", "Index of the last entry that the replica knows to be committed."),
    "applied": ("applied_index", "Index of the last entry that the replica has applied."),
    "lag": ("lag_entries", "Committed entries that the replica has not applied yet."),
    "connections": ("client_connections", "Connections of clients."),
    "network_connections": ("network_connections", "Connections of replicas, servers and administrators."),
    "agents": ("agents", "Agents of the server."),
    "backlog": ("backlog_notifications", "Notifications that wait for other servers."),
    "queued": ("queued_notifications", "Notifications that wait at the master to be ordered."),
    "paused_agents": ("paused_agents", "Agents that are paused."),
    "disk_free_bytes": ("disk_free_bytes", "Bytes that are free on the disk of the replica."),
    "journal_bytes": ("journal_bytes", "Bytes of the journal with the saved state."),
    "uptime_s": ("uptime_seconds", "Seconds since the replica was started."),
}
_COUNTERS: Final = {
    "notifications": (
        "notifications",
        "Reactions of the server since it was created.",
    ),
    "reactions": ("reactions", "Reactions that this process has run."),
    "failed_reactions": ("failed_reactions", "Reactions that this process has seen fail."),
    "dead_letters": ("dead_letters", "Notifications that could be delivered to nobody."),
    "garbage": ("garbage_connections", "Connections that did not speak the protocol."),
    "syncs": ("disk_syncs", "Writes of the journal that were synced."),
}
_MESH_GAUGES: Final = {
    "topics": "Topics that the daemon knows.",
    "subscriptions": "Persistent subscriptions that the daemon knows.",
    "consumers": "Consumers that are connected to the daemon.",
    "records": "Records that the daemon keeps.",
    "bytes": "Bytes of messages that the daemon keeps.",
    "lacking": "Records that the daemon knows of and lacks.",
    "held_publishers": "Publishers that wait for room in a topic.",
    "forgotten": "1 if the other daemons have forgotten this one.",
}
_DESTINATION_GAUGES: Final = {
    "messages": "Messages that are not done with.",
    "bytes": "Bytes of their bodies.",
    "consumers": "Consumers.",
    "producers": "Producers.",
    "blocked_producers": "Producers that wait for room.",
    "subscriptions": "Subscriptions.",
    "paused": "1 if the delivery to consumers is paused.",
}
_DESTINATION_COUNTERS: Final = {
    "received": "Messages that have come.",
    "delivered": "Messages that were given to consumers.",
    "accepted": "Messages that consumers have acknowledged.",
    "dead": "Messages that went to the dead message queue, or were dropped.",
}


def exposition(
    status: Mapping[str, Any],
    destinations: Sequence[DestinationFigures] = (),
    others: Sequence[Collector] = (),
) -> bytes:
    """Return the metrics in the text format of Prometheus.

    status: the map of `AdminTarget.status`. others: collectors of the process itself.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Replica(status, destinations))
    for each in others:
        registry.register(each)
    return generate_latest(registry)


class _Replica(Collector):
    """The metrics of one replica at one moment."""

    def __init__(self, status: Mapping[str, Any], destinations: Sequence[DestinationFigures]) -> None:
        self._status = status
        self._destinations = destinations
        self._labels = [str(status["server"]), str(status["replica"])]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        status = self._status
        role = self._gauge("role", "1 for the role that the replica has, 0 for the others.", "role")
        for name in ROLES:
            role.add_metric([*self._labels, name], float(status["role"] == name))
        yield role
        mesh: Mapping[str, Any] = status.get("mesh") or {}
        serving = not mesh["forgotten"] if mesh else bool(status.get("serving"))
        yield self._whole("serving", "1 for the master while its services run, and for each daemon.", serving)
        members = mesh.get("region") or status.get("members") or ()
        yield self._whole("members", "Replicas in the view, or daemons that this one reaches.", len(members))
        replicas = mesh.get("daemons") or status.get("replicas") or ()
        yield self._whole("replicas", "Replicas that the server has.", len(replicas))
        yield self._whole(
            "services_failed", "Services that could not start.", len(status.get("services_failed") or ())
        )
        yield self._whole(
            "divergent",
            "1 if the state of a replica differed.",
            bool(status.get("divergence")),
        )
        for key, (name, text) in _GAUGES.items():
            yield self._single(name, text, key)
        for key, (name, text) in _COUNTERS.items():
            counter = self._counter(name, text)
            counter.add_metric(self._labels, float(status.get(key) or 0))
            yield counter
        yield from self._waiting()
        yield from self._of_services()
        yield from self._of_destinations()
        if mesh:
            yield from self._of_mesh(mesh)

    def _of_mesh(self, mesh: Mapping[str, Any]) -> Iterator[Metric]:
        """Yield what a daemon of a mesh knows of itself and the others."""
        for key, text in _MESH_GAUGES.items():
            yield self._whole(f"mesh_{key}", text, mesh.get(key) or 0)
        reached = self._gauge("mesh_daemon_reached", "1 while the daemon reaches another one.", "daemon")
        behind = self._gauge("mesh_daemon_behind_records", "Records that another daemon lacks.", "daemon")
        for other, known in mesh["daemons"].items():
            reached.add_metric([*self._labels, other], float(known["reached"]))
            behind.add_metric([*self._labels, other], float(known["behind"]))
        yield reached
        yield behind
        events = self._counter("mesh_events", "What the daemon counts since the start.", "event")
        for name, count in sorted(mesh["counters"].items()):
            events.add_metric([*self._labels, name], float(count))
        yield events

    def _waiting(self) -> Iterator[Metric]:
        """Yield what waits for each other server."""
        waiting = self._gauge("link_waiting_notifications", "Notifications that wait for a server.", "to")
        connected = self._gauge("link_connected", "1 while the link to a server is connected.", "to")
        links: Mapping[str, Mapping[str, Any]] = self._status.get("servers") or {}
        for other, link in sorted(links.items()):
            waiting.add_metric([*self._labels, str(other)], float(link["waiting"]))
            connected.add_metric([*self._labels, str(other)], float(link["connected"]))
        yield waiting
        yield connected

    def _of_services(self) -> Iterator[Metric]:
        """Yield what services count under names of their own."""
        events = self._counter("service_events", "What services count since the start.", "event")
        for name, count in sorted(self._status["counters"].items()):
            events.add_metric([*self._labels, name], float(count))
        yield events
        values = self._gauge("service_value", "What services measure.", "name")
        for name, value in sorted(self._status["gauges"].items()):
            values.add_metric([*self._labels, name], float(value))
        yield values

    def _of_destinations(self) -> Iterator[Metric]:
        names = ("kind", "name")
        for key, text in _DESTINATION_GAUGES.items():
            gauge = self._gauge(f"destination_{key}", f"{text} Of a queue or topic.", *names)
            self._fill(gauge, key)
            yield gauge
        for key, text in _DESTINATION_COUNTERS.items():
            counter = self._counter(f"destination_{key}_messages", f"{text} Of a queue or topic.", *names)
            self._fill(counter, key)
            yield counter

    def _fill(self, metric: "GaugeMetricFamily | CounterMetricFamily", key: str) -> None:
        for each in self._destinations:
            if key in each.figures:
                metric.add_metric([*self._labels, each.kind, each.name], float(each.figures[key]))

    def _single(self, name: str, text: str, key: str) -> Metric:
        return self._whole(name, text, self._status.get(key) or 0)

    def _whole(self, name: str, text: str, value: float) -> Metric:
        gauge = self._gauge(name, text)
        gauge.add_metric(self._labels, float(value))
        return gauge

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(PREFIX + name, text, labels=["server", "replica", *labels])

    def _counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(PREFIX + name, text, labels=["server", "replica", *labels])
