"""The division of clients among the replicas of a server with ``mode="group"``.

Every replica accepts new clients. One that has too many of them refuses, and the client goes to the next.
"""

from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["LEAST_SLACK", "LEAST_SPREAD", "overloaded"]

LEAST_SPREAD: Final = 1.25
LEAST_SLACK: Final = 16
"""With ``least`` a replica has at most `LEAST_SPREAD` times the mean of all, and `LEAST_SLACK` more."""


def overloaded(
    policy: str, home: int, loads: Mapping[int, int], homes: Iterable[int], attempt: int = 1
) -> bool:
    """Return whether a new client is to go to another replica than `home`.

    policy: ``least``, the default; ``rotate``: the clients of two replicas differ by one; ``first``: never.
    loads: clients by replica. homes: the replicas of the view. attempt: the handshakes of the client so far.
    One that all replicas have refused, because others came at the same time, is accepted.
    """
    live = {*homes, home}
    mine = loads.get(home, 0)
    if policy == "first" or len(live) == 1 or attempt > len(live):
        return False
    counts = [loads.get(each, 0) for each in live]
    if policy == "rotate":
        return mine > min(counts)
    return mine >= LEAST_SPREAD * sum(counts) / len(counts) + LEAST_SLACK
