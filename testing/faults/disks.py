"""Faults of disks: lost, corrupt, full, slow, or interrupted in the middle of a write."""

from random import Random

from ..channel.cluster_shape import Shape
from .base import Fault, Injector, Who, named, while_random
from .processes import BACK_S


@named("lose-disk", weight=1, disk=True)
class LoseDisk(Fault, frozen=True):
    """Kill a replica (SIGKILL) and lose its disk: it starts again as a new voter, with nothing."""

    who: Who = "any"
    back_s: float | None = 1.0
    """Seconds until it starts again; None: when the faults end."""
    force: bool = False
    """Also if the cluster loses so much that it cannot go on."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None or not cluster.may_lose(host, force=self.force):
            return False
        host.crash()
        host.lose_disk()
        cluster.start_later(host, self.back_s)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "LoseDisk":  # noqa: ARG003
        return cls(at=at, who=random.choice(["any", "any", "master"]), back_s=while_random(random, BACK_S))


@named("corrupt-disk", weight=1, disk=True)
class CorruptDisk(LoseDisk, frozen=True):
    """Kill a replica (SIGKILL) and corrupt its disk: the next start puts the journal aside."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None or host.disk is None or not cluster.may_lose(host, force=self.force):
            return False
        host.crash()
        host.disk.spoiled = True
        cluster.start_later(host, self.back_s)
        return True


@named("torn-write", weight=2, disk=True)
class TornWrite(Fault, frozen=True):
    """Interrupt a write by a loss of power: the next start truncates the half-written transaction."""

    who: Who = "any"
    back_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None or host.disk is None or not host.disk.waiting:
            return False
        host.crash(random.randrange(len(host.disk.waiting)))
        cluster.start_later(host, self.back_s)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "TornWrite":  # noqa: ARG003
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("full-disk", weight=1, disk=True)
class FullDisk(Fault, frozen=True):
    """Fill a disk: the replica ends with its next write, and starts again once there is space."""

    who: Who = "any"
    back_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None or host.disk is None:
            return False
        host.disk.full = True
        cluster.free_later(host, self.back_s)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "FullDisk":  # noqa: ARG003
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("slow-disk", weight=1, disk=True)
class SlowDisk(Fault, frozen=True):
    """Make syncs take longer."""

    seconds: float = 0.5
    """The longest sync. Where the cluster must recover, it has the same bound as `Delay.seconds`."""
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        world = cluster.world
        world.sync_s = self.seconds

        def undo() -> None:
            world.sync_s = world.shape.sync_s

        cluster.for_a_while(self.for_s, undo)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "SlowDisk":  # noqa: ARG003
        return cls(at=at, seconds=random.choice([0.1, 1.0]), for_s=while_random(random, (1.0, 2.0)))
