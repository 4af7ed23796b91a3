"""The check of what members have written down passes what is right and sees every wrong."""

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from .recorded import Recorded
from .sequences import Wrong

Story = list[tuple[str, list[Any]]]


def digest(*texts: str) -> str:
    state = ""
    for text in texts:
        state = blake2b(state.encode() + text.encode(), digest_size=8).hexdigest()
    return state


def delivered(index: int, text: str) -> list[Any]:
    return ["delivered", index, int(text[0]), text]


FIRST, SECOND = [1, 0, 7], [2, 1, 8]
ALL = ["0.1:1", "1.1:1", "0.1:2"]
STORY: Story = [
    *((name, ["view", 0, FIRST, 0, [0, 1], True]) for name in ("0.1", "1.1")),
    ("0.1", ["sent", 1]),
    ("0.1", ["sent", 2]),
    ("1.1", ["sent", 1]),
    *((name, delivered(index, text)) for index, text in enumerate(ALL[:2], 1) for name in ("0.1", "1.1")),
    ("0.1", ["acked", 1, 1]),
    ("1.1", ["acked", 1, 2]),
    ("0.1", ["acts", 10.0, 1]),
    ("0.1", ["acts", 11.0, 1]),
    ("1.1", ["view", 2, SECOND, 1, [1, 2], False]),
    ("2.1", ["received", 2, digest(*ALL[:2])]),
    ("2.1", ["view", 2, SECOND, 1, [1, 2], False]),
    ("1.1", ["acts", 12.0, 1]),
    *((name, delivered(3, ALL[2])) for name in ("1.1", "2.1")),
    ("0.2", ["recovered", 1, digest(ALL[0])]),
    ("0.2", ["repeated", 2, 1, ALL[1]]),
    ("0.2", ["view", 2, SECOND, 1, [1, 2], False]),
    ("0.2", delivered(3, ALL[2])),
]
"""Two found a group, the master ends, a third one gets the state, the first one comes back with its disk."""
LIVING = ["0.2", "1.1", "2.1"]


def check(story: Story) -> Recorded:
    recorded = Recorded()
    for name, event in story:
        recorded.feed(name, *event)
        recorded.check()
    recorded.finish(LIVING)
    return recorded


def test_members_that_keep_the_promises_pass() -> None:
    assert check(STORY).length == 3


def test_a_member_that_resumes_its_view_from_its_disk_may_record_it_later() -> None:
    *before, _, last = STORY
    check([*before, last, ("0.2", ["view", 3, SECOND, 1, [1, 2], False])])
    with pytest.raises(Wrong, match="of view"):
        check([*before, last, ("0.2", ["view", 3, SECOND, 1, [1], False])])
    with pytest.raises(Wrong, match="of view"):
        check([*STORY[:-8], *STORY[-7:-4], ("2.1", ["view", 3, SECOND, 1, [1, 2], False])])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda story: story.append(("1.1", delivered(5, "1.1:2"))), "delivered message 5 after message 3"),
        (lambda story: story.append(("1.1", delivered(4, ALL[0]))), "and it stands at 1"),
        (lambda story: story.append(("1.1", ["delivered", 4, 0, "1.1:2"])), "is of member 0"),
        (
            lambda story: story.append(("1.1", delivered(4, "1.1:3"))),
            "stands in the order where 1.1:2 should",
        ),
        (lambda story: _replace(story, ("2.1", delivered(3, "2.1:1")), -5), "at place 3"),
        (
            lambda story: _replace(story, ("2.1", ["received", 2, digest("x")]), -9),
            "is not that of the first 2",
        ),
        (lambda story: _replace(story, ("2.1", ["received", 9, digest("x")]), -9), "of a view after 2"),
        (lambda story: story.append(("1.1", ["received", 2, digest(*ALL[:2])])), "received a state of 2"),
        (lambda story: story.insert(-4, ("0.1", ["acked", 2, 3])), "before it was delivered"),
        (lambda story: story.insert(8, ("1.1", ["acked", 1, 1])), "acknowledged at place 1"),
        (
            lambda story: story.insert(-2, ("1.1", ["view", 3, [3, 1, 8], 2, [1, 2], False])),
            "not the first of",
        ),
        (lambda story: story.append(("1.1", ["view", 3, [1, 1, 8], 1, [1, 2], False])), "was told of view"),
        (lambda story: story.append(("1.1", ["view", 3, [3, 1, 8], 1, [1, 2], True])), "for the first time"),
        (lambda story: story.append(("2.1", ["view", 3, FIRST, 0, [0, 1], True])), "was told of view"),
        (lambda story: story.append(("0.2", ["acts", 10.5, 1])), "acted at"),
        (lambda story: story.append(("0.1", ["acts", 13.0, 1])), "acted at"),
        (lambda story: story.pop(), "0.2 has 2 of 3 messages"),
        (lambda story: story.append(("2.1", ["sent", 1])), "2.1 was told of 0 of its 1 messages"),
        (lambda story: story.pop(3), "nobody sent it"),
        (lambda story: story.append(("2.1", ["ends", "no more"])), "could not go on: no more"),
    ],
)
def test_every_wrong_is_seen(change: Callable[[Story], object], what: str) -> None:
    story = list(STORY)
    change(story)
    with pytest.raises(Wrong, match=what):
        check(story)


def _replace(story: Story, event: tuple[str, list[Any]], place: int) -> None:
    story[place] = event


def test_what_was_acknowledged_and_never_delivered_by_those_that_live_is_lost() -> None:
    gone = [("1.1", ["sent", 2]), ("1.1", delivered(4, "1.1:2")), ("1.1", ["acked", 2, 4])]
    with pytest.raises(Wrong, match=r"0\.2 has 3 of 4 messages"):
        check([*STORY, *gone])


def test_a_message_of_an_earlier_life_does_not_follow_one_of_a_later_life() -> None:
    sent = [("0.2", ["sent", 1]), ("0.1", ["sent", 3])]
    late = [(name, delivered(4, "0.2:1")) for name in LIVING] + [("1.1", delivered(5, "0.1:3"))]
    with pytest.raises(Wrong, match="after a message of a later life"):
        check([*STORY, *sent, *late])


def test_files_are_read_as_they_grow_and_half_lines_later(tmp_path: Path) -> None:
    recorded = Recorded()
    path = tmp_path / "0.1.life"
    line = json.dumps(["view", 0, FIRST, 0, [0, 1], True]) + "\n"
    path.write_text(line[:10])
    recorded.read(tmp_path)
    assert not recorded.views
    path.write_text(line)
    recorded.read(tmp_path)
    recorded.read(tmp_path)
    assert recorded.lives["0.1"].members == (0, 1)
