"""Disks that are lost, spoiled, full, slow, or interrupted in the middle of a write."""

from random import Random

from ..channel.cluster_shape import Shape
from .base import Fault, Injector, Who, named, while_random
from .processes import BACK_S


@named("lose-disk", weight=1, disk=True)
class LoseDisk(Fault, frozen=True):
    """SIGKILL one replica, and its disk is gone: it starts again as a new voter, with nothing."""

    who: Who = "any"
    back_s: float | None = 1.0
    """It starts again after this time; None: when the faults end."""
    force: bool = False
    """Even if the cluster loses so much that it cannot go on."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None or not cluster.may_lose(host, force=self.force):
            return False
        host.crash()
        host.lose_disk()
        cluster.start_later(host, self.back_s)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "LoseDisk":  # noqa: ARG003
        """Often the master's."""
        return cls(at=at, who=random.choice(["any", "any", "master"]), back_s=while_random(random, BACK_S))


@named("corrupt-disk", weight=1, disk=True)
class CorruptDisk(LoseDisk, frozen=True):
    """SIGKILL one replica, and what it wrote reads differently: the next start puts the journal aside."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None or host.disk is None or not cluster.may_lose(host, force=self.force):
            return False
        host.crash()
        host.disk.spoiled = True
        cluster.start_later(host, self.back_s)
        return True


@named("torn-write", weight=2, disk=True)
class TornWrite(Fault, frozen=True):
    """The power fails in the middle of a write: what is half-written is cut at the next start."""

    who: Who = "any"
    back_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None or host.disk is None or not host.disk.waiting:
            return False
        host.crash(random.randrange(len(host.disk.waiting)))
        cluster.start_later(host, self.back_s)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "TornWrite":  # noqa: ARG003
        """Anybody who writes."""
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("full-disk", weight=1, disk=True)
class FullDisk(Fault, frozen=True):
    """No space is left: the replica ends with its next write, and starts again once there is space."""

    who: Who = "any"
    back_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None or host.disk is None:
            return False
        host.disk.full = True
        cluster.free_later(host, self.back_s)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "FullDisk":  # noqa: ARG003
        """Anybody's."""
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("slow-disk", weight=1, disk=True)
class SlowDisk(Fault, frozen=True):
    """Syncs take longer."""

    seconds: float = 0.5
    """The longest one; where the cluster must recover, within the bound of `Delay`."""
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        """See the class."""
        world = cluster.world
        world.sync_s = self.seconds

        def undo() -> None:
            world.sync_s = world.shape.sync_s

        cluster.for_a_while(self.for_s, undo)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "SlowDisk":  # noqa: ARG003
        """Slower than a heartbeat, or than a suspicion."""
        return cls(at=at, seconds=random.choice([0.1, 1.0]), for_s=while_random(random, (1.0, 2.0)))
