"""Sensors at sea: readings are taken on board whether there is a link or not, and read ashore.

Each ship runs a daemon of the mesh, and the office one. The link of a ship comes and goes; meanwhile its
readings are on its own disk. The office reads each of them once, whatever happened, and keeps its place in a
file::

    quorate up examples/mesh.xml
    quorate mesh create examples/mesh.xml readings
    python -m examples.sensors ship quorate://localhost:2701 20
    python -m examples.sensors office quorate://localhost:2703 20 office.cursor

Run the office, stop it, run the ship, run the office again: it goes on where it was.
"""

import random
import sys
import time
from pathlib import Path

from quorate import QuorateClientError, mesh

TOPIC = "readings"


def ship(url: str, count: int) -> None:
    """Take readings, and publish them to the daemon on board."""
    with mesh.connect(url, user="sensor", password="sensor") as board:
        for number in range(count):
            depth_m = 40 + 10 * random.random()
            board.publish_nowait(TOPIC, f"{number} {depth_m:.1f}".encode())
            time.sleep(0.01)
        board.flush(30)
        print(f"{count} readings are on the disk of daemon {board.daemon}", flush=True)


def office(url: str, count: int, cursor: Path) -> None:
    """Read readings, each once."""
    with (
        mesh.connect(url, user="sensor", password="sensor") as shore,
        shore.subscribe(TOPIC, name="office", cursor=cursor) as readings,
    ):
        print("the office listens", flush=True)
        for _ in range(count):
            reading = readings.receive()
            number, depth_m = reading.body.split()
            print(f"reading {int(number)} of {reading.publisher[:6]}: {float(depth_m):.1f} m", flush=True)
            readings.acknowledge(reading)


def main(arguments: list[str]) -> str | None:
    """Be a ship or the office. Return what went wrong, None if nothing did."""
    try:
        match arguments:
            case ["ship", url, count]:
                ship(url, int(count))
            case ["office", url, count, cursor]:
                office(url, int(count), Path(cursor))
            case _:
                return "usage: python -m examples.sensors ship URL COUNT | office URL COUNT CURSOR"
    except (QuorateClientError, ValueError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
