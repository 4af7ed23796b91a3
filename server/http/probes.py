"""Whether a replica does what it is there for. Pure."""

from collections.abc import Mapping
from typing import Any

__all__ = ["readiness", "serves"]


def readiness(status: Mapping[str, Any]) -> str:
    """Return why a replica is not ready, in one sentence; "" if it is.

    A master is ready when its services run, a slave or a witness when it is in the view of a master. A slave
    that has fallen behind is ready: it still keeps what the master sends.
    """
    role = status["role"]
    if role in ("slave", "witness"):
        return ""
    if role in ("master", "daemon"):
        return serves(status)
    return str(status.get("diagnosis") or "") or f"the replica is {role}"


def serves(status: Mapping[str, Any]) -> str:
    """Return why a replica is not the master that clients use, in one sentence; "" if it is.

    Clients use any daemon of a mesh, unless the others have forgotten it.
    """
    if status["role"] == "daemon":
        return "the other daemons of the mesh have forgotten this one" if status["mesh"]["forgotten"] else ""
    if status["role"] != "master":
        return f"the replica is {status['role']}"
    if not status["serving"]:
        waits_for = status.get("waits_for")
        return str(status.get("diagnosis") or "") or f"the master waits for {waits_for or 'its services'}"
    failed: Mapping[str, str] = status.get("services_failed") or {}
    return f"services could not start: {', '.join(sorted(failed))}" if failed else ""
