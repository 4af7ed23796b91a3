"""What the monitor notices of one server, as the rows of its replicas come in one batch after the other."""

import random

import numpy as np
import pytest

from quorate.replay.watch import MAX_AGENTS, WINDOW, Finding, Rows, ServerWatch

IDLE_MS = 10_000


def rows(*parts: tuple[int, range | list[int]], wrong: int = 0, agents: dict[str, int] | None = None) -> Rows:
    """Rows of replicas; at the position `wrong` the last one of them has recorded something else."""
    replicas = np.concatenate([np.full(len(positions), replica) for replica, positions in parts])
    positions = np.concatenate([np.array(positions, np.int64) for _, positions in parts])
    hashes = positions * 7919
    hashes[(positions == wrong) & (replicas == parts[-1][0])] += 1
    return Rows(replicas, np.full(len(positions), 5), positions, hashes, 0, agents or {})


def kinds(found: list[Finding]) -> list[str]:
    return [each.kind for each in found]


class Watching:
    """A watch that is packed after each step, as Spark does."""

    def __init__(self) -> None:
        self.packed = b""

    def see(self, given: Rows, now_ms: int = 1_000_000) -> list[Finding]:
        watch = ServerWatch("s0", IDLE_MS, self.packed)
        found = watch.see(given, now_ms)
        self.packed = watch.packed()
        return found

    def tick(self, now_ms: int) -> list[Finding]:
        watch = ServerWatch("s0", IDLE_MS, self.packed)
        found = watch.tick(now_ms)
        self.packed = watch.packed()
        return found


def test_replicas_that_agree_are_no_news() -> None:
    watching = Watching()
    assert watching.see(rows((0, range(1, 101)), (1, range(1, 51)))) == []
    assert watching.see(rows((1, range(51, 101)), (2, range(40, 101)))) == []


@pytest.mark.parametrize("apart", [False, True])
def test_a_replica_that_differs_is_told_once_with_the_position(apart: bool) -> None:
    watching = Watching()
    if apart:
        watching.see(rows((0, range(1, 101))))
        found = watching.see(rows((1, range(1, 101)), wrong=60))
    else:
        found = watching.see(rows((0, range(1, 101)), (1, range(1, 101)), wrong=60))
    (told,) = found
    assert (told.kind, told.position, told.is_problem) == ("divergence", 60, True)
    assert told.text.startswith("s0: replica 1 (incarnation 5) has recorded another reaction")
    watching.see(rows((0, range(101, 201))))
    assert watching.see(rows((1, range(101, 201)), wrong=160), 1_000_000) == []


def test_a_hole_is_told_within_a_batch_and_between_two() -> None:
    watching = Watching()
    (told,) = watching.see(rows((0, [*range(1, 10), *range(12, 21)])))
    assert (told.kind, told.position) == ("hole", 10)
    assert "10..11" in told.text
    (told,) = watching.see(rows((0, range(23, 31))))
    assert (told.kind, told.position) == ("hole", 21)


def test_a_replica_that_joins_late_has_no_hole() -> None:
    watching = Watching()
    watching.see(rows((0, range(1, 101))))
    assert watching.see(rows((1, range(60, 101)))) == []


def test_rates_are_told_from_the_second_batch_on() -> None:
    watching = Watching()
    watching.see(rows((0, range(1, 101))), 1_000_000)
    (told,) = watching.see(rows((0, range(101, 301)), (1, range(1, 301))), 1_004_000)
    assert (told.kind, told.value, told.position) == ("rate", 50.0, 300)


def test_rows_that_come_after_the_window_are_told_and_not_compared() -> None:
    watching = Watching()
    watching.see(rows((0, range(1, WINDOW + 101))))
    found = watching.see(rows((1, range(1, 201)), wrong=150))
    assert kinds(found) == ["late", "divergence"]
    assert found[0].text.startswith("s0: 100 rows of replica 1")
    assert found[1].position == 150


def test_what_is_kept_is_bounded() -> None:
    watching = Watching()
    agents = {f"#0.0.{number}": 1 for number in range(MAX_AGENTS + 500)}
    for first in range(1, 10 * WINDOW, WINDOW // 2):
        watching.see(rows((0, range(first, first + WINDOW // 2)), agents=agents))
    assert len(watching.packed) < 10 * WINDOW + 60 * MAX_AGENTS


def test_silence_is_told_once_and_so_is_its_end() -> None:
    watching = Watching()
    watching.see(rows((0, range(1, 11))), 1_000_000)
    assert watching.tick(1_000_000 + IDLE_MS - 1) == []
    assert kinds(watching.tick(1_000_000 + IDLE_MS)) == ["silent"]
    assert watching.tick(1_000_000 + 2 * IDLE_MS) == []
    assert "again" in kinds(watching.see(rows((0, range(11, 21))), 1_050_000))


def test_a_replica_that_falls_behind_is_told_and_a_former_incarnation_is_not() -> None:
    watching = Watching()
    watching.see(rows((0, range(1, 11)), (1, range(1, 11))), 1_000_000)
    watching.see(rows((0, range(11, 21))), 1_000_000 + IDLE_MS)
    (told,) = watching.tick(1_000_001 + IDLE_MS)
    assert (told.kind, told.position) == ("behind", 10)
    assert "and lacks 10 positions" in told.text
    assert watching.tick(1_000_002 + IDLE_MS) == []


def test_agents_of_the_watched_class_that_get_nothing_are_told_once() -> None:
    watching = Watching()
    watching.see(rows((0, range(1, 11)), agents={"#0.0.7": 5, "#0.0.8": 9}), 1_000_000)
    watching.see(rows((0, range(11, 21)), agents={"#0.0.8": 12}), 1_000_000 + IDLE_MS)
    (told,) = watching.tick(1_000_001 + IDLE_MS)
    assert (told.kind, told.text) == ("idle", "s0: agent #0.0.7 has got nothing for 10 s")
    assert watching.tick(1_000_002 + IDLE_MS) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_difference_is_found_however_the_rows_come(seed: int) -> None:
    """Rerun one case with: pytest tests/unit/replay/test_watch.py -k 'however and SEED'."""
    chance = random.Random(seed)
    last = 2000
    wrong = chance.randrange(1, last + 1)
    watching = Watching()
    reached = dict.fromkeys(range(3), 0)
    found: list[Finding] = []
    while any(at < last for at in reached.values()):
        replica = chance.choice([one for one, at in reached.items() if at < last])
        upto = min(last, reached[replica] + chance.randrange(1, 400))
        part = rows((replica, range(reached[replica] + 1, upto + 1)), wrong=wrong if replica == 2 else 0)
        found += [each for each in watching.see(part) if each.kind != "rate"]
        reached[replica] = upto
    assert {(each.kind, each.position) for each in found} == {("divergence", wrong)}
