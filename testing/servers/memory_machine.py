"""The machine of a simulated replica: its disk, its clocks and its place in the network outlive processes."""

import random
import tempfile
from pathlib import Path

from .memory_disk import MemoryDisk
from .memory_network import MemoryNet, MemoryReactor

__all__ = ["EPOCH_NS", "MemoryMachine"]

EPOCH_NS = 1_700_000_000_000_000_000
"""The time of day at the virtual time 0, in nanoseconds."""


class MemoryMachine:
    """A machine on which one process at a time runs: `start`, then `stop`."""

    def __init__(
        self, net: MemoryNet, name: str, rng: random.Random, disk: MemoryDisk, skew_ns: int = 0
    ) -> None:
        """`skew_ns` is the error of the wall clock."""
        self.name = name
        self.random = rng
        self.disk = disk
        self.skew_ns = skew_ns
        self._net = net
        self._files: tempfile.TemporaryDirectory[str] | None = None

    @property
    def directory(self) -> Path:
        """A directory of this machine for files of services. They are real files, which lose nothing."""
        if self._files is None:
            self._files = tempfile.TemporaryDirectory()
        return Path(self._files.name)

    def lose_files(self) -> None:
        """Remove the files of services."""
        self._files = None

    @property
    def paused(self) -> bool:
        """Whether the process is stopped where it stands."""
        return self._net.is_paused(self.name)

    def wall_ns(self) -> int:
        """Return the time of day of this machine, in nanoseconds."""
        return EPOCH_NS + int(self._net.clock.seconds() * 1e9) + self.skew_ns

    def start(self) -> MemoryReactor:
        """Return the reactor of a new process."""
        return self._net.machine(self.name)

    def stop(self, notice_s: float = 0.0) -> None:
        """End the process: what the disk has not synced is lost. Others notice after `notice_s` seconds."""
        self.disk.crash()
        self._net.crash(self.name, notice_s)

    def pause(self) -> None:
        """Stop the process where it stands, as SIGSTOP does."""
        self._net.pause(self.name)

    def resume(self) -> None:
        """Let the process go on."""
        if self.paused:
            self._net.resume(self.name)

    def cut(self, other: "MemoryMachine") -> None:
        """Cut all traffic with another machine."""
        self._net.cut(self.name, other.name)
