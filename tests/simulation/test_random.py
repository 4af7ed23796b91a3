"""Random simulations. A failure names the command that runs it again."""

import hashlib
import os
import subprocess
import sys

import pytest

from quorate.testing import channel_sim
from quorate.testing.channel_sim import run

SEEDS = int(os.environ.get("QUORATE_SEEDS", "300"))
BATCH = 25


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_no_seed_violates_an_invariant_and_every_cluster_heals(first):
    results = [run(seed) for seed in range(first, first + BATCH)]
    assert sum(result.delivered for result in results) > 1000
    assert sum(result.views for result in results) > BATCH


def trace(seed):
    """A digest of everything a run did."""
    result = run(seed)
    return hashlib.sha256(repr(result).encode()).hexdigest()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_one_run_whatever_the_hashes(seed):
    code = (
        "import contextlib, hashlib, io, sys\n"
        "from quorate.testing.channel_sim import run\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n"
        f"    run({seed}, echo=True, verbose=True)\n"
        "print(hashlib.sha256(out.getvalue().encode()).hexdigest(), len(out.getvalue()))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("0", "1", "77")
    }
    assert len(outputs) == 1
    assert trace(seed) == trace(seed)


def test_the_command_line_tells_how_to_rerun_a_failing_seed(monkeypatch, capsys):
    def broken(world, load):
        raise channel_sim.Violation("L1: made up")

    monkeypatch.setattr(channel_sim, "heal", broken)
    assert channel_sim.main(["--seeds", "4"]) == 1
    printed = capsys.readouterr().out
    assert "python -m quorate.testing.channel_sim --seeds 4 --trace" in printed
    assert "L1: made up" in printed


def test_the_command_line_reports_what_it_saw(capsys):
    assert channel_sim.main(["--seeds", "0:2"]) == 0
    assert "2 seeds passed, 0 failed" in capsys.readouterr().out
