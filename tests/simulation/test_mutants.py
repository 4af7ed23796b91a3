"""The simulation notices when a rule of the protocol is removed.

The mutants that are caught within a few seeds are hunted always, all of them with QUORATE_MUTANTS=1.
"""

import os

import pytest

QUICK = {
    "active_before_all_members_accepted": "I2",
    "active_without_majority": "I2",
    "amnesiac_votes": "",
    "delivered_before_commit": "I13",
    "gate_closed": "L1",
    "learner_counted": "I13",
    "members_overlap_removed": "I5",
    "number_reused": "I3",
    "old_views_acknowledged": "I3",
    "one_ack_short": "I13",
    "promise_forgotten": "I3",
    "reconfig_not_logged": "I2",
    "shortest_log": "",
    "snapshot_mislabelled": "",
    "tail_not_truncated": "",
    "trimmed_too_far": "I18",
    "truncated_below_commit": "I17",
    "two_reconfigs_in_a_view": "",
}


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_removed_rule_is_noticed_soon(mutants, name):
    caught = mutants.hunt(name, range(200))
    assert caught is not None
    assert caught[1].startswith(QUICK[name])


def test_the_written_scenarios_hold_without_a_mutant(mutants):
    for scenario in mutants.DIRECTED.values():
        scenario()


@pytest.mark.skipif("QUORATE_MUTANTS" not in os.environ, reason="long: set QUORATE_MUTANTS=1")
def test_every_removed_rule_is_noticed(mutants):
    escaped = [name for name in mutants.MUTANTS if mutants.hunt(name, range(3000)) is None]
    assert escaped == []


def test_the_channel_itself_is_left_as_it_was(mutants):
    for mutation in mutants.MUTANTS.values():
        with mutation():
            pass
    from quorate.testing.channel_sim import run

    assert run(0).views
