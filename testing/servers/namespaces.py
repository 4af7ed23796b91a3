"""Replicas with networks of their own on one Linux machine, and a switch between them that fails on command.

Each replica gets a network namespace; a bridge in another namespace connects them and this process. So real
processes with real TCP experience partitions, also of one direction only, and pulled cables, while the test
still reaches all of them::

    with Namespaces(3) as net:
        server = subprocess.Popen([*net.command(0), "quorate", "start", ...])  # hears net.addresses[0]
        net.split([0], [1, 2])

In a cut direction frames are lost silently: they go to a hardware address that no card has. Requires root and
`ip` of iproute2, but no packet filter. Namespaces that a killed run left behind are removed by the next run.
"""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["Namespaces", "NamespacesUnavailable"]

PREFIX: Final = "quorate"
"""The beginning of the names of all namespaces."""
SUBNETS: Final = "198.18"
"""The addresses of replicas, from 198.18.0.0/15, which RFC 2544 reserves for benchmarks."""
OUTSIDE: Final = 254
"""The last number of the address of this process."""
NOBODY: Final = "02:51:00:00:ff:ff"
"""A hardware address that no card has."""
COMMAND_TIMEOUT_S: Final = 20.0

_numbers = itertools.count()
"""Numbers for names. The system removes namespaces with a delay, so names are not used again."""


class NamespacesUnavailable(Exception):
    """Raised if this machine does not allow namespaces. The text is a sentence with the reason."""


class Namespaces:
    """Replicas from 0, each in a network namespace of its own. A context manager."""

    def __init__(self, replicas: int) -> None:
        if not 1 <= replicas < OUTSIDE:
            raise ValueError(f"from 1 to {OUTSIDE - 1} replicas, not {replicas}")
        self.replicas = range(replicas)
        self.addresses: list[str] = []
        """The address of each replica."""
        self.outside = ""
        """The address of this process, as the replicas see it."""
        number = next(_numbers)
        self._owner = f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}-{number}"
        self._wire = f"q{os.getpid()}n{number}"
        self._cut: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        """Make the namespaces. Raises NamespacesUnavailable."""
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            raise NamespacesUnavailable("Network namespaces need root: run this as root.")
        _remove(name for name in _names() if _abandoned(name))
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the processes that still run in the namespaces, and remove them."""
        self._remove()

    def command(self, replica: int) -> list[str]:
        """Return the words to put in front of a command that must run as a replica."""
        return ["ip", "netns", "exec", self._name(replica)]

    def cut(self, *directions: tuple[int, int]) -> None:
        """Drop everything from the first to the second replica of each pair."""
        self._route([pair for pair in directions if pair not in self._cut], lost=True)
        self._cut.update(directions)

    def split(self, *groups: Iterable[int]) -> None:
        """Cut both directions between all groups."""
        sides = [list(group) for group in groups]
        for one, other in itertools.permutations(sides, 2):
            self.cut(*itertools.product(one, other))

    def mend(self, *directions: tuple[int, int]) -> None:
        """End the cuts of these directions; by default of all."""
        mended = [pair for pair in sorted(self._cut) if not directions or pair in directions]
        self._route(mended, lost=False)
        self._cut.difference_update(mended)

    def unplug(self, replica: int) -> None:
        """Take the link of a replica down: it reaches no other, and its system reports the lost link."""
        _ip(f"link set dev p{replica} down", self._name("hub"))

    def plug(self, replica: int) -> None:
        """Take the link of a replica up again."""
        _ip(f"link set dev p{replica} up", self._name("hub"))

    # Inside

    def _name(self, part: object) -> str:
        return f"{self._owner}-{part}"

    def _make(self) -> None:
        subnet = self._subnet()
        self.addresses = [f"{subnet}.{replica + 1}" for replica in self.replicas]
        self.outside = f"{subnet}.{OUTSIDE}"
        hub = self._name("hub")
        _ip("\n".join(f"netns add {name}" for name in [hub, *map(self._name, self.replicas)]))
        _ip("link add name switch type bridge\nlink set dev switch up", hub)
        _ip(
            f"link add name {self._wire} type veth peer name out netns {hub}\n"
            f"address add {self.outside}/24 dev {self._wire}\nlink set dev {self._wire} up"
        )
        wires = [
            f"link add name p{replica} type veth peer name eth0 address {_card(replica)} "
            f"netns {self._name(replica)}\nlink set dev p{replica} master switch\nlink set dev p{replica} up"
            for replica in self.replicas
        ]
        _ip("\n".join([*wires, "link set dev out master switch", "link set dev out up"]), hub)
        for replica in self.replicas:
            _ip(
                f"address add {self.addresses[replica]}/24 dev eth0\n"
                "link set dev lo up\nlink set dev eth0 up",
                self._name(replica),
            )
        self._route(list(itertools.permutations(self.replicas, 2)), lost=False)

    def _subnet(self) -> str:
        taken = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=False).stdout
        for number in range(256):
            subnet = f"{SUBNETS}.{(os.getpid() + number) % 256}"
            if f"{subnet}." not in taken:
                return subnet
        raise NamespacesUnavailable(f"All addresses of {SUBNETS}.0.0/16 are taken on this machine.")

    def _route(self, directions: Iterable[tuple[int, int]], *, lost: bool) -> None:
        for sender, group in itertools.groupby(sorted(directions), key=lambda pair: pair[0]):
            lines = [
                f"neighbour replace {self.addresses[to]} lladdr {NOBODY if lost else _card(to)} "
                "dev eth0 nud permanent"
                for _, to in group
            ]
            _ip("\n".join(lines), self._name(sender))

    def _remove(self) -> None:
        _remove(name for name in _names() if name.startswith(f"{self._owner}-"))


def _card(replica: int) -> str:
    return f"02:51:00:00:00:{replica:02x}"


def _ip(lines: str, namespace: str | None = None) -> None:
    """Run commands of `ip`, one on each line."""
    command = ["ip", *(["-netns", namespace] if namespace else []), "-batch", "-"]
    try:
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise NamespacesUnavailable("There is no command `ip` here: install iproute2.") from None
    if done.returncode != 0:
        reason = (done.stderr.strip() or "no reason given").splitlines()[0]
        raise NamespacesUnavailable(f"This machine does not allow network namespaces: {reason}")


def _names() -> list[str]:
    """Return the namespaces of all runs on this machine."""
    with contextlib.suppress(OSError):
        return [path.name for path in Path("/run/netns").iterdir() if path.name.startswith(f"{PREFIX}-")]
    return []


def _started(process: int) -> str:
    """Return the start of a process in ticks since the machine started; "" if there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _abandoned(name: str) -> bool:
    """Return whether the process that made a namespace has ended. Another process may have its id now."""
    words = name.split("-")
    return len(words) == 5 and words[1].isdigit() and _started(int(words[1])) != words[2]


def _remove(names: Iterable[str]) -> None:
    """Kill the processes in these namespaces, and remove the namespaces with their interfaces."""
    for name in sorted(names):
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
        for word in listed.stdout.split():
            with contextlib.suppress(OSError):
                os.kill(int(word), signal.SIGKILL)
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
