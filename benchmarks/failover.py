"""How long clients wait when the master dies or freezes: from the signal to the first send acknowledged then.

The sample cluster runs with real processes; a client sends one notification after the other. Each round kills
the master and starts it again, or stops it (SIGSTOP) and lets it go on.

A client whose connections break one after the other, each within a second, waits before it tries again.
That is not measured here: each round lets a connection last longer.

    .venv/bin/python -m benchmarks.failover [--rounds 10] [--freeze]
"""

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from examples.bank import Deposit
from quorate import Connection, connect
from quorate.client.attempts import BRIEF_S
from quorate.demo.ports import write_config
from quorate.server.cli.supervisor import Supervisor
from quorate.server.config import load

SAMPLE = Path(__file__).parents[1] / "a3servers.xml"
BOUND_S = 60.0
LASTING_S = 1.2 * BRIEF_S
"""Connections that have lasted so long are reopened at once."""


def main() -> None:
    """Run the rounds and print the times in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--freeze", action="store_true", help="stop the master instead of killing it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        xml = Path(directory, "a3servers.xml")
        write_config(SAMPLE, xml)
        with Supervisor(xml, Path(directory, "data"), on_event=lambda _: None) as servers:
            servers.wait_ready(BOUND_S)
            deploy = ["deploy", str(xml), "--server", "s0", "examples.bank:Account", "--name", "alice"]
            subprocess.run([sys.executable, "-m", "quorate", *deploy], check=True, stdout=subprocess.DEVNULL)
            with connect(load(xml).client_urls("s0"), user="root", password="root") as client:
                times = [failover_ms(servers, client, options.freeze) for _ in range(options.rounds)]
    print("ms:", *(f"{value:.0f}" for value in times))
    print(f"median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms")


def failover_ms(servers: Supervisor, client: Connection, freeze: bool) -> float:
    """Stop the master while a client sends, start it again, and return the time of the next send."""
    settled = time.perf_counter() + LASTING_S
    while time.perf_counter() < settled:
        client.send("alice", Deposit(1))
    master = servers.master("s0")
    assert master is not None
    servers.kill("s0", master, signal.SIGSTOP if freeze else signal.SIGKILL)
    gone = time.perf_counter()
    client.send("alice", Deposit(1))
    took_ms = (time.perf_counter() - gone) * 1000
    if freeze:
        servers.kill("s0", master, signal.SIGCONT)
        while servers.role("s0", master) != "slave":
            time.sleep(0.05)
    else:
        servers.start_replica("s0", master)
        servers.wait_ready(BOUND_S)
    return took_ms


if __name__ == "__main__":
    main()
