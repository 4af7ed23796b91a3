"""Spans of messages across programs, a failover and protocols."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from quorate import Servers
from quorate.messaging import Session
from quorate.server.config.servers import STOMP_SERVICE

from .foreign_clients import cluster, running, service_ports
from .running import BOUND_S

pytest.importorskip("opentelemetry.sdk", reason="it is not installed: pip install quorate[telemetry]")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

stomp = pytest.importorskip("stomp", reason="stomp.py is not installed: pip install quorate[test]")
pytestmark = pytest.mark.processes

PROGRAM = """
import sys
from importlib.metadata import entry_points

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from quorate import connect
from quorate.messaging import Session

provider = TracerProvider()
exporter = ConsoleSpanExporter(formatter=lambda span: span.to_json(indent=None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
(found,) = entry_points(group="opentelemetry_instrumentor", name="quorate")
found.load()().instrument(skip_dep_check=True)
connection = connect(sys.argv[1], user="root", password="root")
session = Session(connection, timeout=60)
{work}
session.close()
connection.close()
"""
SEND = """
with trace.get_tracer("shop").start_as_current_span("buy"):
    session.send("orders", "a lamp")
"""
RELAY = """
import threading
done = threading.Event()
consumer = session.consumer("orders")

def heard(message):
    session.send("bills", message.body)
    done.set()

consumer.listen(heard)
done.wait(60)
consumer.close()
"""
TAKE = """
for message in session.consumer("bills", timeout_s=60):
    break
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    text = cluster("StompService", "orders", "bills")
    with running(tmp_path_factory.mktemp("telemetry"), text) as found:
        yield found


def program(servers: Servers, work: str) -> list[dict[str, Any]]:
    """Run a program that knows nothing of spans; return those that it has made."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(work=work), servers.url("s0")],
        capture_output=True,
        text=True,
        timeout=4 * BOUND_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_one_trace_goes_through_three_programs_and_a_failover(servers: Servers) -> None:
    made = program(servers, SEND)
    servers.start_replica("s0", servers.kill_master("s0"))
    made += program(servers, RELAY)
    made += program(servers, TAKE)
    parents = {span["name"]: span["parent_id"] for span in made}
    numbers = {span["name"]: span["context"]["span_id"] for span in made}
    assert len({span["context"]["trace_id"] for span in made}) == 1
    assert parents == {
        "buy": None,
        "send orders": numbers["buy"],
        "process orders": numbers["send orders"],
        "send bills": numbers["process orders"],
        "process bills": numbers["send bills"],
    }


def test_a_client_of_another_protocol_takes_part(servers: Servers) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    (found,) = entry_points(group="opentelemetry_instrumentor", name="quorate")
    instrumentor = found.load()()
    instrumentor.instrument(tracer_provider=provider)
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    foreign = stomp.Connection12([("127.0.0.1", port) for port in service_ports(servers, STOMP_SERVICE)])
    try:
        foreign.connect("root", "root", wait=True)
        foreign.send("/queue/orders", "a lamp", headers={"traceparent": context})
        with (
            servers.connect("s0") as connection,
            Session(connection, timeout=BOUND_S) as session,
            session.consumer("orders", timeout_s=BOUND_S) as consumer,
        ):
            for _ in consumer:
                break
    finally:
        foreign.disconnect()
        instrumentor.uninstrument()
    (process,) = exporter.get_finished_spans()
    assert f"{process.context.trace_id:032x}" == context.split("-")[1]
    assert process.parent is not None
    assert f"{process.parent.span_id:016x}" == context.split("-")[2]


def test_without_opentelemetry_the_module_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry.py").write_text("raise ImportError('none')\n")
    ran = subprocess.run(
        [sys.executable, "-c", "import quorate.messaging.client.telemetry"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: traces of messages need OpenTelemetry: pip install 'quorate[telemetry]'"
    )
