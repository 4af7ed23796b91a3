"""The conditions under which a cluster must recover within the bound once its faults are over."""

from .cluster_shape import Shape

__all__ = ["HEAL_S", "MAX_LATE_S", "recovery_obstacle"]

HEAL_S = 20.0
"""The virtual seconds within which a healed cluster must be whole and deliver a new entry, besides state
transfers."""
MAX_LOSS = 0.1
"""The highest fraction of messages that may be lost for good. TCP loses none; a fault may lose more for a
while."""
MAX_BROKEN_S = HEAL_S / 2
"""The longest time until a broken connection is noticed, or made again, in seconds."""
MAX_LATE_S = HEAL_S / 2
"""The longest delay after the faults of what they have delayed, messages and syncs, in seconds."""
TIMEOUTS = ("suspect_s", "lease_s", "view_change_s", "rank_delay_s", "retry_s", "boot_wait_s", "leave_s")


def recovery_obstacle(shape: Shape) -> str:
    """Return why a cluster of that shape need not recover, in one sentence; "" if it must."""
    weather, settings = shape.weather, shape.settings
    if weather.loss_chance > MAX_LOSS:
        return (
            f"loss_chance is {weather.loss_chance:g}, and with more than {MAX_LOSS} for good no cluster need "
            "recover: use the fault loss, which ends"
        )
    for name in ("reconnect_s", "notice_s"):
        value = getattr(weather, name)
        if value > MAX_BROKEN_S:
            return f"{name} is {value:g}: at most {MAX_BROKEN_S:g}, or the cluster need not recover in time"
    times = {name: getattr(settings, name) for name in TIMEOUTS} | {"stop_s": shape.stop_s}
    for name, value in times.items():
        if value > HEAL_S:
            return f"{name} is {value:g}: at most {HEAL_S:g}, the time in which a cluster must recover"
    trip_s = 2 * (weather.delay_s + weather.slow_chance * weather.slow_s)
    limit_s = min(settings.view_change_s, HEAL_S / 4)
    if trip_s > limit_s:
        return (
            f"a message and its answer take {trip_s:.3g} s in this network, and a view change has "
            f"{limit_s:.3g}: lower delay_s and slow_s, or raise view_change_s (up to {HEAL_S / 4:g} counts)"
        )
    if weather.slow_chance and weather.slow_s > settings.suspect_s:
        return (
            f"slow_s is {weather.slow_s:g}, and after suspect_s, {settings.suspect_s:g}, a replica is taken "
            "for dead: lower the one or raise the other"
        )
    if shape.disk and 2 * shape.sync_s > limit_s:
        return (
            f"sync_s is {shape.sync_s:g}, and a view change has {limit_s:.3g} s for two syncs: lower it, or "
            f"raise view_change_s (up to {HEAL_S / 4:g} counts)"
        )
    return ""
