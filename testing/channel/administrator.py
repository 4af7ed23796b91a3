"""An administrator of a simulated cluster: it adds, removes, moves and replaces replicas during a run.

Like the commands, it asks any replica that believes it is the master, and asks again if a request had no
effect. It draws random numbers from its own stream, so that the other choices of a run do not depend on it.
"""

from random import Random

from ...hachannel import ChannelError
from .host import Host
from .world import World

MAX_REPLICAS = 7
"""The most replicas of one cluster, with those removed."""
WITNESSES = 0.3
"""The fraction of added replicas that are witnesses."""


class Administrator:
    """Sends random requests for changes of the cluster to its master."""

    def __init__(self, world: World, rate: float) -> None:
        """rate: requests in a second; 0: none."""
        self._world = world
        self._random = Random(f"operator {world.seed}")
        self._rate = rate
        self.stopped = False
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        """Schedule the first request."""
        if not self._rate:
            return
        self._world.at(self._world.now + 0.5 + self._random.expovariate(self._rate), self._next)

    def _next(self) -> None:
        if self.stopped:
            return
        world, random = self._world, self._random
        masters = [host for host in world.hosts if host.running and not host.paused and host.state.leading]
        if masters:
            master = random.choice(masters)
            random.choice([self._add, self._add, self._remove, self._remove, self._readmit, self._move])(
                master
            )
        world.at(world.now + random.expovariate(self._rate), self._next)

    def ask(self, name: str, master: Host, replica: int) -> bool:
        """Ask a master to add, readmit, move or remove a replica. Return whether the request changes
        anything.

        The configuration file gets the replicas that the master lists, with this change: an earlier change
        may have been dropped. The file is not written if replicas without memory, once started, could found
        another cluster with it.
        """
        world = self._world
        listed = {*self._listed(master)}
        file = listed - {replica} if name == "remove" else listed | {replica}
        if world.could_found_again(file):
            world.trace(f"administrator: no {name} {replica}: those that remain know of no cluster")
            self.counts["refused"] = self.counts.get("refused", 0) + 1
            return False
        try:
            if name == "remove":
                fresh = master.channel.remove(master.clock(), replica)
                world.hosts[replica].retired = True
            else:
                data = b"%s %d" % (name.encode(), replica)
                witness = replica in world.witness_ids
                fresh = master.channel.admit(master.clock(), replica, data, witness=witness)
        except ChannelError as error:
            world.trace(f"administrator: {name} {replica} at {master}: {error}")
            self.counts["refused"] = self.counts.get("refused", 0) + 1
            fresh = False
        else:
            world.configured = sorted(file)
            world.trace(f"administrator: {name} {replica} at {master}: {fresh}")
            self.counts[name] = self.counts.get(name, 0) + fresh
        master.settle()
        return fresh

    def _listed(self, master: Host) -> list[int]:
        return [seat.replica for seat in master.channel.seats]

    def _add(self, master: Host) -> None:
        """Add a replica on a new machine, perhaps a witness. It starts before or after it is added."""
        world = self._world
        if len(world.hosts) >= MAX_REPLICAS:
            return
        host = Host(world, len(world.hosts))
        if self._random.random() < WITNESSES:
            world.witness_ids.add(host.replica)
        world.hosts.append(host)
        world.at(world.now + self._random.random(), lambda: None if host.running else host.start())
        self.ask("add", master, host.replica)

    def _remove(self, master: Host) -> None:
        """Remove any replica, also the master."""
        replica = self._random.choice(self._listed(master))
        if self._leaves_enough(master, replica):
            self.ask("remove", master, replica)

    def _leaves_enough(self, master: Host, replica: int) -> bool:
        """Return whether the other replicas can hold `min_copies`; otherwise the cluster would wait."""
        world = self._world
        witness_ids = world.witness_ids
        files = (self._listed(master), world.configured)
        copies = min(len({*file} - {replica, *witness_ids}) for file in files)
        return copies >= world.shape.settings.min_copies

    def _readmit(self, master: Host) -> None:
        """Add again a replica that was removed or never added, and start it if it does not run."""
        listed = self._listed(master)
        gone = [host for host in self._world.hosts if host.replica not in listed]
        if not gone:
            return
        host = self._random.choice(gone)
        if self.ask("readmit", master, host.replica):
            host.retired = False
            if not host.running and not host.paused:
                host.start()

    def _move(self, master: Host) -> None:
        """Give a new address to a replica that is down."""
        listed = self._listed(master)
        down = [host.replica for host in self._world.hosts if not host.running and host.replica in listed]
        if down:
            self.ask("move", master, self._random.choice(down))
