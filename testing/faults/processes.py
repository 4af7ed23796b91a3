"""Faults of processes: crash, pause, stop and start; and submissions of clients."""

from random import Random
from typing import Literal

from ..channel.channel_driver import StepCountdown
from ..channel.cluster_shape import Shape
from .base import Fault, Injector, Who, named, while_random

BACK_S = (0.02, 0.2, 1.0, 3.0)
MAX_COUNT = 10_000
"""The most payloads that are submitted at once: with usual windows, they are delivered within seconds."""


@named("crash", weight=7)
class Crash(Fault, frozen=True):
    """Kill a replica (SIGKILL). It returns with its disk as the same voter, without one as a new voter."""

    who: Who = "any"
    back_s: float | None = 1.0
    """Seconds until it starts again; None: when the faults end."""
    force: bool = False
    """Also if the cluster, which has no disks, loses so much that it cannot go on."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        return host is not None and cluster.crash(host, self.back_s, force=self.force)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Crash":  # noqa: ARG003
        return cls(at=at, who=random.choice(["any", "any", "master"]), back_s=while_random(random, BACK_S))


@named("crash-proposer", weight=1)
class CrashProposer(Crash, frozen=True):
    """Kill a replica in the middle of the view change that it proposes."""

    who: Who = "proposer"

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashProposer":  # noqa: ARG003
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("crash-transfer", weight=1)
class CrashTransfer(Crash, frozen=True):
    """Kill the donor or the learner in the middle of a state transfer."""

    who: Who = "donor"

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashTransfer":  # noqa: ARG003
        who: Who = random.choice(["donor", "donor", "learner"])
        return cls(at=at, who=who, back_s=while_random(random, BACK_S))


@named("refuse-part", weight=1)
class RefusePart(Fault, frozen=True):
    """Make the application fail to read the next part of its state, or to install the next part that it
    receives."""

    who: Who = "learner"

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None:
            return False
        host.app.spoiled = True
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "RefusePart":  # noqa: ARG003
        who: Who = random.choice(["donor", "learner"])
        return cls(at=at, who=who)


@named("crash-step", weight=3)
class CrashStep(Fault, frozen=True):
    """Kill a replica after a number of steps: messages sent, writes begun, syncs ended."""

    who: Who = "any"
    steps: int = 0
    back_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
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
        steps = random.randrange(random.choice([4, 16, 64]))
        who: Who = random.choice(["any", "master", "proposer"])
        return cls(at=at, who=who, steps=steps, back_s=while_random(random, BACK_S))


@named("crash-all", weight=1, disk=True)
class CrashAll(Fault, frozen=True):
    """Kill all replicas at once, as a loss of power does; they start again one by one."""

    back_s: float | None = 0.5
    """Each starts again within this time."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        for host in cluster.world.hosts:
            if host.running:
                cluster.crash(host, None if self.back_s is None else self.back_s * random.random())
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "CrashAll":  # noqa: ARG003
        return cls(at=at, back_s=while_random(random, BACK_S))


@named("pause", weight=3)
class Pause(Fault, frozen=True):
    """Pause a replica (SIGSTOP, then SIGCONT)."""

    who: Who = "any"
    for_s: float | None = 1.0
    """Duration in seconds; None: until the faults end."""

    def inject(self, cluster: Injector, random: Random) -> bool:
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
        who: Who = random.choice(["any", "any", "master"])
        return cls(at=at, who=who, for_s=while_random(random, (0.1, 0.6, 3.0)))


@named("disqualify", apart=True)
class Disqualify(Fault, frozen=True):
    """Find the state of a member wrong, as the comparison of states does: it must get that of another one."""

    who: Who = "any"

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None or not cluster.may_disqualify(host):
            return False
        host.disqualify("its state is wrong")
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Disqualify":  # noqa: ARG003
        who: Who = random.choice(["any", "master", "slave"])
        return cls(at=at, who=who)


@named("leave", weight=1)
class Leave(Fault, frozen=True):
    """Stop a replica in order, and start it again."""

    who: Who = "any"
    back_s: float | None = 4.0
    """Seconds until it starts again, with the time that it takes to stop."""

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        return host is not None and cluster.leave(host, self.back_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Leave":  # noqa: ARG003
        return cls(at=at, back_s=random.choice([0.5, 4.0]))


@named("start")
class Start(Fault, frozen=True):
    """Start a replica that does not run: the given one, or any."""

    who: int | Literal["any"] = 0

    def inject(self, cluster: Injector, random: Random) -> bool:
        down = [host for host in cluster.world.hosts if not (host.running or host.retired)]
        hosts = down if self.who == "any" else [host for host in down if host.replica == self.who]
        if not hosts:
            return False
        random.choice(hosts).start()
        return True


@named("heal")
class Heal(Fault, frozen=True):
    """End everything that cuts, slows, pauses or stops replicas; later faults may follow."""

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        cluster.heal()
        return True


@named("submit")
class Submit(Fault, frozen=True):
    """Submit payloads. This is no fault: they come besides those of the clients that submit all the time."""

    who: Who = "master"
    count: int = 1
    """The number of payloads, up to 10,000. The replica drops those beyond its windows, which the trace
    reports."""

    def inject(self, cluster: Injector, random: Random) -> bool:
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
