"""The machine of one simulated replica: its clock and its disk."""

from typing import TYPE_CHECKING

from ...hachannel.journal.durable_log import Remembered
from ...hachannel.model.log import Committed, Log
from .application import Saved
from .clock import MachineClock
from .disk import Write
from .replica_disk import Disk

if TYPE_CHECKING:
    from .host import Host

__all__ = ["Machine"]


class Machine:
    """A clock and a disk. Both outlive the process; writes are made durable by one sync after another."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.disk: Disk | None = None
        """The disk; None before the first start, and always if the shape has no disks."""
        self._clock = MachineClock(host.world.seed, host.replica, host.world.shape.drift)

    # The clock

    def read_clock(self) -> float:
        """Return the reading of the monotonic clock, in seconds."""
        return self._clock.read(self.host.world.now)

    def time_of(self, reading: float) -> float:
        """Return the virtual time at which the clock reads `reading`."""
        return self._clock.when(reading)

    # The disk

    def recover(self) -> Log:
        """Return the log for a new process, and load the saved state into its application.

        A missing or damaged disk is replaced by an empty one, which makes the process a new voter.
        """
        host, disk = self.host, self.disk
        if disk is None:
            disk = self.disk = Disk(host.world.incarnation())
        elif disk.spoiled:
            host.world.trace(f"{host}: its journal is damaged and put aside")
            disk = self.replace_disk()
        host.incarnation = disk.incarnation
        disk.full = False
        host.application.redeliver = disk.recover(host.app)
        return disk.log()

    def replace_disk(self) -> Disk:
        """Replace the disk of an ended process by an empty one: the next process is a new voter."""
        self.disk = Disk(self.host.world.incarnation(), Remembered(guest=True))
        return self.disk

    def crash(self, survive: int | None) -> None:
        """End the process as SIGKILL does.

        survive: how many of the waiting writes are durable all the same; None: a random number.
        """
        host, disk = self.host, self.disk
        world = host.world
        if disk is None:
            world.trace(f"{host} dies")
            return
        waiting = len(disk.waiting)
        count = world.machine_random.randint(0, waiting) if survive is None else min(survive, waiting)
        world.trace(f"{host} dies, {waiting - count} of {waiting} writes are lost")
        world.observer.synced(host, [disk.waiting[position] for position in range(count)])
        disk.crash(count)

    def sync_everything(self) -> None:
        """Make all waiting writes durable, as an orderly stop does."""
        if self.disk is not None:
            self.host.world.observer.synced(self.host, list(self.disk.waiting))
            self.disk.sync(len(self.disk.waiting))

    def save_application(self) -> None:
        """Save the application after every `Shape.save_entries` entries, and trim the journal."""
        host, disk = self.host, self.disk
        if disk is None:
            return
        applied = host.channel.applied
        if applied - disk.saved < host.world.shape.save_entries:
            return
        # One save at a time: a disk that is never idle would never trim its journal.
        if any(write.state is not None for write in disk.waiting):
            return
        trim = min(host.state.log.base.at, applied)
        self.write(Write([Committed(applied)], 0, host.app.saved(), applied, trim))

    def write(self, write: Write[Saved]) -> None:
        """Begin a write. On a full disk the process ends."""
        host, disk = self.host, self.disk
        assert disk is not None
        if disk.full:
            host.world.trace(f"{host}: no space is left on its disk")
            host.crash(0)
            return
        disk.waiting.append(write)
        if host.driver.count_step() and len(disk.waiting) == 1:
            self.sync_later()

    def sync_later(self) -> None:
        """Schedule the end of the next sync."""
        world, life = self.host.world, self.host.life
        world.at(world.now + world.machine_random.uniform(0.0002, world.sync_s), lambda: self._synced(life))

    def _synced(self, life: int) -> None:
        """End a sync, which covers some of the waiting writes; the others wait for the next one."""
        host, disk = self.host, self.disk
        if disk is None or life != host.life or not host.running or not disk.waiting:
            return
        if disk.full:
            host.crash(0)
            return
        count = host.world.machine_random.randint(1, len(disk.waiting))
        host.world.observer.synced(host, [disk.waiting[position] for position in range(count)])
        token = disk.sync(count)
        if not host.driver.count_step():
            return
        if disk.waiting:
            self.sync_later()
        if token:
            channel = host.channel
            host.driver.act(lambda: channel.persisted(host.clock(), token))
