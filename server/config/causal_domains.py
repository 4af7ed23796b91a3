"""The check of domains with causal order: they must not close a circle."""

from collections.abc import Collection, Sequence
from itertools import combinations

from .report import Report, quoted
from .servers import Server


def check_causal_domains(
    domains: Sequence[tuple[str, int]], causal: Collection[str], servers: Sequence[Server], report: Report
) -> None:
    """Report domains with causal order that share two servers with another domain, or close a circle.

    There would be two ways between two servers, and a notification on one of them could overtake another one
    on the other way. `domains` are (name, line).
    """
    members = {name: {each.id for each in servers if name in each.domains} for name, _ in domains}
    names = {each.id: each.name for each in servers}
    found = False
    for (one, _), (other, line) in combinations(domains, 2):
        common = sorted(names[id] for id in members[one] & members[other])
        if len(common) > 1 and (one in causal or other in causal):
            found = True
            report.problem(
                line,
                f"{common[0]} and {common[1]} are both in the domains {quoted(one)} and {quoted(other)}, and "
                'ordering="causal" needs a single way between two servers; take one of them out of a domain.',
            )
    if not found:
        _check_circles(domains, causal, members, report)


def _check_circles(
    domains: Sequence[tuple[str, int]],
    causal: Collection[str],
    members: dict[str, set[int]],
    report: Report,
) -> None:
    parents: dict[int, int] = {}

    def root(id: int) -> int:
        while id in parents:
            id = parents[id]
        return id

    for name, line in domains:
        if name not in causal or not members[name]:
            continue
        first, *others = sorted({root(id) for id in members[name]})
        if len(others) + 1 < len(members[name]):
            report.problem(
                line,
                f'the domain {quoted(name)} closes a circle of domains with ordering="causal", in which a '
                "notification could overtake another one on the other way round; take a server out of it.",
            )
        parents.update(dict.fromkeys(others, first))
