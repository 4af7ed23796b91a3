"""Memory of a cluster that orders a million entries, with and without a slow slave.

Three channels run in one process, without a network. After each tenth of the entries the program prints the
sizes of the logs, the queues and the process. They must not grow. A slow slave reads less than it is sent;
the mode is MAJORITY then, so that the others do not wait for it. It lags until the master drops it, and joins
again by a snapshot.

    .venv/bin/python benchmarks/memory.py [--entries 1000000] [--slow]
"""

import argparse
import sys
from collections import deque
from pathlib import Path

from quorate.hachannel import Channel, Deliver, InstallPart, Message, ProvideSnapshot, Settings

PAYLOAD = b"x" * 100
BURST = 64
"""Entries that are submitted before messages are moved."""
SLOW = 16
"""Messages that a slow slave reads meanwhile."""
ROWS = 10


class Cluster:
    """Three channels and the wires between them."""

    def __init__(self, slow: bool) -> None:
        self.slow = False
        self.now = 0.0
        self.delivered = 0
        self.snapshots = 0
        self.wires: dict[tuple[int, int], deque[Message]] = {
            (here, there): deque() for here in range(3) for there in range(3) if here != there
        }
        settings = Settings(mode="MAJORITY" if slow else "ALL", suspect_s=1e9, stall_s=1e9)
        self.channels = [
            Channel(me, range(3), incarnation=me + 1, cluster="c", expected=3, settings=settings)
            for me in range(3)
        ]
        for channel in self.channels:
            channel.start(self.now)
        for here, there in self.wires:
            self.channels[here].connected(self.now, there, there + 1)
        while any(channel.role not in ("master", "slave") for channel in self.channels):
            self.tick(0.01)
        self.slow = slow

    def tick(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds
        for channel in self.channels:
            channel.tick(self.now)
        self.move()

    def move(self) -> None:
        """Deliver the messages on the wires; to a slow slave, only some of them."""
        budget = SLOW
        busy = True
        while busy:
            busy = False
            for me in range(3):
                self.act(me)
            for (here, there), wire in self.wires.items():
                count = len(wire)
                if self.slow and there == 2:
                    count = min(count, budget)
                    budget -= count
                busy = busy or bool(count)
                for _ in range(count):
                    self.channels[there].receive(self.now, here, wire.popleft())

    def act(self, me: int) -> None:
        """Carry out the output of a channel."""
        channel = self.channels[me]
        output = channel.drain()
        for peer, message in output.messages:
            self.wires[me, peer].append(message)
        for event in output.events:
            if isinstance(event, Deliver):
                self.delivered += me == 0
            elif isinstance(event, ProvideSnapshot):
                channel.snapshot_ready(self.now, event.token, channel.applied, [b"state"])
            elif isinstance(event, InstallPart):
                self.snapshots += event.index is not None
                channel.part_installed(self.now, event.token)

    def kept(self) -> tuple[int, int, int]:
        """Return the entries in the logs, the payloads in the queues, and the messages on the wires."""
        return (
            sum(len(channel.state.log) for channel in self.channels),
            sum(channel.forwarding for channel in self.channels),
            sum(map(len, self.wires.values())),
        )


def resident_mib() -> float:
    """Return the resident memory of the process; 0 on systems that do not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 2**20


def main() -> None:
    """Print the table. Exit status 1 when memory grew between the second row and the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--slow", action="store_true", help="one slave is slow")
    options = parser.parse_args()
    cluster = Cluster(options.slow)
    master, other = cluster.channels[0], cluster.channels[1]
    sizes: list[float] = []
    print(f"{'delivered':>10} {'in logs':>8} {'queued':>7} {'on wires':>8} {'MiB':>7}")
    for row in range(1, ROWS + 1):
        while cluster.delivered < options.entries * row // ROWS:
            for _ in range(BURST):
                if master.can_submit:
                    master.submit(cluster.now, 0, PAYLOAD)
                if other.can_forward:
                    other.forward(cluster.now, PAYLOAD)
            cluster.move()
            cluster.tick(0.05)
        sizes.append(resident_mib())
        logs, queued, wires = cluster.kept()
        print(f"{cluster.delivered:>10} {logs:>8} {queued:>7} {wires:>8} {sizes[-1]:>7.1f}", flush=True)
    grown = sizes[-1] / sizes[1] if sizes[1] else 1.0
    print(f"last row / second row: {grown:.2f}; {cluster.snapshots} snapshots for a slave that fell back")
    if grown > 1.2:
        sys.exit("the memory of the process grew")


if __name__ == "__main__":
    main()
