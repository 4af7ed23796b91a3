"""What happens in a campaign, by seed: who is killed, frozen, stopped or cut off, when and for how long."""

import itertools
import random
from collections.abc import Iterator, Sequence

import attrs

KINDS: dict[str, int] = {
    "kill": 3,
    "behead": 3,
    "freeze": 4,
    "cut": 4,
    "leave": 1,
    "lose": 1,
    "kill_all": 1,
}
"""What happens, and how often compared with the others. `behead`: one is killed while others do not take what
it says, frozen or cut off from it."""
DISK_ONLY = ("lose", "kill_all")
FATAL = ("kill", "behead", "leave", "lose", "kill_all")


@attrs.frozen
class Step:
    """Something that happens."""

    after_s: float
    """Since the step before."""
    kind: str
    victims: tuple[int, ...]
    """Members by seniority: 0 is the master of the moment. For `cut` a permutation of all; `behead` kills the
    first one."""
    for_s: float
    """Until it is undone."""
    shape: str = ""
    """Of a cut; `behead` cuts if it is "cut" and freezes otherwise."""


@attrs.frozen
class Plan:
    """What a seed says."""

    seed: int
    members: int
    mode: str
    disk: bool
    net: bool
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        where = "namespaces" if self.net else "one host"
        kept = "disk" if self.disk else "memory"
        return f"seed {self.seed}: {self.members} members, {self.mode}, {kept}, {where}"


def draw(
    seed: int,
    seconds: float,
    *,
    members: int | None = None,
    mode: str | None = None,
    disk: bool | None = None,
    net: bool | None = None,
) -> Plan:
    """The plan of a seed; what is given is as it is given."""
    chance = random.Random(seed)
    drawn = (chance.choice((3, 3, 5)), chance.choice(("ALL", "MAJORITY")), chance.random() < 0.5)
    apart = chance.random() < 0.6
    members = drawn[0] if members is None else members
    mode = drawn[1] if mode is None else mode
    disk = drawn[2] if disk is None else disk
    net = apart if net is None else net
    steps: list[Step] = []
    left = seconds
    while left > 0:
        step = _step(chance, members, disk=disk, net=net)
        steps.append(step)
        left -= step.after_s
    return Plan(seed, members, mode, disk, net, tuple(steps))


def _step(chance: random.Random, members: int, *, disk: bool, net: bool) -> Step:
    kinds = [kind for kind in KINDS if (disk or kind not in DISK_ONLY) and (net or kind != "cut")]
    (kind,) = chance.choices(kinds, [KINDS[kind] for kind in kinds])
    minority = (members - 1) // 2
    order = list(range(members))
    if chance.random() < 0.5:
        # The master is what most depends on.
        order[1:] = chance.sample(order[1:], members - 1)
    else:
        chance.shuffle(order)
    count = {
        "kill_all": members,
        "cut": members,
        "freeze": chance.choice((1, 1, 1, minority, members)),
        "behead": chance.choice((members, minority + 1)),
    }
    victims = order[: count.get(kind, chance.choice((1, 1, minority)))]
    # Around what the timeouts of suspicions and leases are.
    times = (chance.uniform(0.05, 0.4), chance.uniform(0.4, 1.2), chance.uniform(1.2, 3.5))
    shape = chance.choice(("split", "split", "one way", "unplug", "ring", "star")) if kind == "cut" else ""
    for_s = chance.choice(times)
    if kind == "behead" and net and chance.random() < 0.6:
        # Long enough for the others to give up its connections, and what they would still bring.
        shape, for_s = "cut", chance.uniform(1.3, 3.5)
    return Step(chance.uniform(0.1, 2.0), kind, tuple(victims), for_s, shape)


def directions(shape: str, order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """What is cut. `order`: all members; the first ones are the smaller side, the middle of a star..."""
    count = len(order)
    if shape == "split":
        side = order[: (count - 1) // 2]
        for one, other in itertools.product(side, order[len(side) :]):
            yield from ((one, other), (other, one))
    elif shape == "one way":
        yield (order[0], order[1])
    elif shape == "star":
        yield from itertools.permutations(order[1:], 2)
    else:
        near = {(one, other) for one in range(count) for other in ((one + 1) % count, (one - 1) % count)}
        if count == 3:
            near -= {(0, 1), (1, 0)}
        yield from (
            (order[one], order[other])
            for one, other in itertools.permutations(range(count), 2)
            if (one, other) not in near
        )
