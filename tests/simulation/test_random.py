"""Random simulations. A failure names the command that runs it again."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from typing import get_args

import pytest

from quorate.hachannel import Message
from quorate.hachannel.protocol.phases import TABLES
from quorate.testing import CHECKERS
from quorate.testing.schedules.simulation import simulate

from ..long import amount

SEEDS = int(amount("QUORATE_SEEDS", 50, 3000))
BATCH = 50
SELDOM = {
    "role: master -> joining",
    "role: slave -> stopped",
    "role: blocked -> stopped",
    "role: changing -> stopped",
    "role: witness -> stopped",
    "role: [*] -> stopped",
    "change: fetching -> preparing",
    "change: fetching -> idle",
    "giving: entries -> state",
    "learning: entries -> state",
}
"""Moves that take a coincidence: written scenarios and other seeds have them."""


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_no_seed_violates_an_invariant_and_the_runs_reach_the_whole_protocol(first):
    reached = Counter()
    delivered = views = 0
    for seed in range(first, first + BATCH):
        result = simulate(seed=seed)
        reached.update(result.reached)
        delivered += result.delivered
        views += result.views
    assert delivered > 40 * BATCH
    assert views > BATCH
    if first == 0:
        kinds = {kind.__name__ for kind in get_args(Message)}
        moves = {f"{name}: {move.source} -> {move.target}" for name, t in TABLES.items() for move in t.moves}
        assert kinds - reached.keys() == set()
        assert moves - reached.keys() <= SELDOM


@pytest.mark.parametrize("seed", [19579, 22072, 26818, 28884, 69427])
def test_seeds_that_once_failed_violate_no_invariant(seed):
    """In order: a file without the replicas that know the cluster; a log on a narrow connection; a learner of
    two masters; an entry trimmed when committed; an accepted first view whose proposer lost its memory."""
    assert simulate(seed=seed).views


@pytest.mark.parametrize("name", CHECKERS)
def test_an_invariant_checked_alone_holds(name):
    """In the run of this seed a replica that has forwarded installs a state."""
    assert simulate(seed=8, only=[name]).reached["Forward"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_one_run_for_any_hash_seed(seed):
    code = (
        "import contextlib, hashlib, io, sys\n"
        "from quorate.testing.schedules.simulation import simulate\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n"
        f"    print(simulate(seed={seed}, echo=True, verbose=True))\n"
        "print(hashlib.sha256(out.getvalue().encode()).hexdigest(), len(out.getvalue()))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        ).stdout
        for hash_seed in ("0", "1", "77")
    }
    assert len(outputs) == 1


def test_a_seed_run_twice_in_one_process_gives_one_trace():
    digests = {hashlib.sha256(repr(simulate(seed=5)).encode()).hexdigest() for _ in range(2)}
    assert len(digests) == 1
