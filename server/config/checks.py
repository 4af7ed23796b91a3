"""Checks between the elements of a configuration: unique ids, free ports, equal replicas, routes."""

import ipaddress

import attrs

from .causal_domains import check_causal_domains
from .destinations import check_destinations
from .digest import USERS_FILE_PROPERTY
from .mesh import check_mesh_services
from .reader import EXPECTED_PROPERTY, Draft, ServerDraft, nat_target
from .report import Report, quoted
from .servers import CONNECTION_MANAGER, PORT_SERVICES, TCP_PROXY_SERVICE, Nat, Replica, Server

MAX_REPLICAS = 15
"""Every replica processes all entries: more replicas make a cluster slower, not faster."""


def check(draft: Draft, report: Report) -> tuple[Server, ...]:
    """Compare what was read; return the servers, with <nat> and nbClusterExpected resolved."""
    _check_unique(draft, report)
    _check_ports(draft, report)
    if not report.broken:
        # While the structure is wrong, a misspelt element would be reported again as a missing one.
        all_declared = _check_domains(draft, report)
        for each in draft.servers:
            _check_replicas(each.server, report)
            _check_services(draft, each.server, report)
        _check_networks(draft, report)
        check_destinations([each.server for each in draft.servers], report)
        if all_declared:
            # Otherwise these would report a misspelt domain once more.
            for each in draft.servers:
                _check_replica_domains(each.server, report)
            _check_reachable(draft, report)
            check_causal_domains(draft.domains, draft.causal, [each.server for each in draft.servers], report)
    return tuple(_resolved(each, draft, report) for each in draft.servers)


def _resolved(each: ServerDraft, draft: Draft, report: Report) -> Server:
    server, replicas = each.server, list[Replica]()
    everyone = [other.server for other in draft.servers]
    for replica in server.replicas:
        nats: list[Nat] = []
        for nat in each.nats.get(replica.id, []):
            if report.broken:
                continue
            resolved = nat_target(nat, everyone, nat.line, report)
            if resolved and (resolved.server, resolved.replica) in {
                (one.server, one.replica) for one in nats
            }:
                report.problem(nat.line, f"a second nat for {quoted(nat.sname)} here; keep one.")
            elif resolved:
                nats.append(resolved)
        replicas.append(attrs.evolve(replica, nats=tuple(nats)))
    expected, line = server.expected, each.expected_at
    if not line and server.clustered and draft.expected is not None:
        expected, line = draft.expected
    if line and not report.broken:
        _check_expected(server, expected, line, report)
    return attrs.evolve(server, replicas=tuple(replicas), expected=expected)


def _check_expected(server: Server, expected: int, line: int, report: Report) -> None:
    objection = server.objection(expected) if server.copies else ""
    if objection:
        report.problem(line, f"{EXPECTED_PROPERTY} is {expected}, but {server.name} {objection}.")


def _check_unique(draft: Draft, report: Report) -> None:
    domains: dict[str, int] = {}
    for name, line in draft.domains:
        if name in domains:
            report.problem(
                line, f"the domain {quoted(name)} is declared on line {domains[name]} already; keep one."
            )
        else:
            domains[name] = line
    ids: dict[int, Server] = {}
    names: dict[str, Server] = {}
    for each in draft.servers:
        server = each.server
        first = ids.setdefault(server.id, server)
        if server.id < 0 or " " in server.name:
            continue  # a refused id or name, which is reported already
        if first is not server:
            report.problem(
                server.line,
                f"the id {server.id} is that of {first.name} (line {first.line}) already; give another.",
            )
        same_id = first is not server
        first = names.setdefault(server.name, server)
        if first is not server and not (same_id and server.name == f"s{server.id}"):
            report.problem(
                server.line,
                f"the name {quoted(server.name)} is taken (line {first.line}); give another name.",
            )
        replicas: dict[int, Replica] = {}
        for replica in server.replicas:
            earlier = replicas.setdefault(replica.id, replica)
            if earlier is not replica:
                report.problem(
                    replica.line,
                    f"replica {replica.id} of {server.name} is declared on line {earlier.line} already; "
                    "give another id.",
                )


def _same_host(host: str) -> str:
    """Return one text for all names of a host, as far as they are known without asking the network."""
    host = host.lower().rstrip(".")
    try:
        return "localhost" if ipaddress.ip_address(host).is_loopback else str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _check_ports(draft: Draft, report: Report) -> None:
    taken: dict[tuple[str, int], tuple[int, str]] = {}
    for each in draft.servers:
        for replica in each.server.replicas:
            used = [(network.port, network.line, "network") for network in replica.networks]
            for service in replica.services:
                word = service.args.split()[:1]
                if service.class_name in PORT_SERVICES and word and word[0].isascii() and word[0].isdigit():
                    used.append((int(word[0]), service.line, service.short_name))
            for port, line, what in used:
                if not 0 < port <= 65535 or not replica.host:
                    continue
                place = _same_host(replica.host), port
                if place in taken:
                    first, by = taken[place]
                    report.problem(
                        line,
                        f"port {port} on {replica.host} is taken by the {by} of line {first}; give another.",
                    )
                else:
                    taken[place] = line, what


def _check_domains(draft: Draft, report: Report) -> bool:
    """Report the domains of networks that are not declared; return whether all are."""
    names = {name for name, _ in draft.domains}
    all_declared = True
    for each in draft.servers:
        for replica in each.server.replicas:
            for network in replica.networks:
                if network.domain not in names:
                    all_declared = False
                    report.problem(
                        network.line,
                        f"the domain {quoted(network.domain)} is not declared; "
                        f'add <domain name="{network.domain}"/> to <config>, or correct the name.',
                    )
    return all_declared


def _check_replicas(server: Server, report: Report) -> None:
    if not server.clustered:
        return
    if not server.replicas:
        report.problem(
            server.line, f"the cluster {server.name} has no replicas; add <server> elements to it."
        )
        return
    if len(server.replicas) > MAX_REPLICAS:
        report.problem(
            server.line, f"{server.name} has {len(server.replicas)} replicas; at most {MAX_REPLICAS} work."
        )
    for replica in server.replicas:
        if not replica.networks:
            report.problem(
                replica.line,
                f"replica {replica.id} of {server.name} has no network, so the others cannot reach it; "
                "add <network domain=... port=.../>.",
            )
    if not server.copies:
        report.problem(
            server.line, f"{server.name} has witnesses only; at least one replica must hold the agents."
        )
        return
    if server.min_copies > server.copies:
        report.problem(
            server.line,
            f"min_copies is {server.min_copies}, but {server.name} has {_count(server.copies, 'replica')} "
            "with agents; lower it.",
        )
    _check_witnesses(server, report)
    first = next(replica for replica in server.replicas if not replica.witness)
    for replica in server.replicas:
        if replica.witness:
            continue
        services = {service.class_name for service in replica.services}
        needed = {service.class_name for service in first.services}
        if services != needed:
            differing = sorted(name.rpartition(":")[2] for name in services ^ needed)
            report.problem(
                replica.line,
                f"replicas {first.id} and {replica.id} of {server.name} differ in {', '.join(differing)}; "
                "declare the same services for all replicas, any of them may become master.",
            )
        if _users(replica) != _users(first) and services == needed:
            report.note(
                replica.line,
                f"replicas {first.id} and {replica.id} of {server.name} have different users: "
                "whether a user may connect depends on which replica is master.",
            )


def _check_replica_domains(server: Server, report: Report) -> None:
    """Report replicas that are in other domains than the first one that is no witness."""
    first = next((replica for replica in server.replicas if not replica.witness), None)
    wanted = {network.domain for network in first.networks} if first else set[str]()
    for replica in server.replicas:
        domains = {network.domain for network in replica.networks}
        if first and domains and wanted and domains != wanted:
            report.problem(
                replica.line,
                f"replica {replica.id} of {server.name} is in {_names(domains)}, "
                f"replica {first.id} in {_names(wanted)}; "
                "declare the same domains for all replicas.",
            )


def _check_witnesses(server: Server, report: Report) -> None:
    if server.witness_ids and len(server.replicas) % 2 == 0:
        replica = next(replica for replica in server.replicas if replica.witness)
        report.note(
            replica.line,
            f"{server.name} has {len(server.replicas)} voters with this witness: an odd number survives as "
            "many losses with one fewer.",
        )


def _check_administrators(draft: Draft, server: Server, replica: Replica, report: Report) -> None:
    """Report administrators who are no users, so that nobody could log in as one of them."""
    scopes = (replica.properties, server.properties, draft.properties)
    named = next((scope["administrators"] for scope in scopes if "administrators" in scope), "").split()
    manager = replica.service(CONNECTION_MANAGER)
    if any(USERS_FILE_PROPERTY in scope for scope in scopes):
        # They may be in the file, which changes while the server runs.
        return
    unknown = [user for user in named if user not in _users(replica)]
    if unknown and (manager or "administrators" not in draft.properties):
        report.problem(
            manager.line if manager else replica.line,
            f"{unknown[0]!r} is among the administrators and is no user of {server.name}; add the user to "
            "the ConnectionManager, or correct the property administrators.",
        )


def _check_services(draft: Draft, server: Server, report: Report) -> None:
    check_mesh_services(server, report)
    for replica in server.replicas:
        _check_administrators(draft, server, replica, report)
        proxy = replica.service(TCP_PROXY_SERVICE)
        manager = replica.service(CONNECTION_MANAGER)
        order = replica.services
        if proxy and manager and order.index(manager) > order.index(proxy):
            report.note(
                proxy.line,
                "services start in the order of the file, and TcpProxyService needs the ConnectionManager: "
                "it is tried again a second later; put the ConnectionManager before it.",
            )
        if proxy and not manager:
            report.problem(
                proxy.line,
                "TcpProxyService needs a ConnectionManager beside it, which knows the users; "
                f'add <service class="{CONNECTION_MANAGER}" args="user password"/>.',
            )


def _check_networks(draft: Draft, report: Report) -> None:
    servers = [each.server for each in draft.servers]
    if not servers:
        report.problem(1, "no server is declared; add a <server> or a <cluster> to <config>.")
    for server in servers:
        if server.clustered or not server.replicas or server.replicas[0].networks:
            continue
        if len(servers) > 1:
            report.problem(
                server.line,
                f"{server.name} has no network, so the other servers cannot reach it; "
                "add <network domain=... port=.../>.",
            )
        else:
            report.note(
                server.line,
                f"{server.name} has no network: quorate status, stop and deploy cannot reach it; "
                "add a <domain> and a <network>.",
            )


def _check_reachable(draft: Draft, report: Report) -> None:
    """Report servers that cannot be reached through common domains: one problem for each separate group."""
    servers = [each.server for each in draft.servers if each.server.domains]
    group: dict[str, int] = {}
    members: dict[int, list[Server]] = {}
    for number, server in enumerate(servers):
        touched = {group[domain] for domain in server.domains if domain in group}
        members[number] = [server]
        for other in touched:
            members[number] += members.pop(other)
        merged = {number, *touched}
        group = {domain: number if at in merged else at for domain, at in group.items()}
        group |= dict.fromkeys(server.domains, number)
    by_line = [sorted(each, key=lambda server: server.line) for each in members.values()]
    groups = sorted(by_line, key=lambda group: group[0].line)
    for stranded in groups[1:]:
        names = ", ".join(server.name for server in stranded[:5]) + (", ..." if len(stranded) > 5 else "")
        report.problem(
            stranded[0].line,
            f"{names} cannot be reached from {groups[0][0].name}: they share no domain, "
            "and no server is in a domain of each; add a <network> that links them.",
        )


def _users(replica: Replica) -> dict[str, str]:
    manager = replica.service(CONNECTION_MANAGER)
    words = manager.args.split() if manager else []
    return dict(zip(words[::2], words[1::2], strict=False))


def _names(domains: set[str]) -> str:
    return f"{'domain' if len(domains) == 1 else 'domains'} {', '.join(sorted(domains))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
