"""The reader makes records of the XML tree. It checks each value alone; wrong ones are reported and left out.

`checks` compares the elements with each other.
"""

import ipaddress
import re
from typing import cast

import attrs

from .declared_agents import read_agents, refuse_agents
from .dtd import Element
from .joram import is_encrypted, is_joram_service
from .mesh import check_mesh
from .report import Report, quoted
from .servers import (
    CONNECTION_MANAGER,
    MAX_ID,
    REPLICA_SERVICES,
    Ack,
    Durability,
    Mode,
    Nat,
    Network,
    Replica,
    Server,
    ServiceSpec,
)
from .service_classes import args_problem, class_problem, number_of, port_of, resolve

MAX_NAME = 64

EXPECTED_PROPERTY = "nbClusterExpected"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


@attrs.frozen
class NatDraft:
    """A <nat> whose server is not looked up yet."""

    sname: str
    replica: int | None
    host: str
    port: int
    line: int


@attrs.define
class ServerDraft:
    """A server, with the parts that need the whole file to be resolved."""

    server: Server
    nats: dict[int, list[NatDraft]]
    expected_at: int
    """The line that sets nbClusterExpected, 0 if none does."""


@attrs.define
class Draft:
    """The whole file, read; its elements are not compared with each other yet."""

    name: str
    properties: dict[str, str]
    domains: list[tuple[str, int]]
    causal: frozenset[str]
    """The domains with causal order."""
    servers: list[ServerDraft]
    expected: tuple[int, int] | None
    """The number and the line of an nbClusterExpected for all clusters."""


def read(config: Element, report: Report, check_imports: bool) -> Draft:
    """Read a tree whose structure has been checked. Missing parts are skipped: they are reported already."""
    properties = _properties(config, report)
    expected = _expected_property(config, report)
    domains = [
        (name, element.line)
        for element in config.all("domain")
        if (name := _domain_name(element, report)) is not None
    ]
    for element in config.all("domain"):
        network = element.get("network")
        if network and is_encrypted(network):
            report.problem(
                element.line,
                f"network={quoted(network)} encrypts the connections of the domain, and Quorate does not; "
                "remove the attribute, and use a network that you trust, or tunnels.",
            )
        elif network and not network.endswith(("PoolNetwork", "SimpleNetwork")):
            report.note(
                element.line, f"network={quoted(network)} is ignored; every domain uses the same TCP network."
            )
    servers = [_server(each, report, check_imports) for each in config.all("server", "transient", "cluster")]
    causal = frozenset(
        element.get("name") or "" for element in config.all("domain") if element.get("ordering") == "causal"
    )
    return Draft(config.get("name") or "", properties, domains, causal, servers, expected)


def _server(element: Element, report: Report, check_imports: bool) -> ServerDraft:
    clustered = element.tag == "cluster"
    identifier = _id(element, report)
    name = _name(element, identifier, report)
    nats: dict[int, list[NatDraft]] = {}
    if clustered:
        replicas: list[Replica] = []
        for child in element.all("server"):
            _refuse_cluster_attributes(child, report)
            refuse_agents(child, report)
            replica = _replica(child, _id(child, report), report, check_imports, nats)
            if replica is not None:
                replicas.append(replica)
        properties = _properties(element, report)
    else:
        only = _replica(element, 0, report, check_imports, nats)
        replicas = [only] if only else []
        properties = dict(only.properties) if only else {}
        if element.get("witness") == "true":
            report.problem(
                element.line, "only a replica of a cluster can be a witness; remove the attribute."
            )
        if element.tag == "transient" and element.get("server") is not None:
            report.note(
                element.line,
                "the attribute server of <transient> is ignored; the networks tell who reaches it.",
            )
    number, expected_at = _expected(element, report)
    if identifier is None:
        # A placeholder that no other server has: the rest of the server is checked all the same.
        identifier = -element.line
    durability = "disk" if element.get("mode") == "mesh" else _durability(element)
    _check_mode(element, report)
    ack = element.get("ack")
    server = Server(
        id=identifier,
        name=name or f"the <{element.tag}> of line {element.line}",
        clustered=clustered,
        replicas=tuple(replicas),
        mode=_mode(element),
        context="local" if element.get("context") == "local" else "replicated",
        ack=cast(Ack, ack) if ack in {"ALL", "MAJORITY"} else "ALL",
        durability=durability,
        transient=element.tag == "transient",
        properties=properties,
        expected=number or sum(not replica.witness for replica in replicas),
        min_copies=_min_copies(element, report),
        line=element.line,
        agents=read_agents(element, report, check_imports),
    )
    return ServerDraft(server, nats, expected_at)


def _replica(
    element: Element,
    identifier: int | None,
    report: Report,
    check_imports: bool,
    nats: dict[int, list[NatDraft]],
) -> Replica | None:
    host = _host(element, report)
    networks = _networks(element, host or "", report)
    services = _services(element, report, check_imports)
    properties = _properties(element, report)
    translations = [nat for each in element.all("nat") if (nat := _nat(each, report)) is not None]
    for ignored in element.all("jvmArgs"):
        report.note(ignored.line, "jvmArgs is ignored; Quorate does not run on Java.")
    witness = element.get("witness") == "true"
    if witness and any(each.class_name not in REPLICA_SERVICES for each in services):
        report.problem(element.line, "a witness runs no services; remove them from it.")
    if identifier is None:
        return None
    nats[identifier] = translations
    return Replica(
        id=identifier,
        host=host or "",
        networks=networks,
        services=services,
        properties=properties,
        line=element.line,
        witness=witness,
    )


def _refuse_cluster_attributes(element: Element, report: Report) -> None:
    for name in ("ack", "durability", "mode", "context", EXPECTED_PROPERTY):
        if element.get(name) is not None:
            report.problem(
                element.line, f"{name} is the same for all replicas; move it to the <cluster> element."
            )
    for child in element.all("property"):
        if child.get("name") == EXPECTED_PROPERTY:
            report.problem(
                child.line, f"{EXPECTED_PROPERTY} is the same for all replicas; move it into the <cluster>."
            )
    own_name = element.get("name")
    if own_name:
        report.note(
            element.line, f"the name {quoted(own_name)} of a replica is ignored; the cluster has the name."
        )


def _id(element: Element, report: Report) -> int | None:
    text = element.get("id")
    if text is None:
        return None
    number = number_of(text, 0, MAX_ID)
    if number is None:
        report.problem(
            element.line, f"the id {quoted(text)} is not usable; give a whole number from 0 to {MAX_ID}."
        )
    return number


def _name(element: Element, identifier: int | None, report: Report) -> str | None:
    text = element.get("name")
    if text is None:
        return None if identifier is None else f"s{identifier}"
    return _usable_name(text, element, f"<{element.tag}>", report)


def _usable_name(text: str, element: Element, what: str, report: Report) -> str | None:
    if _NAME.fullmatch(text) and len(text) <= MAX_NAME:
        return text
    report.problem(
        element.line,
        f"the name {quoted(text)} of {what} is not usable; begin with a letter and go on with "
        f"letters, digits, '_', '-' and '.', at most {MAX_NAME} in all.",
    )
    return None


def _domain_name(element: Element, report: Report) -> str | None:
    text = element.get("name")
    if text is not None:
        _usable_name(text, element, "<domain>", report)
    # A refused name counts as declared: the networks that use it are not reported, too.
    return text


def _host(element: Element, report: Report) -> str | None:
    text = element.get("hostname")
    if text is None:
        return None
    problem = host_problem(text)
    if problem:
        report.problem(element.line, problem)
        return None
    return text


def host_problem(text: str) -> str | None:
    """Return what is wrong with a host name or IP address, as one sentence; None if nothing is."""
    bad = f"the hostname {quoted(text)} is not usable; give a host name or an IP address"
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        labels = text.rstrip(".").split(".")
        numeric = labels[-1].isdigit()
        if len(text) > 253 or numeric or not all(_LABEL.fullmatch(label) for label in labels):
            return f"{bad}."
        return None
    if address.is_unspecified or address.is_multicast:
        return f"{bad} that others can connect to."
    return None


def _port(element: Element, report: Report) -> int | None:
    text = element.get("port")
    if text is None:
        return None
    port = port_of(text)
    if port is None:
        why = " since others must know it before they connect" if number_of(text, 0, 0) == 0 else ""
        report.problem(
            element.line, f"the port {quoted(text)} is not usable{why}; give a whole number from 1 to 65535."
        )
    return port


def _networks(element: Element, host: str, report: Report) -> tuple[Network, ...]:
    networks: list[Network] = []
    for child in element.all("network"):
        domain, port = child.get("domain"), _port(child, report)
        if domain is None:
            continue
        earlier = next((network for network in networks if network.domain == domain), None)
        if earlier is not None:
            report.problem(
                child.line,
                f"a second network in the domain {quoted(domain)} (the first: line {earlier.line}); "
                "keep one.",
            )
            continue
        # Port 0 stands for a wrong one, which is reported: the network still counts for its domain.
        networks.append(Network(domain, host, port or 0, child.line))
    return tuple(networks)


def _services(element: Element, report: Report, check_import: bool) -> tuple[ServiceSpec, ...]:
    services: list[ServiceSpec] = []
    for child in element.all("service"):
        declared, args = child.get("class"), child.get("args") or ""
        if declared is None:
            continue
        if is_joram_service(declared) and not is_encrypted(declared):
            report.note(
                child.line, f"the Java service {quoted(declared)} is ignored; Quorate has no such service."
            )
            continue
        problem = class_problem(declared, check_import)
        class_name = resolve(declared) or declared
        problem = problem or args_problem(class_name, args)
        if problem:
            report.problem(child.line, problem)
        elif class_name == CONNECTION_MANAGER and not args.split():
            report.note(
                child.line,
                "ConnectionManager has no users, so no client can connect but those of the property "
                'users_file; write args="user password", or name a file that quorate passwd has written.',
            )
        earlier = next((service for service in services if service.class_name == class_name), None)
        if earlier is not None:
            report.problem(
                child.line, f"the service {quoted(declared)} stands on line {earlier.line} already; keep one."
            )
            continue
        services.append(ServiceSpec(class_name, args, child.line, declared))
    return tuple(services)


def _properties(element: Element, report: Report) -> dict[str, str]:
    properties: dict[str, str] = {}
    for child in element.all("property"):
        name, value = child.get("name"), child.get("value")
        if name is None or value is None:
            continue
        if not name.strip():
            report.problem(child.line, "a property has an empty name; name it, or remove it.")
        elif name in properties:
            report.problem(child.line, f"the property {quoted(name)} is set twice here; keep one.")
        properties[name] = value
    return properties


def _nat(element: Element, report: Report) -> NatDraft | None:
    sname, host, port = element.get("sname"), _host(element, report), _port(element, report)
    text = element.get("replica")
    replica = number_of(text, 0, MAX_ID) if text is not None else None
    if text is not None and replica is None:
        report.problem(element.line, f"the replica {quoted(text)} is not usable; give the id of a replica.")
        return None
    if sname is None or host is None or port is None:
        return None
    return NatDraft(sname, replica, host, port, element.line)


def _durability(element: Element) -> Durability:
    """Return where a server keeps its state: on disk, unless it is transient or the file says otherwise."""
    if element.tag == "transient" or element.get("durability") == "memory":
        return "memory"
    return "disk"


def _min_copies(element: Element, report: Report) -> int:
    text = element.get("min_copies")
    number = number_of(text, 1, MAX_ID) if text is not None else 1
    if number is None:
        report.problem(
            element.line, f"min_copies must be a number of replicas, at least 1, not {quoted(text or '')}."
        )
    return number or 1


def _mode(element: Element) -> Mode:
    text = element.get("mode")
    return "group" if text == "group" else "mesh" if text == "mesh" else "ha"


def _check_mode(element: Element, report: Report) -> None:
    mode = element.get("mode")
    if mode == "mesh":
        check_mesh(element, report)
        return
    context = element.get("context")
    if context is not None and mode != "group":
        report.problem(
            element.line, 'context belongs to mode="group"; remove it, or write mode="group" beside it.'
        )
    elif context == "local" and _durability(element) == "memory":
        report.problem(
            element.line,
            'context="local" keeps what clients have not got on the disks of their replicas; write '
            'durability="disk", or context="replicated".',
        )


def _expected_property(element: Element, report: Report) -> tuple[int, int] | None:
    for child in element.all("property"):
        value = child.get("value")
        if child.get("name") == EXPECTED_PROPERTY and value is not None:
            number = _expected_number(value, child, report)
            return None if number is None else (number, child.line)
    return None


def _expected_number(text: str, element: Element, report: Report) -> int | None:
    number = number_of(text, 1, MAX_ID)
    if number is None:
        report.problem(
            element.line,
            f"{EXPECTED_PROPERTY} must be a number of replicas, more than half of them, not {quoted(text)}.",
        )
    return number


def _expected(element: Element, report: Report) -> tuple[int | None, int]:
    """Return nbClusterExpected, from the attribute or the property, and its line; (None, 0) without both."""
    text, inner = element.get(EXPECTED_PROPERTY), _expected_property(element, report)
    number = _expected_number(text, element, report) if text is not None else None
    if number is not None and inner is not None and inner[0] != number:
        report.problem(
            inner[1], f"{EXPECTED_PROPERTY} is {inner[0]} here and {number} on line {element.line}; keep one."
        )
    if number is not None:
        return number, element.line
    return inner or (None, 0)


def nat_target(draft: NatDraft, servers: list[Server], line: int, report: Report) -> Nat | None:
    """Resolve the server and replica of a <nat>; the replica may be left out if the server has only one."""
    target = next((server for server in servers if draft.sname in {server.name, str(server.id)}), None)
    if target is None:
        report.problem(
            line, f"there is no server {quoted(draft.sname)} to give another address; correct sname."
        )
        return None
    replica = draft.replica
    if replica is None:
        if len(target.replicas) != 1:
            report.problem(line, f'{target.name} has several replicas; say which one: replica="...".')
            return None
        replica = target.replicas[0].id
    elif replica not in target.replica_ids:
        report.problem(line, f"{target.name} has no replica {replica}; correct replica.")
        return None
    return Nat(target.id, replica, draft.host, draft.port, line)
