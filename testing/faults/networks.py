"""Faults of networks: cuts, breaks, loss, duplicates, reordering, delay, and bytes that are no message.

Replicas talk over TCP, and most faults do what TCP does: a cut direction stalls, and a broken connection
loses the last part of what is in flight. `loss`, `duplicate` and `reorder` go beyond TCP: they affect single
messages of a connection that stays open. The protocol promises safety under them, too.
"""

from random import Random

from ...hachannel import Message
from ...hachannel.model import messages as kinds
from ..channel.cluster_shape import Shape
from .base import Fault, Injector, Who, draw_any, named, while_random

FOR_S = (0.1, 0.7, 3.0)
RAW_S = (0.3, 1.0)
MUTED = [
    *["Join"] * 12,
    *(
        "Prepare",
        "Promise",
        "Yield",
        "Fetch",
        "Suffix",
        "NewView",
        "Accept",
        "Record",
        "Recorded",
        "Found",
        "Founded",
        "Activate",
    ),
    *("Ack", "Commit", "Repair", "Forward", "Forwarded", "Grant", "Release", "Exit"),
    *("Chunk", "ChunkAck", "TailEntries", "CatchUp", "CaughtUp", "Seats", "Unlisted"),
]
"""Types of messages that are repeated until they are answered, or that heartbeats repeat."""


def _between(one: list[int], other: list[int]) -> list[tuple[int, int]]:
    return [pair for a in one for b in other for pair in ((a, b), (b, a))]


@named("partition", weight=4)
class Partition(Fault, frozen=True):
    """Cut the network between groups of replicas. Replicas in no group form one more group."""

    groups: tuple[tuple[int, ...], ...] = ()
    for_s: float | None = 1.0
    """Duration in seconds; None: until the faults end."""

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        named_ones = {replica for group in self.groups for replica in group}
        rest = [host.replica for host in cluster.world.hosts if host.replica not in named_ones]
        groups = [*map(list, self.groups), rest]
        directions = [
            direction
            for position, group in enumerate(groups)
            for other in groups[position + 1 :]
            for direction in _between(group, other)
        ]
        return cluster.cut(directions, self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Partition":
        side = tuple(replica for replica in range(shape.replicas) if random.random() < 0.5)
        return cls(at=at, groups=(side or (0,),), for_s=while_random(random, FOR_S))


@named("isolate", weight=3)
class Isolate(Fault, frozen=True):
    """Cut the network between one replica and all others."""

    who: Who = "any"
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None:
            return False
        others = [other.replica for other in cluster.world.hosts if other is not host]
        return cluster.cut(_between([host.replica], others), self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Isolate":
        who: Who = random.choice([draw_any(random, shape), "any", "master"])
        return cls(at=at, who=who, for_s=while_random(random, FOR_S))


@named("cut", weight=1)
class Cut(Fault, frozen=True):
    """Cut the network between two replicas; the others reach both."""

    one: int = 0
    other: int = 1
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        return cluster.cut(_between([self.one], [self.other]), self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Cut":
        one, other = _two(random, shape)
        return cls(at=at, one=one, other=other, for_s=while_random(random, FOR_S))


@named("one-way", weight=2)
class OneWay(Fault, frozen=True):
    """Cut one direction between two replicas."""

    sender: int = 0
    receiver: int = 1
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        return cluster.cut([(self.sender, self.receiver)], self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "OneWay":
        sender, receiver = _two(random, shape)
        return cls(at=at, sender=sender, receiver=receiver, for_s=while_random(random, FOR_S))


@named("deaf", weight=2)
class Deaf(Fault, frozen=True):
    """Cut all directions to one replica, or all directions from it."""

    who: Who = "slave"
    dumb: bool = False
    """The directions from it."""
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:
        host = cluster.pick(self.who, random)
        if host is None:
            return False
        me = host.replica
        others = [other.replica for other in cluster.world.hosts if other is not host]
        return cluster.cut([(me, other) if self.dumb else (other, me) for other in others], self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Deaf":  # noqa: ARG003
        who: Who = random.choice(["any", "master", "slave"])
        return cls(at=at, who=who, dumb=random.random() < 0.5, for_s=while_random(random, FOR_S))


def _two(random: Random, shape: Shape) -> list[int]:
    return random.sample(range(shape.replicas), 2) if shape.replicas > 1 else [0, 0]


@named("break", weight=6)
class Break(Fault, frozen=True):
    """Break a connection: only the first part of what is in flight arrives, and both sides connect again."""

    one: int | None = None
    """One end of the connection; None: any connection."""
    other: int | None = None

    def inject(self, cluster: Injector, random: Random) -> bool:
        net = cluster.world.net
        pairs = net.connected_pairs()
        if self.one is not None and self.other is not None:
            pair = (min(self.one, self.other), max(self.one, self.other))
            pairs = [pair] if pair in pairs else []
        if not pairs:
            return False
        net.shut(random.choice(pairs))
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Break":  # noqa: ARG003
        return cls(at=at)


@named("loss", weight=1)
class Loss(Fault, frozen=True):
    """Lose single messages while their connection stays open."""

    chance: float = 0.1
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        return cluster.weather("loss_chance", self.chance, self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Loss":  # noqa: ARG003
        return cls(at=at, chance=random.choice([0.02, 0.1, 0.3]), for_s=while_random(random, RAW_S))


@named("duplicate", weight=1)
class Duplicate(Fault, frozen=True):
    """Deliver single messages twice."""

    chance: float = 0.2
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        return cluster.weather("duplicate_chance", self.chance, self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Duplicate":  # noqa: ARG003
        return cls(at=at, chance=random.choice([0.05, 0.5]), for_s=while_random(random, RAW_S))


@named("reorder", weight=1)
class Reorder(Fault, frozen=True):
    """Let single messages overtake those sent before them."""

    chance: float = 0.2
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        return cluster.weather("reorder_chance", self.chance, self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Reorder":  # noqa: ARG003
        return cls(at=at, chance=random.choice([0.05, 0.5]), for_s=while_random(random, RAW_S))


@named("delay", weight=1)
class Delay(Fault, frozen=True):
    """Make every message take longer."""

    seconds: float = 0.2
    """The longest delay of a message. Where the cluster must recover, it is at most 10 s, and the time
    between the end of this fault and the end of all faults more."""
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        return cluster.weather("delay_s", self.seconds, self.for_s)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Delay":  # noqa: ARG003
        return cls(at=at, seconds=random.choice([0.05, 0.3, 1.0]), for_s=while_random(random, RAW_S))


@named("garbage", weight=1)
class Garbage(Fault, frozen=True):
    """Deliver a frame that is no message: random bytes, or a truncated message. The receiver breaks the
    connection."""

    one: int | None = None
    """The sender; None: any connection."""
    other: int | None = None

    def inject(self, cluster: Injector, random: Random) -> bool:
        net = cluster.world.net
        pairs = [both for pair in net.connected_pairs() for both in (pair, pair[::-1])]
        if self.one is not None and self.other is not None:
            pairs = [pair for pair in pairs if pair == (self.one, self.other)]
        if not pairs:
            return False
        sender, receiver = random.choice(pairs)
        whole = kinds.encode_message(kinds.DirectMessage(random.randbytes(random.randrange(40))))
        frame = random.choice([random.randbytes(random.randrange(1, 60)), whole[:-1], b"", whole + b"\0"])
        return cluster.world.hosts[receiver].garbage(sender, frame)

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Garbage":  # noqa: ARG003
        return cls(at=at)


@named("mute", weight=1)
class Mute(Fault, frozen=True):
    """Lose the messages of one type for a while. Choose a type that is repeated."""

    message: str = "Join"
    for_s: float | None = 1.0

    def inject(self, cluster: Injector, random: Random) -> bool:  # noqa: ARG002
        net = cluster.world.net
        kind: type[Message] = getattr(kinds, self.message)
        net.muted = kind

        def unmute() -> None:
            net.muted = None

        cluster.for_a_while(self.for_s, unmute)
        return True

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Mute":  # noqa: ARG003
        for_s = 4.0 * random.random()
        return cls(at=at, message=random.choice(MUTED), for_s=round(for_s, 4))
