"""Requests of an administrator to add or remove replicas. They are no faults, but as hard to survive."""

from random import Random

from ..channel.administrator import Administrator
from ..channel.host import Host
from .base import Fault, Injector, Who, named


def _ask(cluster: Injector, name: str, replica: int) -> bool:
    """Ask the present master. Return False if there is none or it refuses."""
    world = cluster.world
    masters = [host for host in world.hosts if host.running and not host.paused and host.state.leading]
    return bool(masters) and Administrator(world, 0.0).ask(name, masters[-1], replica)


@named("add")
class Add(Fault, frozen=True):
    """Add a new replica with the next free id and start it, or add one again that was removed."""

    who: int | None = None
    """The id of a replica that was removed; None: a new one."""
    witness: bool = False
    """Whether the new replica is a witness."""

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        world = cluster.world
        if self.who is None:
            host = Host(world, len(world.hosts))
            if self.witness:
                world.witness_ids.add(host.replica)
            world.hosts.append(host)
        elif self.who < len(world.hosts):
            host = world.hosts[self.who]
        else:
            return False
        done = _ask(cluster, "add", host.replica)
        if done:
            host.retired = False
        if not host.running:
            host.start()
        return done


@named("remove")
class Remove(Fault, frozen=True):
    """Remove a replica from the cluster: it stops and does not return."""

    who: Who = 0

    def inject(self, cluster: Injector, random: Random) -> bool:
        if isinstance(self.who, int):
            return _ask(cluster, "remove", self.who)
        host = cluster.pick(self.who, random)
        return host is not None and _ask(cluster, "remove", host.replica)
