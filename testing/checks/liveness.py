"""L1: recovery. After the faults, the cluster becomes whole, commits a new entry within a bound, and stays
calm.

The same is demanded of the smallest set of replicas that can do without those that stay dead (`Host.lost`).
"""

from collections.abc import Callable

from ...hachannel import ViewNumber
from ...hachannel.replication.replica_state import ReplicaState
from ...hachannel.transfer.pacing import MAX_REST_S
from ..channel.application import CELLS
from ..channel.application_driver import MAX_PIECES, PARTS
from ..channel.cluster_shape import MAX_SMALL_MESSAGE_BYTES, Shape
from ..channel.host import Host
from ..channel.recovery import HEAL_S
from ..channel.violation import Violation
from ..channel.world import World

RETRIES = 3
"""The number of times that one request may have to be repeated."""
CALM_LEASES = 3
"""The time without changes that is demanded in the end, in durations of a lease."""


def converge(
    world: World, submit: Callable[[int], bytes | None], *, lease: bool = True, quiet: bool = False
) -> float:
    """Let time pass until every replica that is not lost is in one view and has delivered a new entry.

    submit: submits a new payload at a replica, and returns None if that does not accept it. lease: the master
    must hold the lease, and keep it. quiet: clients submit nothing, so what is in flight must end by itself
    first. Returns the virtual time at which the cluster was whole. Raises Violation.
    """
    # Transfers follow one another.
    transfers_s = _log_s(world.shape) + _transfer_s(world.shape) * len(world.hosts)
    parts = {"transfers": transfers_s}
    if any(host.lost for host in world.hosts):
        parts["deaths"] = _death_s(world.shape)
    # Lost requests are repeated.
    heal_s = HEAL_S + RETRIES * world.shape.settings.retry_s
    bound = heal_s + sum(parts.values())
    limit = world.now + bound
    named = " and ".join(f"{seconds:.0f} s for {name}" for name, seconds in parts.items())
    late = f"{bound:.0f} s after healing ({heal_s:.0f} s, and {named})"
    if not _reach(world, limit, lambda: _whole(world, start=True)):
        hosts = [host for host in world.hosts if host.running]
        roles = {str(host): (host.channel.role, host.channel.members) for host in hosts}
        _fail(world, f"not whole {late}: {roles}")
    if lease and not _reach(world, limit, lambda: _whole(world, leased=True)):
        _fail(world, f"no replica holds the lease {late}")
    whole = world.now
    if quiet and not _reach(world, limit, lambda: _whole(world, start=True) and _settled(world)):
        _fail(world, f"what was under way has not ended {late}: {_indices(world)}")
    payloads: list[bytes] = []

    def fresh() -> bool:
        # A replica that stops now because it was removed may have been added again meanwhile.
        _start(world)
        if not payloads:
            master = world.master()
            payload = submit(master.replica) if master is not None else None
            if payload is None:
                return False
            payloads.append(payload)
        return _settled(world)

    if not _reach(world, limit, fresh):
        _fail(world, f"a new entry is not delivered everywhere, or not known to be: {_indices(world)}")
    if len({host.app.chain for host in seated(world) if not host.is_witness}) != 1:
        raise Violation("I15: the applications differ at the end", invariant="I15", at=world.now)
    world.observer.ended(seated(world))
    if lease:
        _calm(world, limit)
    return whole


def _transfer_s(shape: Shape) -> float:
    """Return the longest time of a state transfer: in bursts, with a rest after each."""
    settings, weather = shape.settings, shape.weather
    parts = CELLS / (1 + shape.chunk // 2) if shape.parts else MAX_PIECES
    burst_s = 2 * (weather.delay_s + weather.slow_s + settings.transfer_window * shape.snapshot_s / PARTS)
    if weather.bytes_per_s:
        burst_s += (
            settings.transfer_window * (settings.part_bytes + MAX_SMALL_MESSAGE_BYTES) / weather.bytes_per_s
        )
    rest_s = min(burst_s * (1 / settings.transfer_share - 1), MAX_REST_S)
    return 2 * shape.snapshot_s + (parts / settings.transfer_window + 1) * (burst_s + rest_s)


def _death_s(shape: Shape) -> float:
    """Return the time for which a death is unnoticed or the dead master's lease lasts, with clock drift."""
    settings = shape.settings
    return (settings.suspect_s + settings.lease_s * (1 + settings.drift)) / (1 - shape.drift)


def _log_s(shape: Shape) -> float:
    """Return the delay of messages on a connection behind a log that was sent in vain."""
    if not shape.weather.bytes_per_s:
        return 0.0
    return (
        shape.settings.max_log
        * (shape.settings.part_bytes + MAX_SMALL_MESSAGE_BYTES)
        / shape.weather.bytes_per_s
    )


def _reach(world: World, limit: float, condition: Callable[[], bool]) -> bool:
    """Let time pass until a condition holds or `limit` is reached. Return whether it holds."""
    return condition() or world.run(limit, condition)


def _settled(world: World) -> bool:
    """Return whether all entries of all replicas are delivered everywhere, and known to be."""
    copies = [host for host in seated(world) if not host.is_witness]
    last = max(host.channel.last for host in copies)
    return all(
        host.running and host.channel.applied == last == host.channel.stable and not host.channel.forwarding
        for host in copies
    )


def _indices(world: World) -> dict[str, tuple[int, ...]]:
    return {
        str(host): (host.channel.stable, host.channel.commit, host.channel.last, host.channel.forwarding)
        for host in seated(world)
    }


def _calm(world: World, limit: float) -> None:
    """Require that nothing changes any more: the view stays, and its master holds the lease.

    What was in flight when the cluster was whole, such as an orderly leave, may disturb it once.
    """
    calm_s = CALM_LEASES * world.shape.settings.lease_s
    while world.run(world.now + calm_s, lambda: not _whole(world, leased=True)):
        if not world.run(limit, lambda: _whole(world, start=True, leased=True)):
            _fail(world, "the view changes, or its master is without the lease, although nothing happens")


def seated(world: World) -> list[Host]:
    """Return the replicas of the cluster without the lost ones, as the last view lists them."""
    last: ReplicaState | None = None
    for host in world.hosts:
        if host.running and (last is None or host.state.seats.as_of > last.seats.as_of):
            last = host.state
    ids = set(world.configured) if last is None else {seat.replica for seat in last.seats.listed}
    return [host for host in world.hosts if host.replica in ids and not host.lost]


def _start(world: World) -> None:
    """Start the replicas of the cluster that do not run."""
    for host in seated(world):
        if not host.running:
            host.retired = False
            host.start()


def _whole(world: World, *, start: bool = False, leased: bool = False) -> bool:
    """Return whether all replicas of the cluster that are not lost are in one view.

    start: start those that do not run. leased: the master must hold the lease, and its application must know.
    """
    if start:
        _start(world)
    hosts = seated(world)
    copies = 0
    views: set[tuple[ViewNumber, int]] = set()
    for host in hosts:
        view = host.state.accepted
        if not host.running or host.state.leaving or view is None:
            return False
        watches = host.is_witness
        if host.channel.role not in (("witness",) if watches else ("master", "slave")):
            return False
        copies += not watches
        views.add((view.number, len(view.members)))
    if [members for _, members in views] != [copies]:
        return False
    return not leased or any(_has_lease(host) for host in hosts)


def _has_lease(host: Host) -> bool:
    return host.channel.lease.held and host.channel.holds_lease(host.clock())


def _fail(world: World, text: str) -> None:
    raise Violation(f"L1: {text}", invariant="L1", at=world.now)
