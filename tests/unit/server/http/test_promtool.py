"""The metrics and the alert rules, as the tool of Prometheus judges them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from quorate.server.http.exposition import exposition
from quorate.server.http.figures import DestinationFigures

from .test_exposition import MESH, MONITORING, STATUS

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool here: it comes with Prometheus"
)

RULES = MONITORING / "alerts.yml"


def promtool(*words: object, given: bytes = b"") -> None:
    done = subprocess.run(
        ["promtool", *map(str, words)], input=given, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def firing(tmp_path: Path, series: dict[str, str], minute: int, *alerts: str) -> None:
    """Check that exactly these alerts fire, as ``Name{label="..."}``; a series has a value each minute."""
    labelled = [each.replace("{", '{alertstate="firing", ').partition("{") for each in alerts]
    samples = [
        {"labels": f'ALERTS{{alertname="{name}", {labels}', "value": 1} for name, _, labels in labelled
    ]
    check = {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m", "exp_samples": samples}
    given = [{"series": f"quorate_{name}", "values": values} for name, values in series.items()]
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "30s",
        "tests": [{"interval": "1m", "input_series": given, "promql_expr_test": [check]}],
    }
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps(tests))
    promtool("test", "rules", path)


def test_the_metrics_keep_to_the_conventions() -> None:
    orders = DestinationFigures("queue", "orders", {"messages": 8, "bytes": 80, "received": 20})
    promtool("check", "metrics", given=exposition({**STATUS, "mesh": MESH}, [orders]))


def test_the_rules_are_understood() -> None:
    promtool("check", "rules", RULES)


def test_a_cluster_without_a_master_is_told_and_one_with_a_new_master_is_not(tmp_path: Path) -> None:
    lost = {
        'serving{server="s0",replica="0"}': "1 1 0 0 0",
        'serving{server="s0",replica="1"}': "0 0 0 0 0",
        'serving{server="s1",replica="0"}': "1 1 0 0 0",
        'serving{server="s1",replica="1"}': "0 0 1 1 1",
    }
    firing(tmp_path, lost, 1)
    firing(tmp_path, lost, 4, 'QuorateNoMaster{server="s0", severity="critical"}')


def test_a_mesh_has_no_master_and_says_whom_it_does_not_reach(tmp_path: Path) -> None:
    mesh = {
        'serving{server="m0",replica="0"}': "1x20",
        'role{server="m0",replica="0",role="daemon"}': "1x20",
        'replicas{server="m0",replica="0"}': "3x20",
        'mesh_daemon_reached{server="m0",replica="0",daemon="1"}': "1x20",
        'mesh_daemon_reached{server="m0",replica="0",daemon="2"}': "1 0x20",
    }
    firing(
        tmp_path,
        mesh,
        10,
        'QuorateReplicaMissing{server="m0", severity="warning"}',
        'QuorateDaemonNotReached{server="m0", replica="0", daemon="2", severity="warning"}',
    )


def test_letters_and_differences_are_told(tmp_path: Path) -> None:
    series = {
        'dead_letters_total{server="s0",replica="0"}': "5 5 6 6 6",
        'divergent{server="s0",replica="1"}': "0 0 1 1 1",
    }
    firing(
        tmp_path,
        series,
        4,
        'QuorateDeadLetters{server="s0", replica="0", severity="warning"}',
        'QuorateDivergence{server="s0", replica="1", severity="critical"}',
    )
