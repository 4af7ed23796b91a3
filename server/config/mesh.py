"""What a server with ``mode="mesh"`` may declare: a cluster of daemons, without agents and a master."""

from .destinations import DESTINATION_TAGS
from .dtd import Element
from .report import Report
from .servers import CONNECTION_MANAGER, HTTP_SERVICE, MESH_SERVICE, Server

__all__ = ["check_mesh", "check_mesh_services"]

_FOREIGN = ("ack", "min_copies", "context", "nbClusterExpected")


def check_mesh(element: Element, report: Report) -> None:
    """Check the attributes and elements of a <cluster> with ``mode="mesh"``."""
    for name in _FOREIGN:
        if element.get(name) is not None:
            report.problem(
                element.line, f"{name} means nothing in a mesh, whose daemons go on alone; remove it."
            )
    if element.get("durability") == "memory":
        report.problem(
            element.line,
            'a mesh keeps what it takes on the disks of its daemons; remove durability="memory".',
        )
    for child in element.all("agent", *DESTINATION_TAGS):
        report.problem(
            child.line,
            f"a mesh has no agents, queues or topics of the file; remove <{child.tag}>, and create topics "
            "with `quorate mesh create`.",
        )
    for child in element.all("server"):
        if child.get("witness") == "true":
            report.problem(child.line, "a mesh needs no witness; remove it.")


def check_mesh_services(server: Server, report: Report) -> None:
    """Check that a mesh has its service on each replica, and only such others as a daemon can run."""
    for replica in server.replicas:
        service = replica.service(MESH_SERVICE)
        if server.mode != "mesh":
            if service is not None:
                report.problem(service.line, 'MeshService needs a <cluster> with mode="mesh"; remove it.')
            continue
        if service is None:
            report.problem(
                replica.line,
                "a daemon of a mesh needs the service that clients connect to; add "
                f'<service class="{MESH_SERVICE}" args="2560"/>.',
            )
        if replica.service(CONNECTION_MANAGER) is None:
            report.problem(
                replica.line,
                "a daemon of a mesh needs a ConnectionManager, which knows the users; add "
                f'<service class="{CONNECTION_MANAGER}" args="user password"/>.',
            )
        for other in replica.services:
            if other.class_name not in (MESH_SERVICE, CONNECTION_MANAGER, HTTP_SERVICE):
                report.problem(
                    other.line,
                    f"a mesh has no master, so it cannot run {other.short_name}; remove the service.",
                )
        if not replica.networks:
            report.problem(
                replica.line,
                "a daemon of a mesh needs a network, on which it meets the others; add <network .../>.",
            )
