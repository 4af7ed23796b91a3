"""A copy of a configuration with every replica on this host, and free ports."""

import contextlib
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from lxml import etree

from ..config import TCP_PROXY_SERVICE, load
from ..config.service_classes import resolve

__all__ = ["LOCAL_HOST", "write_local_copy"]

LOCAL_HOST: Final = "localhost"
_HOSTS: Final = ("server", "transient")


def write_local_copy(source: Path, target: Path) -> None:
    """Write the configuration `source` to `target`, with all replicas on this host.

    The ports of networks and of TcpProxyServices are replaced by free ones; `nat` elements are left out.
    Everything else stays. Raises ConfigError for a source that is not valid, OSError if it cannot be written.
    """
    load(source, check_imports=False)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    tree: Any = etree.parse(str(source), parser)
    networks: list[Any] = []
    services: list[Any] = []
    for element in tree.getroot().iter(etree.Element):
        tag = etree.QName(element).localname
        if tag in _HOSTS and element.get("hostname") is not None:
            element.set("hostname", LOCAL_HOST)
        elif tag == "network":
            networks.append(element)
        elif tag == "service" and resolve(element.get("class", "")) == TCP_PROXY_SERVICE:
            services.append(element)
    for element in tree.getroot().xpath("//*[local-name()='nat']"):
        element.getparent().remove(element)
    with _free_ports(len(networks) + len(services)) as ports:
        for element in networks:
            element.set("port", str(ports.pop()))
        for element in services:
            words = element.get("args", "").split()
            element.set("args", " ".join([str(ports.pop()), *words[1:]]))
    tree.write(str(target), encoding="utf-8", xml_declaration=True)


@contextlib.contextmanager
def _free_ports(count: int) -> Generator[list[int]]:
    """Give as many ports as no program listens on. They are different, and free when this ends."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
