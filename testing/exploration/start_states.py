"""The start states of explorations: small clusters in the middle of something difficult, and their budgets.

The docstring of each function is printed by `quorate explore --list`. Messages may always arrive; the budget
is for other events.
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
"""Makes the channels; for a protocol that is broken on purpose, another class."""
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
    """Return a cluster whose first view is active, with committed entries. Replica 0 is master."""
    number = replicas if running is None else running
    settled: dict[str, object] = {"replicas": replicas, "expected": number, "settings": settings, **shape}
    world = ExploredWorld(Shape(**settled), channel, timed=timed)  # type: ignore[arg-type]
    for replica in range(number):
        world.prepare(("start", replica, replica))
    world.connect_all(range(number))
    world.settle()
    for _ in range(entries):
        world.prepare(("submit", 0, 0))
    world.settle()
    world.pending.synced_at_once = synced_at_once
    return world


def _appended(world: ExploredWorld, *, add: bool) -> bool:
    """Return whether the master has appended a RECONFIG that adds or removes a voter, uncommitted."""
    for host in world.explored:
        log = host.state.log if host.running and host.channel.role == "master" else None
        if log is not None and log.last.at > host.state.replicated.commit:
            entry = log.get(log.last.at)
            change = decode_reconfig(entry.payload) if entry.kind == RECONFIG else None
            if isinstance(change, Reconfig) and change.add == add:
                return True
    return False


def _quiet(channel: Kind) -> ExploredWorld:
    """Three replicas, with nothing in flight."""
    world = _formed(3, channel)
    world.budget = Budget(crash=1, cut=1, tick=1, submit=1, stay=1)
    return world


def _view_change(channel: Kind) -> ExploredWorld:
    """The master of three has crashed; one slave has an entry that the other lacks."""
    world = _formed(3, channel)
    world.prepare(("submit", 0, 0), ("deliver", 0, 1), ("crash", 0, 0))
    world.budget = Budget(tick=2, cut=1, stay=1)
    return world


def _two_proposers(channel: Kind) -> ExploredWorld:
    """Master and slave of three have lost their connection, with an entry in flight: both may propose."""
    world = _formed(3, channel)
    world.prepare(("submit", 0, 0), ("cut", 0, 1))
    world.budget = Budget(tick=2, late=1)
    return world


def _majority(channel: Kind) -> ExploredWorld:
    """Three replicas that commit by majority; an entry is in flight."""
    world = _formed(3, channel, MAJORITY)
    world.prepare(("submit", 0, 0))
    world.budget = Budget(crash=1, cut=1, tick=1, stay=1)
    return world


def _back(channel: Kind) -> ExploredWorld:
    """One of three has crashed and returns without its memory."""
    world = _formed(3, channel)
    world.prepare(("crash", 2, 0))
    world.settle()
    world.prepare(("start", 2, 2), ("connect", 0, 2), ("connect", 1, 2))
    world.budget = Budget(crash=1, tick=2, stay=1)
    return world


def _incarnations(channel: Kind) -> ExploredWorld:
    """A replica has returned without its memory; its old voter is still listed."""
    return _back(channel)


def _adding(channel: Kind) -> ExploredWorld:
    """The master has just appended the RECONFIG that adds the new voter of a replica."""
    world = _back(channel)
    world.until(lambda: _appended(world, add=True))
    return world


def _removing(channel: Kind) -> ExploredWorld:
    """The master of four has just appended the removal of a replica."""
    world = _formed(4, channel)
    world.prepare(("remove", 0, 3))
    world.budget = Budget(crash=1, tick=1, stay=1)
    return world


def _add_then_remove(channel: Kind) -> ExploredWorld:
    """One of three is cut off; a fourth replica was added since, and now one of the three is removed."""
    world = _formed(4, channel, MAJORITY, running=3)
    world.prepare(("cut", 0, 1), ("cut", 1, 2))
    world.settle()
    world.prepare(("start", 3, 3), ("connect", 0, 3), ("connect", 2, 3))
    world.until(lambda: world.explored[0].channel.members == (0, 2, 3))
    world.settle()
    world.prepare(("remove", 0, 2))
    world.budget = Budget(crash=1, tick=1, stay=1)
    return world


def _witness(channel: Kind) -> ExploredWorld:
    """Two replicas with disks and a witness: one crashed, the other went on alone and crashed, too."""
    world = _formed(3, channel, witnesses=1, disk=True)
    world.prepare(("crash", 1, 0))
    world.settle()
    world.prepare(("submit", 0, 0))
    world.settle()
    world.prepare(("crash", 0, 0))
    world.budget = Budget(crash=1, cut=1, tick=2)
    return world


def _copies(channel: Kind) -> ExploredWorld:
    """Two replicas and a witness with min_copies 2; an entry is in flight."""
    world = _formed(3, channel, attrs.evolve(CALM, min_copies=2), witnesses=1)
    world.prepare(("submit", 0, 0))
    world.budget = Budget(crash=1, tick=2, submit=1)
    return world


def _leases(channel: Kind) -> ExploredWorld:
    """The master of three holds the lease; all clocks agree."""
    settings = attrs.evolve(CALM, heartbeat_s=1.0, retry_s=1.0, lease_s=2.0)
    world = _formed(3, channel, settings, timed=True)
    world.prepare(("tick", -1, -1), ("deliver", 0, 1), ("deliver", 0, 2))
    world.budget = Budget(cut=2, tick=2, apart=1)
    return world


def _gate(channel: Kind) -> ExploredWorld:
    """A slave was dropped; its EXIT about the old master is in flight to the other slave."""
    world = _formed(3, channel)
    world.prepare(("cut", 0, 2))
    for _ in range(4):
        for pair in ((0, 1), (1, 0)):
            while pair in world.network.waiting:
                world.prepare(("deliver", *pair))
        world.prepare(("tick", 0, 0))
    world.budget = Budget(cut=1, tick=1)
    return world


def _transfer(channel: Kind) -> ExploredWorld:
    """A fourth replica receives the state in parts."""
    world = _formed(4, channel, running=3, parts=True, fresh=True, chunk=1, entries=4)
    world.prepare(("start", 3, 3))
    world.connect_all(range(4))
    world.until(lambda: world.explored[0].channel.phases.giving == "state")
    world.budget = Budget(crash=1, tick=2, submit=1, stay=1)
    return world


def _disks(channel: Kind) -> ExploredWorld:
    """Three replicas with disks; an entry is in flight, and every sync is an event."""
    world = _formed(3, channel, disk=True, synced_at_once=False)
    world.prepare(("submit", 0, 0))
    world.budget = Budget(outage=1, tick=1)
    return world


def _forward(channel: Kind) -> ExploredWorld:
    """A slave of three has submitted; messages are lost, duplicated and reordered."""
    world = _formed(3, channel)
    world.prepare(("forward", 1, 1), ("forward", 1, 1))
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
"""The start states by name."""
