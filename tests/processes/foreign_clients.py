"""A cluster with a service for clients of a foreign protocol."""

from pathlib import Path

from quorate import Servers
from quorate.server.config import load


def cluster(service: str, *queues: str, topics: str = '<topic name="prices"/>', **properties: str) -> str:
    """Return a configuration: three replicas with the users root and anna, queues and topics.

    service: the short name of its class; its port is the one after that of the TcpProxyService.
    """
    given = {"trace": "false", "secret": "hidden", "administrators": "root", **properties}
    declared = "".join(f'<property name="{name}" value="{value}"/>' for name, value in given.items())
    replicas = "".join(
        f'<server id="{number}" hostname="localhost"><network domain="D1" port="{16301 + number}"/>'
        '<service class="ConnectionManager" args="root root anna anna"/>'
        f'<service class="TcpProxyService" args="{port}"/><service class="{service}" args="{port + 1}"/>'
        "</server>"
        for number, port in enumerate((2560, 2570, 2580))
    )
    destinations = "".join(f'<queue name="{name}"/>' for name in queues) + topics
    return (
        f'<config>{declared}<domain name="D1"/>'
        f'<cluster id="0" name="s0">{replicas}{destinations}</cluster></config>'
    )


def daemons() -> str:
    """Return a configuration: a mesh of three daemons, each with a port for HTTP."""
    declared = "".join(
        f'<server id="{number}" hostname="localhost"><network domain="D1" port="{16701 + number}"/>'
        '<service class="ConnectionManager" args="root root"/>'
        f'<service class="MeshService" args="{2701 + number}"/>'
        f'<service class="HttpService" args="{9464 + number}"/></server>'
        for number in range(3)
    )
    return (
        '<config><domain name="D1"/><property name="administrators" value="root"/>'
        '<property name="insecure_network" value="true"/>'
        f'<cluster id="0" name="m0" mode="mesh">{declared}</cluster></config>'
    )


TLS = {
    "tls_certificate": "certs/{server}-{replica}.pem",
    "tls_key": "certs/{server}-{replica}.key",
    "tls_ca": "certs/ca.pem",
    "rights_file": "rights",
}
"""Properties for the certificates of `quorate certs`, and for a file of rights."""


def service_ports(servers: Servers, service: str, server: str = "s0") -> list[int]:
    """Return the ports of a service by its class: of the replicas, of which one is master."""
    found = [replica.service(service) for replica in load(servers.config.path).server(server).replicas]
    ports = [int(each.args) for each in found if each is not None]
    assert ports, f"no replica has {service}"
    return ports


def running(directory: Path, text: str) -> Servers:
    """Return the servers of a configuration, whose file and data are in a directory."""
    path = directory / "a3servers.xml"
    path.write_text(text)
    return Servers(path, free_ports=True, data=directory / "data")
