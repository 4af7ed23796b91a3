"""How long clients wait when the master dies: from SIGKILL to the first send acknowledged after it.

The sample cluster runs with real processes; a client sends one notification after the other. Each round kills
the master and starts it again.

    .venv/bin/python -m benchmarks.failover [--rounds 10]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from examples.bank import Deposit
from quorate import Connection, connect
from quorate.demo.ports import place
from quorate.server.config import load
from quorate.server.supervisor import Supervisor

SAMPLE = Path(__file__).parents[1] / "a3servers.xml"
BOUND_S = 60.0


def main() -> None:
    """Run the rounds and print the times in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        xml = Path(directory, "a3servers.xml")
        place(SAMPLE, xml)
        with Supervisor(xml, Path(directory, "data"), restart=False, on_event=lambda _: None) as servers:
            servers.wait_ready(BOUND_S)
            deploy = ["deploy", str(xml), "--server", "s0", "examples.bank:Account", "--name", "alice"]
            subprocess.run([sys.executable, "-m", "quorate", *deploy], check=True, stdout=subprocess.DEVNULL)
            with connect(load(xml).client_urls("s0"), user="root", password="root") as client:
                times = [failover_ms(servers, client) for _ in range(rounds)]
    print("ms:", *(f"{value:.0f}" for value in times))
    print(f"median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms")


def failover_ms(servers: Supervisor, client: Connection) -> float:
    """Kill the master while a client sends, bring it back; returns how long the next send took."""
    for _ in range(100):
        client.send("alice", Deposit(1))
    master = servers.master("s0")
    assert master is not None
    servers.kill("s0", master)
    killed = time.perf_counter()
    client.send("alice", Deposit(1))
    took_ms = (time.perf_counter() - killed) * 1000
    servers.start_replica("s0", master)
    servers.wait_ready(BOUND_S)
    return took_ms


if __name__ == "__main__":
    main()
