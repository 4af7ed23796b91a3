"""Random runs of a simulated mesh: everything that people, networks and machines do to it."""

import contextlib
from collections.abc import Callable

import attrs

from ...mesh.model import MeshLimits, TopicOptions
from ...mesh.requests import Refusal
from .checks import MeshViolation
from .simulated_clients import SimulatedPublisher, SimulatedSubscriber
from .simulated_mesh import SimulatedMesh

__all__ = ["MeshStorm", "run_storm"]

TOPICS = ("north", "south")


@attrs.frozen
class MeshStorm:
    """What may happen in a random run."""

    daemons: int = 3
    steps: int = 120
    kills: bool = True
    cuts: bool = True
    deletes: bool = True
    disks: bool = False
    """Disks may be lost, or replaced by old copies."""
    members: bool = False
    """Daemons may be forgotten and added again."""
    copies: int = 1


class _Run:
    def __init__(self, seed: int, storm: MeshStorm) -> None:
        self.storm = storm
        limits = MeshLimits(chunk_bytes=300, push_bytes=1500, window_bytes=500, copies=storm.copies)
        self.mesh = SimulatedMesh(seed, storm.daemons, limits)
        self.random = self.mesh.random
        self.images: dict[int, object] = {}
        self.body = 0

    @property
    def up(self) -> list[int]:
        return [id for id, node in self.mesh.nodes.items() if node.up]

    def clients(self, kind: "type[SimulatedPublisher] | type[SimulatedSubscriber]") -> list[object]:
        return [each for each in self.mesh.clients.values() if isinstance(each, kind) and not each.over]

    def command(self, name: str, **arguments: object) -> None:
        if self.up:
            with contextlib.suppress(Refusal):
                self.mesh.command(self.random.choice(self.up), name, **arguments)

    def create(self) -> None:
        self.command("create", topic=self.random.choice(TOPICS), options=TopicOptions())

    def delete(self) -> None:
        if self.random.random() < 0.15:
            self.command("delete", topic=self.random.choice(TOPICS))

    def publish(self) -> None:
        publishers = self.clients(SimulatedPublisher)
        if len(publishers) < 4 and self.up:
            publishers.append(self.mesh.publisher(self.random.choice(TOPICS), self.random.choice(self.up)))
        if publishers:
            publisher = self.random.choice(publishers)
            assert isinstance(publisher, SimulatedPublisher)
            bodies: list[bytes] = []
            for _ in range(self.random.randint(1, 5)):
                self.body += 1
                bodies.append(b"%d" % self.body)
            publisher.publish(*bodies)

    def subscribe(self) -> None:
        subscribers = self.clients(SimulatedSubscriber)
        if len(subscribers) < 5 and self.up:
            name = self.random.choice(("", f"s{len(self.mesh.clients)}", f"s{len(self.mesh.clients)}"))
            self.mesh.subscriber(self.random.choice(TOPICS), name, self.random.choice(self.up))

    def move(self) -> None:
        clients = [each for each in self.mesh.clients.values() if not each.over]
        if clients and self.up:
            client = self.random.choice(clients)
            fate = self.random.random()
            if fate < 0.25 and isinstance(client, SimulatedSubscriber) and client.core.name:
                client.restart(cursor=True)
            elif fate < 0.35:
                client.disconnect()
                return
            client.move(self.random.choice(self.up))

    def cut(self) -> None:
        if not self.storm.cuts:
            return
        ids = sorted(self.mesh.members)
        fate = self.random.random()
        if fate < 0.3:
            self.mesh.heal()
        elif fate < 0.6:
            self.random.shuffle(ids)
            at = self.random.randint(1, len(ids))
            self.mesh.partition(ids[:at], ids[at:])
        else:
            one, other = self.random.sample(ids, 2)
            (self.mesh.cut_link if self.random.random() < 0.5 else self.mesh.heal_link)(one, other)

    def kill(self) -> None:
        if not self.storm.kills:
            return
        down = [id for id, node in self.mesh.nodes.items() if not node.up]
        if down and self.random.random() < 0.6:
            self.start(self.random.choice(down))
        elif self.up:
            self.mesh.kill(self.random.choice(self.up))

    def start(self, id: int) -> None:
        disk = self.mesh.nodes[id].disk
        if self.storm.disks and self.random.random() < 0.4:
            self.mesh.checker.lost_disks = True
            if self.random.random() < 0.5 and id in self.images:
                disk.restore(self.images[id])
            else:
                disk.lose()
        self.images[id] = disk.image()
        self.mesh.start(id)

    def member(self) -> None:
        """Forget a daemon that does not run, or add one again."""
        if not self.up:
            return
        at = self.random.choice(self.up)
        directory = self.mesh.daemon(at).state.directory
        away = [id for id in self.mesh.members if id not in directory.members]
        down = [id for id in self.mesh.members if not self.mesh.nodes[id].up]
        if away and self.random.random() < 0.5:
            self.mesh.command(at, "add", daemon=self.random.choice(away), address="")
        elif down:
            other = self.random.choice(down)
            if other not in self.mesh.daemon(at).links:
                self.mesh.command(at, "forget", daemon=other)
                self.mesh.checker.members.discard(other)

    def add_all(self) -> None:
        """Let all daemons belong to the mesh again."""
        self.mesh.settle(members=False)
        # A daemon that the others have forgotten does not hear of it.
        for at in sorted(self.mesh.members):
            for id in sorted(self.mesh.members - self.mesh.daemon(at).state.directory.members):
                self.mesh.command(at, "add", daemon=id, address="")

    def reconnect(self) -> None:
        for client in self.mesh.clients.values():
            if client.at is None and not client.over and self.up and self.random.random() < 0.5:
                client.connect(self.random.choice(self.up))

    def run(self) -> None:
        acts: list[tuple[Callable[[], None], int]] = [
            (self.create, 2),
            (self.publish, 10),
            (self.subscribe, 2),
            (self.move, 3),
            (self.cut, 3),
            (self.kill, 2),
            (self.reconnect, 2),
        ]
        if self.storm.deletes:
            acts.append((self.delete, 1))
        if self.storm.members:
            acts.append((self.member, 1))
        functions = [each for each, _ in acts]
        weights = [weight for _, weight in acts]
        for _ in range(self.storm.steps):
            self.random.choices(functions, weights)[0]()
            self.mesh.run(self.random.choice((0.0, 0.01, 0.05, 0.3)))
        if self.storm.members:
            self.add_all()
        self.mesh.settle()
        self.mesh.check_end()


def run_storm(seed: int, storm: MeshStorm) -> SimulatedMesh:
    """Run one seed. Raises MeshViolation with the seed."""
    run = _Run(seed, storm)
    try:
        run.run()
    except MeshViolation as violation:
        raise MeshViolation(f"{violation}\nrun again: run_storm({seed}, {storm})") from None
    return run.mesh
