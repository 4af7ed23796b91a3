"""Cost of a state transfer for a group under load.

The members of a group, two by default, run as real processes; the process of member 0, the master, makes the
load. Then one more member joins; with --returns it was a member before, and was killed. For each phase the
program prints the messages confirmed in a second and the longest wait: before the member joins, while the
state travels to it, while it receives what was ordered meanwhile, and after it has joined. All phases are in
one run, so that their ratios can be compared.

    .venv/bin/python benchmarks/group_transfer.py [--megabytes 500] [--size 1024] [--window 1000]
                                                  [--batch 1] [--members 2] [--share 0.2]
                                                  [--mode MAJORITY] [--returns] [--warm] [--log]

On virtual machines that return free memory to their host, the first use of memory is slow, and most of what
is measured: the learner fills as much memory as the state and the log take. With --warm every member uses
memory before the transfer and keeps it (with glibc), so that this time is not measured.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from load import START_S, die_with_parent, free_ports, install_reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater, react

from quorate.hachannel import Group, GroupLimits, Settings, ViewEvent

CHUNK_BYTES = 1 << 20
WARM_S = 3.0
WARM_MEMORY = 4
"""How often the size of the state is allocated..."""
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""...and stays with the process, which must be started with this."""


class Application:
    """A state that the messages do not change. `report` is called with what happens to it."""

    def __init__(self, chunks: int, report: Callable[[str], None]) -> None:
        self.chunks = [os.urandom(CHUNK_BYTES) for _ in range(chunks)]
        self._report = report

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Ignore the message: the state does not change."""

    def view_changed(self, view: ViewEvent) -> None:
        """Report the number of members."""
        self._report(f"{len(view.members)} members")

    def provide_state(self) -> list[bytes]:
        """Report the transfer, and return all chunks."""
        self._report("provides")
        return self.chunks

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the chunks, and report it."""
        self.chunks = chunks
        self._report("received")


class Other(ProcessProtocol):
    """A member in another process, which reports by lines on its output."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    def outReceived(self, data: bytes) -> None:  # noqa: N802
        """Report each line. Lines are short, and are not split between reads."""
        for line in data.decode().splitlines():
            self._report(line)


class Load:
    """The load: keeps the window full, and counts confirmed messages."""

    def __init__(self, options: argparse.Namespace, group: Group) -> None:
        self._group = group
        self._payloads = [os.urandom(options.size) for _ in range(options.batch)]
        self._begin()
        for _ in range(options.window // options.batch):
            self._submit()

    def _begin(self) -> None:
        self._began, self._count, self._longest = time.perf_counter(), 0, 0.0

    def _submit(self) -> None:
        if len(self._payloads) == 1:
            sent = self._group.multicast(self._payloads[0])
        else:
            sent = self._group.multicast_many(self._payloads)
        sent.addCallback(self._confirmed, time.perf_counter())

    def _confirmed(self, _: object, began: float) -> None:
        self._count += len(self._payloads)
        self._longest = max(self._longest, time.perf_counter() - began)
        self._submit()

    def phase(self) -> tuple[float, float, float]:
        """End a phase: return its seconds, messages in a second, and longest wait in seconds."""
        seconds = time.perf_counter() - self._began
        result = seconds, self._count / seconds, self._longest
        self._begin()
        return result


def touch_memory(megabytes: int) -> None:
    """Allocate memory, so that it is not used for the first time during the transfer."""
    pieces = [bytes([1]) * CHUNK_BYTES for _ in range(WARM_MEMORY * megabytes * 1_000_000 // CHUNK_BYTES)]
    pieces.clear()


def make_group(options: argparse.Namespace, reactor: Any, report: Callable[[str], None]) -> Group:
    """Make the member of this process."""
    chunks = 0 if options.member == options.members else options.megabytes * 1_000_000 // CHUNK_BYTES
    return Group(
        "transfer",
        options.member,
        {member: ("127.0.0.1", port) for member, port in enumerate(options.ports)},
        handler=Application(chunks, report),
        expected=options.members + options.returns,
        settings=Settings(mode=options.mode, transfer_share=options.share),
        limits=GroupLimits(queue_messages=options.window, queue_bytes=options.window * options.size),
        reactor=reactor,
        log=(lambda line: print(line, file=sys.stderr)) if options.log else (lambda _: None),
    )


@inlineCallbacks
def measure(options: argparse.Namespace, reactor: Any) -> Generator[Deferred[Any], Any, None]:
    """Run member 0: found the group, make the load, start the last member, print."""
    options.ports = free_ports(options.members + 1)
    awaited: dict[str, Deferred[None]] = {}

    def reported(what: str) -> None:
        if what in awaited:
            awaited.pop(what).callback(None)

    def until(what: str) -> Deferred[None]:
        return awaited.setdefault(what, Deferred())

    def start(member: int) -> Any:
        command = [sys.executable, *sys.argv, "--member", str(member), "--ports", *map(str, options.ports)]
        other = Other(reported if member == options.members else lambda _: None)
        return reactor.spawnProcess(other, sys.executable, command, env=None, childFDs={0: "w", 1: "r", 2: 2})

    group = make_group(options, reactor, reported)
    others = [start(member) for member in range(1, options.members + options.returns)]
    yield group.join().addTimeout(START_S, reactor)
    if group.role != "master":
        sys.exit("another member is the master: run it again")
    load = Load(options, group)
    yield deferLater(reactor, WARM_S)
    load.phase()
    yield deferLater(reactor, options.seconds)
    phases = {"before": load.phase()}
    if options.returns:
        without = until(f"{options.members} members")
        others[-1].signalProcess("KILL")
        yield without
        load.phase()
        yield deferLater(reactor, options.seconds)
        phases["without it"] = load.phase()
    start(options.members)
    yield until("provides")
    load.phase()
    yield until("received")
    phases["its state travels"] = load.phase()
    yield until(f"{options.members + 1} members")
    phases["it follows"] = load.phase()
    yield deferLater(reactor, options.seconds)
    phases["after"] = load.phase()
    before, *_, after = (per_s for _, per_s, _ in phases.values())
    for name, (seconds, per_s, longest_s) in phases.items():
        print(
            f"{name:17} {seconds:6.1f} s {per_s:9,.0f} messages/s, "
            f"{per_s / before:4.0%} of before, {per_s / after:4.0%} of after, "
            f"longest wait {longest_s * 1000:5.0f} ms"
        )


def main() -> None:
    """Run the member that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500, help="of state")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a message")
    parser.add_argument("--window", type=int, default=1000, help="messages that wait to be confirmed")
    parser.add_argument("--batch", type=int, default=1, help="messages handed over at a time")
    parser.add_argument("--members", type=int, default=2, help="before one more comes")
    parser.add_argument("--seconds", type=float, default=10.0, help="before the transfer and after it")
    parser.add_argument("--share", type=float, default=Settings().transfer_share, help="transfer_share")
    parser.add_argument("--mode", choices=("ALL", "MAJORITY"), default="ALL")
    parser.add_argument("--returns", action="store_true", help="the one that comes was killed before")
    parser.add_argument("--warm", action="store_true", help="without the price of new memory")
    parser.add_argument("--log", action="store_true", help="print what the members log")
    parser.add_argument("--member", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=int, nargs="+", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.warm:
        if not os.environ.keys() >= KEEP_MEMORY.keys():
            os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KEEP_MEMORY)
        touch_memory(options.megabytes)
    if not options.member:
        react(lambda reactor: measure(options, reactor))
    reactor = install_reactor("default")
    die_with_parent()
    make_group(options, reactor, lambda what: print(what, flush=True)).join()
    reactor.run()


if __name__ == "__main__":
    main()
