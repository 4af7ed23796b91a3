"""JGroups 5 beside the groups of Quorate: members with total order (SEQUENCER), one JVM for each.

Needs java 11 and mvn, which fetches JGroups once. The publisher has to be a member, too; its own messages do
not count.
"""

import os
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

PLACE = Path(__file__).with_name("jgroups")
PORT = 17800


@cache
def classpath() -> str:
    """Fetch JGroups and compile the peer; return the class path."""
    place = Path(tempfile.mkdtemp())
    listed = place / "classpath"
    subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            "-f",
            PLACE / "pom.xml",
            "dependency:build-classpath",
            f"-Dmdep.outputFile={listed}",
        ],
        check=True,
    )
    jars = listed.read_text().strip()
    subprocess.run(["javac", "-cp", jars, "-d", place, PLACE / "Peer.java"], check=True)
    return os.pathsep.join([str(place), jars])


def jgroups(size: int, payload: int, count: int) -> dict[str, float]:
    """Return messages/s and deliveries/s at `size` members, as `measure` of groups.py does."""
    flags = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4"]

    def start(role: str) -> "subprocess.Popen[str]":
        words = [PORT, size + 1, size, count, payload, role]
        command = ["java", *flags, "-cp", classpath(), "Peer", *map(str, words)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    peers = []
    for at in range(size + 1):
        peers.append(start("publisher" if at == size else "member"))
        time.sleep(0.5 if at else 2.0)
    try:
        for each in peers:
            assert each.stdout is not None
            while each.stdout.readline() != "joined\n":
                assert each.poll() is None, "a peer has ended"
        publisher = peers[-1]
        assert publisher.stdin is not None
        begin = time.time()
        publisher.stdin.write("\n")
        publisher.stdin.flush()
        ends = []
        for each in peers[:-1]:
            assert each.stdout is not None
            ends.append(float(each.stdout.readline()))
        elapsed = max(ends) - begin
    finally:
        for each in peers:
            each.kill()
            each.wait()
    return {"casts_per_s": count / elapsed, "deliveries_per_s": count * size / elapsed}
