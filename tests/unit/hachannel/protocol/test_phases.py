import attrs
import pytest

from quorate.hachannel.protocol.phases import TABLES, page
from quorate.testing.channel.violation import Violation
from quorate.testing.checks.phases import PhaseTransitions
from quorate.testing.schedules.simulation import simulate


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_names_every_move_once(table):
    moves = [(move.source, move.target) for move in table.moves]
    assert len(moves) == len(set(moves))


def test_a_phase_may_stay_and_follow_only_as_the_table_says():
    roles = TABLES["role"]
    assert roles.allows("slave", "slave")
    assert roles.allows("slave", "changing")
    assert not roles.allows("slave", "master")
    assert not roles.allows("stopped", "joining")


def test_the_page_shows_the_tables_as_they_are(request):
    written = (request.config.rootpath / "docs" / "states.md").read_text()
    assert written == page(), "run: .venv/bin/python -m quorate.hachannel > docs/states.md"


def test_a_simulation_notices_a_move_that_is_not_in_the_table(monkeypatch):
    roles = TABLES["role"]
    without = [move for move in roles.moves if (move.source, move.target) != ("changing", "slave")]
    monkeypatch.setitem(TABLES, "role", attrs.evolve(roles, moves=without))
    with pytest.raises(Violation, match=r"phases: .* slave after changing"):
        simulate(seed=3)


@pytest.mark.slow
def test_simulations_see_the_moves_of_the_tables(monkeypatch):
    seen = set()
    stepped = PhaseTransitions.stepped

    def noting(self, step):
        stepped(self, step)
        seen.update(self.seen)

    monkeypatch.setattr(PhaseTransitions, "stepped", noting)
    for seed in range(20):
        simulate(seed=seed)
    listed = {(name, move.source, move.target) for name, table in TABLES.items() for move in table.moves}
    assert seen <= listed
    assert len(seen) > len(listed) / 2
