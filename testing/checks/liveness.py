"""L1: once faults stop and a majority is connected, a new entry commits within a bound."""

from collections.abc import Callable

from ..channel_world import Host, Violation, World

HEAL_S = 20.0
"""Virtual seconds within which a healed cluster must be whole again, and a new entry everywhere; besides
what the application takes for snapshots."""


def converge(world: World, submit: Callable[[int], bytes | None]) -> float:
    """Let time pass until every replica is a member of one view and has delivered a new entry.

    submit: gives a new payload to a replica, None when it does not take it. Returns when the cluster was
    whole. Raises Violation.
    """
    # Transfers follow one another, and the application may take its time with each.
    bound = HEAL_S + 2 * world.shape.snapshot_s * len(world.hosts)
    limit = world.now + bound
    if not world.run(limit, lambda: _whole(world)):
        hosts = [host for host in world.hosts if host.running]
        roles = {str(host): (host.channel.role, host.channel.members) for host in hosts}
        _fail(world, f"not whole {bound:.0f} s after healing: {roles}")
    whole = world.now
    limit = max(limit, whole + _drain_s(world))
    payloads: list[bytes] = []

    def fresh() -> bool:
        if not payloads:
            master = world.master()
            payload = submit(master.replica) if master is not None else None
            if payload is None:
                return False
            payloads.append(payload)
        hosts = _listed(world)
        last = max(host.channel.last for host in hosts)
        return all(
            host.running and host.channel.applied == last and not host.channel.forwarding
            for host in hosts
            if not host.watches
        )

    if not world.run(limit, fresh):
        indices = {str(host): (host.channel.commit, host.channel.last) for host in _listed(world)}
        _fail(world, f"a new entry is not delivered everywhere: {indices}")
    if len({host.app.chain for host in _listed(world) if not host.watches}) != 1:
        raise Violation("I15: the applications differ at the end", invariant="I15", at=world.now)
    return whole


def _drain_s(world: World) -> float:
    """How long what is queued, and one entry more, may take where one entry goes after the other."""
    weather = world.net.weather
    queued = sum(host.channel.forwarding + host.channel.last - host.channel.commit for host in _listed(world))
    return HEAL_S / 2 + (queued + 1) * 2 * (weather.delay_s + weather.slow_s)


def _listed(world: World) -> list[Host]:
    """The replicas of the cluster, as those know that are in its last view."""
    running = [host for host in world.hosts if host.running]
    last = max(running, key=lambda host: host.state.seats_of, default=None)
    ids = set(world.configured) if last is None else {seat.replica for seat in last.channel.seats}
    return [host for host in world.hosts if host.replica in ids]


def _whole(world: World) -> bool:
    hosts = _listed(world)
    for host in hosts:
        if not host.running:
            host.retired = False
            host.start()
    channels = [host.channel for host in hosts]
    copies = sum(not host.watches for host in hosts)
    return (
        all(
            host.channel.role in (("witness",) if host.watches else ("master", "slave"))
            and len(host.channel.members) == copies
            for host in hosts
        )
        and len({channel.view.number for channel in channels if channel.view is not None}) == 1
        and (any(host.channel.holds_lease(host.clock()) for host in hosts) or not _leases_last(world))
    )


def _leases_last(world: World) -> bool:
    """Whether a grant always comes back before it is over: on too slow a network there is no lease."""
    weather, settings = world.net.weather, world.shape.settings
    return settings.lease_s > 2 * (weather.delay_s + weather.slow_s + settings.heartbeat_s)


def _fail(world: World, text: str) -> None:
    raise Violation(f"L1: {text}", invariant="L1", at=world.now)
