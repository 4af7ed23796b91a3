"""A copy of a configuration with every replica on this host, and free ports."""

import re
from pathlib import Path
from typing import Any, Final

from lxml import etree

from ...client.url import SCHEME
from ..config import PORT_SERVICES, load
from ..config.digest import PLACE_PROPERTIES
from ..config.service_classes import resolve
from .free_ports import free_ports

__all__ = ["LOCAL_HOST", "write_local_copy"]

LOCAL_HOST: Final = "localhost"
_HOSTS: Final = ("server", "transient")


def write_local_copy(source: Path, target: Path) -> None:
    """Write the configuration `source` to `target`, with all replicas on this host.

    The ports of networks and of services for clients are replaced by free ones, also in the URLs of these
    services that other services have as arguments; `nat` elements are left out. Everything else stays.
    If `target` exists, its ports are used again: replicas know each other by them.
    Raises ConfigError for a source that is not valid, ValueError if `target` has another number of ports,
    OSError if it cannot be written.
    """
    load(source, check_imports=False)
    tree = _parsed(source)
    addresses = _addresses(tree)
    for element in tree.getroot().iter(etree.Element):
        if etree.QName(element).localname in _HOSTS and element.get("hostname") is not None:
            element.set("hostname", LOCAL_HOST)
    for element in tree.getroot().xpath("//*[local-name()='property']"):
        name = "value" if element.get("name") in PLACE_PROPERTIES else "file"
        if element.get(name):
            element.set(name, str(source.parent.absolute() / element.get(name)))
    for element in tree.getroot().xpath("//*[local-name()='nat']"):
        element.getparent().remove(element)
    networks, services = _with_ports(tree)
    count = len(networks) + len(services)
    earlier = _ports(_parsed(target)) if target.exists() else None
    if earlier is not None and len(earlier) != count:
        raise ValueError(
            f"{target} was made for {len(earlier)} ports, and {source} has {count}; remove the data of the "
            "earlier run, or use another directory"
        )
    ports = iter(earlier or map(str, free_ports(count)))
    for element in networks:
        element.set("port", next(ports))
    for element in services:
        words = element.get("args", "").split()
        element.set("args", " ".join([next(ports), *words[1:]]))
    _replace_urls(tree, addresses)
    tree.write(str(target), encoding="utf-8", xml_declaration=True)


def _parsed(path: Path) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    return etree.parse(str(path), parser)


def _with_ports(tree: Any) -> tuple[list[Any], list[Any]]:
    """Return the elements with ports: the networks, and the services for clients."""
    networks: list[Any] = []
    services: list[Any] = []
    for element in tree.getroot().iter(etree.Element):
        tag = etree.QName(element).localname
        if tag == "network":
            networks.append(element)
        elif tag == "service" and resolve(element.get("class", "")) in PORT_SERVICES:
            services.append(element)
    return networks, services


def _addresses(tree: Any) -> dict[str, Any]:
    """Return the services for clients, by their addresses: ``oslo:2560``."""
    found: dict[str, Any] = {}
    for element in _with_ports(tree)[1]:
        host = element.getparent().get("hostname", LOCAL_HOST)
        found[f"{host}:{element.get('args', '').split()[0]}"] = element
    return found


def _replace_urls(tree: Any, addresses: dict[str, Any]) -> None:
    """Put the present ports of services for clients into the URLs that arguments of services have."""

    def replaced(url: re.Match[str]) -> str:
        present = [
            each if each not in addresses else f"{LOCAL_HOST}:{addresses[each].get('args').split()[0]}"
            for each in url[1].split(",")
        ]
        return SCHEME + ",".join(present)

    for element in tree.getroot().xpath("//*[local-name()='service']"):
        if SCHEME in element.get("args", ""):
            element.set("args", re.sub(rf"{SCHEME}(\S+)", replaced, element.get("args")))


def _ports(tree: Any) -> list[str]:
    networks, services = _with_ports(tree)
    return [*(each.get("port") for each in networks), *(each.get("args").split()[0] for each in services)]
