"""The metrics of a replica, as Prometheus reads them."""

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from quorate.server.http.exposition import ROLES, exposition
from quorate.server.http.figures import DestinationFigures

MONITORING = Path(__file__).parents[4] / "examples" / "monitoring"

STATUS: dict[str, Any] = {
    "server": "s0",
    "replica": 1,
    "role": "slave",
    "serving": False,
    "view": 3,
    "commit": 1204,
    "applied": 1200,
    "lag": 4,
    "members": [0, 1, 2],
    "replicas": {"0": {}, "1": {}, "2": {}},
    "connections": 0,
    "network_connections": 5,
    "agents": 17,
    "backlog": 6,
    "queued": 0,
    "uptime_s": 12.5,
    "notifications": 2310,
    "reactions": 10,
    "dead_letters": 2,
    "garbage": 1,
    "syncs": None,
    "divergence": "",
    "services_failed": {},
    "servers": {"2": {"connected": True, "waiting": 6}},
    "counters": {"reconnections": 4},
    "gauges": {"connections": 0.0},
}
ORDERS = DestinationFigures("queue", 'or"ders\n', {"messages": 8, "received": 20})


def samples(**changes: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the values by name and by the labels after server and replica."""
    text = exposition({**STATUS, **changes}, [ORDERS]).decode()
    found: dict[tuple[str, tuple[str, ...]], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("server"), labels.pop("replica")) == ("s0", "1")
            found[sample.name, tuple(labels.values())] = sample.value
    return found


def test_a_replica_tells_its_place_in_the_cluster() -> None:
    found = samples()
    assert {name: found["quorate_role", (name,)] for name in ROLES if found["quorate_role", (name,)]} == {
        "slave": 1
    }
    assert found["quorate_lag_entries", ()] == 4
    assert (found["quorate_members", ()], found["quorate_replicas", ()]) == (3, 3)
    assert found["quorate_serving", ()] == 0
    assert found["quorate_uptime_seconds", ()] == 12.5


def test_counters_end_with_total() -> None:
    found = samples()
    assert found["quorate_notifications_total", ()] == 2310
    assert found["quorate_dead_letters_total", ()] == 2
    assert found["quorate_disk_syncs_total", ()] == 0
    assert found["quorate_service_events_total", ("reconnections",)] == 4


def test_links_and_destinations_have_their_names() -> None:
    found = samples()
    assert found["quorate_link_waiting_notifications", ("2",)] == 6
    assert found["quorate_link_connected", ("2",)] == 1
    assert found["quorate_destination_messages", ("queue", 'or"ders\n')] == 8
    assert found["quorate_destination_received_messages_total", ("queue", 'or"ders\n')] == 20


def test_a_replica_whose_state_differed_says_so() -> None:
    assert samples()["quorate_divergent", ()] == 0
    assert samples(divergence="replica 2 differs since entry 7")["quorate_divergent", ()] == 1


MESH: dict[str, Any] = {
    "region": [0, 1],
    "daemons": {
        "0": {"reached": True, "behind": 0},
        "1": {"reached": True, "behind": 7},
        "2": {"reached": False, "behind": 9},
    },
    "topics": 2,
    "records": 40,
    "forgotten": False,
    "counters": {"published": 50},
}


def test_a_daemon_says_whom_it_reaches_and_who_is_behind() -> None:
    found = samples(role="daemon", mesh=MESH)
    assert found["quorate_role", ("daemon",)] == 1
    assert (found["quorate_members", ()], found["quorate_replicas", ()]) == (2, 3)
    assert [found["quorate_mesh_daemon_reached", (each,)] for each in "012"] == [1, 1, 0]
    assert found["quorate_mesh_daemon_behind_records", ("2",)] == 9
    assert (found["quorate_mesh_records", ()], found["quorate_mesh_topics", ()]) == (40, 2)
    assert found["quorate_mesh_events_total", ("published",)] == 50
    assert found["quorate_serving", ()] == 1
    assert samples(role="daemon", mesh={**MESH, "forgotten": True})["quorate_serving", ()] == 0


def test_the_board_and_the_rules_use_metrics_that_there_are() -> None:
    types = re.findall(r"# TYPE (\w+)", exposition({**STATUS, "mesh": MESH}).decode())
    known = {*types, "process_resident_memory_bytes", "process_cpu_seconds_total"}
    board = json.loads((MONITORING / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += re.findall(r"expr: (.*)", (MONITORING / "alerts.yml").read_text())
    assert len(expressions) > 15
    for each in expressions:
        used = set(re.findall(r"\b(?:quorate|process)_\w+", each))
        assert used
        assert used <= known, each
