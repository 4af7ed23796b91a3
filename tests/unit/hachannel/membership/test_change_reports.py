"""What an operator is told of a change that is under way."""

import pytest

from quorate.hachannel.membership.membership import described
from quorate.hachannel.model.messages import Admit, Change, Dismiss, Reconfig


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Admit(3, b""), "replica 3 is added or moves"),
        (Dismiss(2), "replica 2 is removed"),
        (Reconfig(True, 1, 5), "replica 1 joins"),
        (Reconfig(False, 1, 5), "an earlier life of replica 1 goes"),
    ],
)
def test_a_change_is_named_by_what_becomes_of_its_replica(change: Change, words: str) -> None:
    assert described(change) == words
