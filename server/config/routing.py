"""Routes between servers, which domains connect: the first hop of a shortest path to each server."""

from collections import deque
from collections.abc import Sequence

from .servers import Server


def first_hops(domains: Sequence[str], servers: Sequence[Server], source: int) -> dict[int, int]:
    """Return, for each server that `source` can reach, the first server on a shortest path to it.

    Servers are ids. The search is breadth first, over domains in the order given and servers in the order of
    their ids, so that all processes with one configuration choose the same paths.
    """
    own_domains = {server.id: server.domains for server in servers}
    members = {
        domain: sorted(server.id for server in servers if domain in server.domains) for domain in domains
    }
    hops = {source: source}
    searched: set[str] = set()
    queue = deque([source])
    while queue:
        here = queue.popleft()
        for domain in domains:
            if domain in searched or domain not in own_domains[here]:
                continue
            searched.add(domain)
            for there in members[domain]:
                if there not in hops:
                    hops[there] = there if here == source else hops[here]
                    queue.append(there)
    return hops


def relayed_by(servers: Sequence[Server], here: int, neighbour: int) -> frozenset[int]:
    """Return the servers whose notifications can arrive at `here` from `neighbour`, by their ids.

    They are the neighbour itself, and those that it reaches through domains that `here` is not in, as far as
    they share no domain with `here`. Which of several routes is used does not matter: a notification may have
    been under way since before the configuration was changed.
    """
    domains = {server.id: frozenset(server.domains) for server in servers}
    near = domains[here]
    found, queue, searched = {neighbour}, deque([neighbour]), set(near)
    while queue:
        reached = domains[queue.popleft()] - searched
        searched |= reached
        new = [id for id, own in domains.items() if id not in found and own & reached and not own & near]
        found.update(new)
        queue.extend(new)
    return frozenset(found)
