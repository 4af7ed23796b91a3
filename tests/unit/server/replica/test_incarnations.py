"""The incarnations of a replica that joins again."""

from types import SimpleNamespace
from typing import Any

from quorate.server.replica.incarnations import REJOIN_FIRST_S, REJOIN_LAST_S, Incarnations


def test_each_incarnation_is_higher_and_its_pause_is_longer_up_to_a_limit() -> None:
    context: Any = SimpleNamespace(incarnation=1 << 50)
    unused: Any = None
    incarnations = Incarnations(context, unused, unused, 1, join=False)
    pauses: list[float] = []
    for count in range(1, 20):
        pauses.append(incarnations.renew())
        assert incarnations.current == incarnations.life == (1 << 50) + count
    assert pauses[:3] == [2 * REJOIN_FIRST_S, 4 * REJOIN_FIRST_S, 8 * REJOIN_FIRST_S]
    assert pauses[-1] == REJOIN_LAST_S
