"""Groups of real processes: a killed master costs nothing, and the examples do what they say."""

import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 60.0

MEMBER = """
import sys

from twisted.internet import reactor

from quorate.hachannel.group import Group

me, total, *ports = map(int, sys.argv[1:])


class Handler:
    def delivered(self, index, origin, payload):
        print(index, origin, payload.decode(), flush=payload == b"end")

    def view_changed(self, view):
        print("view", *view.members, flush=True)

    def provide_state(self):
        return b""

    def receive_state(self, chunks):
        raise AssertionError("nobody joins late here")


addresses = {id: ("127.0.0.1", port) for id, port in enumerate(ports)}
group = Group("test", me, addresses, handler=Handler(), log=lambda line: None)
sent = 0


def feed(_=None):
    # A window of 50: the next goes when an earlier one is confirmed.
    global sent
    if sent < total:
        sent += 1
        group.multicast(b"%d" % sent).addCallback(feed)
        if sent == total:
            group.multicast(b"end").addCallback(lambda _: print("confirmed", flush=True))
    if sent % 50 == 0:
        sys.stdout.flush()


group.join().addCallback(lambda _: [feed() for _ in range(50)])
reactor.run()
"""


class Running:
    """A process whose lines can be waited for."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def until(self, wanted: Callable[[str], bool]) -> str:
        # The bound is on silence: a busy machine may take its time, as long as it goes on.
        while True:
            try:
                line = self._queue.get(timeout=BOUND_S)
            except queue.Empty:
                raise AssertionError(f"it did not come; the last lines: {self.lines[-5:]}") from None
            assert line is not None, f"the process ended; the last lines: {self.lines[-5:]}"
            self.lines.append(line)
            if wanted(line):
                return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(*arguments: object) -> Running:
        started.append(Running([sys.executable, *map(str, arguments)]))
        return started[-1]

    yield run
    for running in started:
        running.end()


@pytest.fixture
def ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    numbers = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return numbers


def test_a_killed_master_costs_no_message_of_the_survivors(
    start: Callable[..., Running], ports: list[int], tmp_path: Path
) -> None:
    total = 3000
    (tmp_path / "member.py").write_text(MEMBER)
    members = [start(tmp_path / "member.py", me, total, *ports) for me in range(3)]
    view = members[0].until(lambda line: line.startswith("view")).split()
    master = int(view[1])
    survivors = [member for me, member in enumerate(members) if me != master]
    survivors[0].until(lambda line: line.split()[0].isdigit() and int(line.split()[0]) >= 500)
    members[master].process.send_signal(signal.SIGKILL)
    for survivor in survivors:
        # Its own last message, and that of the other survivor.
        ends = {str(me) for me in range(3) if me != master}
        ends -= {line.split()[1] for line in survivor.lines if line.endswith(" end")}
        while ends:
            line = survivor.until(lambda line: line.endswith(" end"))
            ends.discard(line.split()[1])
    logs = [[line.split() for line in survivor.lines if line[0].isdigit()] for survivor in survivors]
    shorter = min(map(len, logs))
    assert logs[0][:shorter] == logs[1][:shorter]
    for log in logs:
        assert [int(row[0]) for row in log] == list(range(1, len(log) + 1))
        for me in range(3):
            numbers = [row[2] for row in log if int(row[1]) == me]
            assert numbers == [*map(str, range(1, total + 1)), "end"][: len(numbers)]
            assert me == master or len(numbers) == total + 1


def test_the_counter_counts_everywhere_and_tells_who_comes_late(
    start: Callable[..., Running], ports: list[int]
) -> None:
    members = [start("-m", "examples.counter", me, *ports) for me in range(2)]
    for member in members:
        member.until(lambda line: line.startswith("members"))
    members[0].say("5")
    members[1].say("seven")
    members[1].say("7")
    for member in members:
        member.until(lambda line: line.endswith("the sum is 12"))
    late = start("-m", "examples.counter", 2, *ports)
    late.until(lambda line: line.startswith("members") and line.endswith("the sum is 12"))
    members[0].process.send_signal(signal.SIGKILL)
    late.say("-2")
    members[1].until(lambda line: line.endswith("member 2 adds -2, the sum is 10"))
    late.hang_up()
    assert late.process.wait(BOUND_S) == 0


def test_a_chat_has_one_order_and_a_history(start: Callable[..., Running], ports: list[int]) -> None:
    ann, bob = (start("-m", "examples.chat", me, name, *ports) for me, name in enumerate(["ann", "bob"]))
    for member in (ann, bob):
        member.until(lambda line: "2 here" in line)
    ann.say("hello")
    bob.say("hi")
    for member in (ann, bob):
        for _ in range(2):
            member.until(lambda line: ": " in line)
    assert [line for line in ann.lines if ": " in line] == [line for line in bob.lines if ": " in line]
    cid = start("-m", "examples.chat", 2, "cid", *ports)
    cid.until(lambda line: "ann: hello" in line)
    cid.say("late")
    ann.until(lambda line: line == "   3 cid: late")


def test_an_example_says_in_a_sentence_that_its_port_is_taken(
    start: Callable[..., Running], ports: list[int]
) -> None:
    first = start("-m", "examples.counter", 0, *ports)
    second = start("-m", "examples.counter", 1, *ports)
    first.until(lambda line: line.startswith("members"))
    done = subprocess.run(
        [sys.executable, "-m", "examples.counter", "0", *map(str, ports)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert f"port {ports[0]} cannot be listened on" in done.stderr
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert second.process.poll() is None
