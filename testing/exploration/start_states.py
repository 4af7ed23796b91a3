"""Where explorations begin: small clusters in the middle of what is hard, and what may still happen to them.

Each function says what is under way; the budget says what may happen besides the arrival of every message.
"""

from collections.abc import Callable

import attrs

from ...hachannel import Channel, Settings
from ...hachannel.model.messages import RECONFIG, Reconfig, decode_reconfig
from ..channel.cluster_shape import Shape
from .network import Budget
from .world import CALM, ExploredWorld

__all__ = ["START_STATES", "Start"]

Kind = Callable[..., Channel]
"""Which class of replicas; one that is broken on purpose, perhaps."""
Start = Callable[[Kind], ExploredWorld]

MAJORITY = attrs.evolve(CALM, mode="MAJORITY")


def _formed(
    replicas: int,
    channel: Kind,
    settings: Settings = CALM,
    *,
    running: int | None = None,
    timed: bool = False,
    synced_at_once: bool = True,
    entries: int = 1,
    **shape: object,
) -> ExploredWorld:
    """A cluster whose first view is active, with some entries committed. Replica 0 is master."""
    number = replicas if running is None else running
    settled: dict[str, object] = {"replicas": replicas, "expected": number, "settings": settings, **shape}
    world = ExploredWorld(Shape(**settled), channel, timed=timed)  # type: ignore[arg-type]
    for replica in range(number):
        world.do(("start", replica, replica))
    world.link_up(range(number))
    world.settle()
    for _ in range(entries):
        world.do(("submit", 0, 0))
    world.settle()
    world.pending.synced_at_once = synced_at_once
    return world


def _appended(world: ExploredWorld, *, add: bool) -> bool:
    """Whether the master has appended that a voter comes, or goes, and nobody knows of it."""
    for host in world.explored:
        log = host.state.log if host.running and host.channel.role == "master" else None
        if log is not None and log.last.at > host.state.commit:
            entry = log.get(log.last.at)
            change = decode_reconfig(entry.payload) if entry.kind == RECONFIG else None
            if isinstance(change, Reconfig) and change.add == add:
                return True
    return False


def _quiet(channel: Kind) -> ExploredWorld:
    """Three replicas, nothing under way."""
    world = _formed(3, channel)
    world.budget = Budget(crash=1, cut=1, tick=1, submit=1, stay=1)
    return world


def _view_change(channel: Kind) -> ExploredWorld:
    """The master of three has crashed with an entry on its way that one slave has."""
    world = _formed(3, channel)
    world.do(("submit", 0, 0), ("deliver", 0, 1), ("crash", 0, 0))
    world.budget = Budget(tick=2, cut=1, stay=1)
    return world


def _two_proposers(channel: Kind) -> ExploredWorld:
    """Master and slave of three have lost each other, with an entry on its way: both may propose."""
    world = _formed(3, channel)
    world.do(("submit", 0, 0), ("cut", 0, 1))
    world.budget = Budget(tick=2, late=1)
    return world


def _majority(channel: Kind) -> ExploredWorld:
    """Three replicas that commit by majority; an entry is on its way."""
    world = _formed(3, channel, MAJORITY)
    world.do(("submit", 0, 0))
    world.budget = Budget(crash=1, cut=1, tick=1, stay=1)
    return world


def _back(channel: Kind) -> ExploredWorld:
    """One of three has crashed and comes back without its memory."""
    world = _formed(3, channel)
    world.do(("crash", 2, 0))
    world.settle()
    world.do(("start", 2, 2), ("connect", 0, 2), ("connect", 1, 2))
    world.budget = Budget(crash=1, tick=2, stay=1)
    return world


def _incarnations(channel: Kind) -> ExploredWorld:
    """A replica has come back without its memory; its old voter is listed still."""
    return _back(channel)


def _adding(channel: Kind) -> ExploredWorld:
    """The master has just appended that the new life of a replica is a voter."""
    world = _back(channel)
    world.until(lambda: _appended(world, add=True))
    return world


def _removing(channel: Kind) -> ExploredWorld:
    """The master of four has just appended that a replica is removed."""
    world = _formed(4, channel)
    world.do(("remove", 0, 3))
    world.budget = Budget(crash=1, tick=1, stay=1)
    return world


def _add_then_remove(channel: Kind) -> ExploredWorld:
    """Of three one is cut off; a fourth was added since, and now another one of the three is removed."""
    world = _formed(4, channel, MAJORITY, running=3)
    world.do(("cut", 0, 1), ("cut", 1, 2))
    world.settle()
    world.do(("start", 3, 3), ("connect", 0, 3), ("connect", 2, 3))
    world.until(lambda: world.explored[0].channel.members == (0, 2, 3))
    world.settle()
    world.do(("remove", 0, 2))
    world.budget = Budget(crash=1, tick=1, stay=1)
    return world


def _witness(channel: Kind) -> ExploredWorld:
    """Of two replicas with disks and a witness one crashed, the other one went on alone and crashed, too."""
    world = _formed(3, channel, witnesses=1, disk=True)
    world.do(("crash", 1, 0))
    world.settle()
    world.do(("submit", 0, 0))
    world.settle()
    world.do(("crash", 0, 0))
    world.budget = Budget(crash=1, cut=1, tick=2)
    return world


def _copies(channel: Kind) -> ExploredWorld:
    """Two replicas and a witness that want two copies; an entry is on its way."""
    world = _formed(3, channel, attrs.evolve(CALM, min_copies=2), witnesses=1)
    world.do(("submit", 0, 0))
    world.budget = Budget(crash=1, tick=2, submit=1)
    return world


def _leases(channel: Kind) -> ExploredWorld:
    """The master of three holds the lease. Time is the same for all."""
    settings = attrs.evolve(CALM, heartbeat_s=1.0, retry_s=1.0, lease_s=2.0)
    world = _formed(3, channel, settings, timed=True)
    world.do(("tick", -1, -1), ("deliver", 0, 1), ("deliver", 0, 2))
    world.budget = Budget(cut=2, tick=2, apart=1)
    return world


def _gate(channel: Kind) -> ExploredWorld:
    """A slave was dropped; what it said of the old master is still on its way to the other slave."""
    world = _formed(3, channel)
    world.do(("cut", 0, 2))
    for _ in range(4):
        for pair in ((0, 1), (1, 0)):
            while pair in world.network.waiting:
                world.do(("deliver", *pair))
        world.do(("tick", 0, 0))
    world.budget = Budget(cut=1, tick=1)
    return world


def _transfer(channel: Kind) -> ExploredWorld:
    """A fourth replica receives the state of the other three in parts."""
    world = _formed(4, channel, running=3, parts=True, fresh=True, chunk=1, entries=4)
    world.do(("start", 3, 3))
    world.link_up(range(4))
    world.until(lambda: world.explored[0].channel.phases.giving == "state")
    world.budget = Budget(crash=1, tick=2, submit=1, stay=1)
    return world


def _disks(channel: Kind) -> ExploredWorld:
    """Three replicas with disks; an entry is on its way, and no write is durable by itself."""
    world = _formed(3, channel, disk=True, synced_at_once=False)
    world.do(("submit", 0, 0))
    world.budget = Budget(outage=1, tick=1)
    return world


def _forward(channel: Kind) -> ExploredWorld:
    """A slave of three has submitted; messages are lost, doubled and reordered."""
    world = _formed(3, channel)
    world.do(("forward", 1, 1), ("forward", 1, 1))
    world.budget = Budget(crash=1, tick=1, lose=1, twice=1, overtake=1, stay=1)
    return world


START_STATES: dict[str, Start] = {
    "quiet": _quiet,
    "majority": _majority,
    "view-change": _view_change,
    "two-proposers": _two_proposers,
    "gate": _gate,
    "incarnations": _incarnations,
    "adding": _adding,
    "removing": _removing,
    "add-then-remove": _add_then_remove,
    "witness": _witness,
    "copies": _copies,
    "leases": _leases,
    "transfer": _transfer,
    "disks": _disks,
    "forward": _forward,
}
"""By name."""
