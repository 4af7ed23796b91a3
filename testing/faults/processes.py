"""Processes that crash, pause, stop in order and start; and what clients and people do."""

from random import Random
from typing import Literal

from ..channel.channel_driver import StepCountdown
from ..channel.cluster_shape import Shape
from .base import Fault, Injector, Who, named, while_random

BACK_S = (0.02, 0.2, 1.0, 3.0)
MAX_COUNT = 10_000
"""Of payloads that are submitted at once: with the windows that are usual, the run ends within seconds."""


@named("crash", weight=7)
class Crash(Fault, frozen=True):
    """SIGKILL one replica. It starts again, with its disk or, without one, as a new voter."""

    who: Who = "any"
    back_s: float | None = 1.0
    """It starts again after this time; None: when the faults end."""
    force: bool = False
    """Even if the cluster, which has no disks, loses so much that it cannot go on."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        return host is not None and cluster.crash(host, self.back_s, force=self.force)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Crash":  # noqa: ARG003
        """Often the master."""
        return cls(at=at, who=random.choice(["any", "any", "master"]), back_s=while_random(random, BACK_S))


@named("crash-proposer", weight=1)
class CrashProposer(Crash, frozen=True):
    """SIGKILL a replica in the middle of the view change that it proposes."""

    who: Who = "proposer"

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashProposer":  # noqa: ARG003
        """A proposer, if there is one then."""
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("crash-transfer", weight=1)
class CrashTransfer(Crash, frozen=True):
    """SIGKILL a replica in the middle of the transfer of a state: who gives it, or who gets it."""

    who: Who = "donor"

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashTransfer":  # noqa: ARG003
        """The donor more often."""
        who: Who = random.choice(["donor", "donor", "learner"])
        return cls(at=at, who=who, back_s=while_random(random, BACK_S))


@named("refuse-part", weight=1)
class RefusePart(Fault, frozen=True):
    """The application cannot read the next part of its state, or cannot use the next one that it gets."""

    who: Who = "learner"

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None:
            return False
        host.app.spoiled = True
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "RefusePart":  # noqa: ARG003
        """On either side."""
        who: Who = random.choice(["donor", "learner"])
        return cls(at=at, who=who)


@named("crash-step", weight=3)
class CrashStep(Fault, frozen=True):
    """SIGKILL one replica after so many more steps: messages sent, writes begun, writes done."""

    who: Who = "any"
    steps: int = 0
    back_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None or host.driver.countdown is not None:
            return False
        victim = host

        def expire() -> None:
            if not cluster.crash(victim, self.back_s):
                cluster.world.trace("survives: the others need it")

        host.driver.countdown = StepCountdown(self.steps, expire)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashStep":  # noqa: ARG003
        """Within a few steps, or a view change."""
        steps = random.randrange(random.choice([4, 16, 64]))
        who: Who = random.choice(["any", "master", "proposer"])
        return cls(at=at, who=who, steps=steps, back_s=while_random(random, BACK_S))


@named("crash-all", weight=1, disk=True)
class CrashAll(Fault, frozen=True):
    """SIGKILL all replicas at once, as a loss of power does; they start again one by one."""

    back_s: float | None = 0.5
    """Each starts again within this time."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        for host in cluster.world.hosts:
            if host.running:
                cluster.crash(host, None if self.back_s is None else self.back_s * random.random())
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashAll":  # noqa: ARG003
        """Back soon or late."""
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("pause", weight=3)
class Pause(Fault, frozen=True):
    """SIGSTOP one replica, then SIGCONT."""

    who: Who = "any"
    for_s: float | None = 1.0
    """None: until the faults end."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None or host.paused:
            return False
        host.pause()
        paused, life = host, host.life

        def resume() -> None:
            if paused.running and paused.paused and paused.life == life:
                paused.resume()

        cluster.for_a_while(self.for_s, resume)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Pause":  # noqa: ARG003
        """Shorter or longer than a suspicion takes."""
        who: Who = random.choice(["any", "any", "master"])
        return cls(at=at, who=who, for_s=while_random(random, (0.1, 0.6, 3.0)))


@named("leave", weight=1)
class Leave(Fault, frozen=True):
    """Stop one replica in order. It starts again."""

    who: Who = "any"
    back_s: float | None = 4.0
    """After this time, which includes that of the stop."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        return host is not None and cluster.leave(host, self.back_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Leave":  # noqa: ARG003
        """Anybody."""
        return cls(at=at, back_s=random.choice([0.5, 4.0]))


@named("start")
class Start(Fault, frozen=True):
    """Start a replica that does not run: this one, or any."""

    who: int | Literal["any"] = 0

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        down = [host for host in cluster.world.hosts if not (host.running or host.retired)]
        hosts = down if self.who == "any" else [host for host in down if host.replica == self.who]
        if not hosts:
            return False
        random.choice(hosts).start()
        return True


@named("heal")
class Heal(Fault, frozen=True):
    """Everything that was cut, slowed, paused or stopped works again; later faults may follow."""

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        """See the class."""
        cluster.heal()
        return True


@named("submit")
class Submit(Fault, frozen=True):
    """No fault: a client submits payloads, besides the clients that there are anyway."""

    who: Who = "master"
    count: int = 1
    """How many at once, up to 10,000; what the replica does not take is left out, and the trace says so."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        """See the class."""
        host = cluster.pick(self.who, random)
        if host is None:
            return False
        taken = 0
        for number in range(self.count):
            payload = b"%r/%d" % (self.at, number)
            cluster.checks.submitted.add(payload)
            taken += host.submit(payload)
        if taken < self.count:
            cluster.world.trace(f"{host} takes {taken} of {self.count}")
        return taken > 0
