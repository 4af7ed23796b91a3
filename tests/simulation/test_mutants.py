"""The simulation notices when a rule of the protocol is removed.

The quick mutants, one for each invariant, are hunted always; `make mutants` hunts all of them, and so does
this file with QUORATE_MUTANTS=1.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from quorate.testing import CHECKERS, mutation
from quorate.testing.mutation import hunt, main
from quorate.testing.schedules.simulation import simulate

FILES = sorted(Path(__file__).parent.glob("mutants_*.py"))
PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"


def test_quick_mutants_are_noticed_by_the_checker_that_they_name(mutants):
    found = {mutant.name: hunt(mutant, 10) for mutant in mutants.values() if mutant.quick}
    wrong = {
        name: catch
        for name, catch in found.items()
        if catch is None or catch.invariant not in mutants[name].caught
    }
    assert wrong == {}


def test_every_invariant_but_the_phases_has_a_quick_mutant(mutants):
    named = {name for mutant in mutants.values() if mutant.quick for name in mutant.caught}
    # tests/unit/hachannel/protocol/test_phases.py has a test of that checker.
    assert named == {*CHECKERS, "L1", "raised"} - {"phases"}


def test_the_written_scenarios_hold_without_a_mutant(mutants):
    for mutant in mutants.values():
        if mutant.scenario is not None:
            mutant.scenario()


def test_the_page_of_the_mutants_has_each_of_them_and_nobody_escapes(mutants):
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == set(mutants), (
        "make mutants MUTANTS_ARGS='--write docs/mutants.md'"
    )
    assert [row for row in rows if "| nobody |" in row] == []


@pytest.mark.skipif("QUORATE_MUTANTS" not in os.environ, reason="long: set QUORATE_MUTANTS=1")
def test_every_removed_rule_is_noticed(mutants):
    escaped = [mutant.name for mutant in mutants.values() if hunt(mutant) is None]
    assert escaped == []


def test_the_channel_itself_is_left_as_it_was(mutants):
    for mutant in mutants.values():
        with mutant.apply():
            pass
    assert simulate(seed=0).views


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--area", "nosuch"], "there is no area nosuch; there are: configuration, disks, "),
        (["--area", "gate", "--only", "nosuch"], "no mutant is named nosuch"),
        (["--area", "gate", "--only", "one_ack_short"], "no mutant is left to be hunted"),
        (["nofile.py"], "there is no Python file nofile.py"),
    ],
)
def test_what_hunts_nothing_is_refused(mutants, capsys, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        main([__file__, *arguments])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_several_processes_find_the_same(capsys):
    names = ["one_exit_opens", "window_one_more", "delivered_again", "one_ack_short"]
    tables = []
    for jobs in ("1", "2"):
        assert main([*map(str, FILES), "--only", *names, "--jobs", jobs]) == 0
        lines = capsys.readouterr().out.splitlines()
        # Without the seconds that it took.
        tables.append([re.sub(r" +\d+  ", "  ", line) for line in lines])
    assert tables[0] == tables[1]
    assert tables[0][-1] == "4 of 4 mutants caught"


HEAD = """
from quorate.hachannel.protocol.view_triggers import ViewTriggers
from quorate.testing.mutation import mutant, patched, wrapped
"""


def one_exit_opens(body, options=""):
    return f'{HEAD}\n@mutant("One EXIT opens the gate."{options})\ndef opens():\n    {body}\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def one(:", "cannot be loaded: SyntaxError: invalid syntax (line 1)"),
        (
            "import nosuch",
            "cannot be loaded: ModuleNotFoundError: No module named 'nosuch' (mutants_own.py, line 1)",
        ),
        (
            one_exit_opens("yield", ", caught=('I99',)"),
            "opens is to be noticed by I99: there is no such invariant",
        ),
        (one_exit_opens("yield", ", caught='I3'"), "caught of opens is 'I3': give a list of names, ['I3']"),
        (
            one_exit_opens("yield", ", explore='nowhere'"),
            "opens is to be explored from 'nowhere': there is no such start, but",
        ),
        (one_exit_opens("yield", ", sceanrio=1"), "unexpected keyword argument 'sceanrio'"),
        (
            one_exit_opens("with patched(ViewTriggers, '_gate_opne', 1): yield"),
            "mutant opens is wrong: AttributeError: ",
        ),
        (
            one_exit_opens("with patched(ViewTriggers, '_gate_open', lambda *_: Treu): yield"),
            "mutant opens is wrong: NameError: name 'Treu' is not defined (mutants_own.py, line 7)",
        ),
        (one_exit_opens("return"), "mutant opens is wrong: "),
    ],
    ids=[
        "syntax",
        "import",
        "invariant",
        "text",
        "start",
        "option",
        "attribute",
        "name",
        "no generator",
    ],
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_mutant_that_is_wrong_in_itself_ends_the_hunt_with_a_sentence(
    monkeypatch, tmp_path, capsys, text, sentence, jobs
):
    monkeypatch.setattr(mutation, "MUTANTS", {})
    monkeypatch.delitem(sys.modules, "mutants_own", raising=False)
    own = tmp_path / "mutants_own.py"
    own.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main([str(own), "--jobs", jobs])
    assert ended.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_two_files_of_one_name_are_told_and_none_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(mutation, "MUTANTS", {})
    monkeypatch.delitem(sys.modules, "mutants_own", raising=False)
    own, other = tmp_path / "mutants_own.py", tmp_path / "more" / "mutants_own.py"
    other.parent.mkdir()
    own.write_text(one_exit_opens("yield"))
    other.write_text(one_exit_opens("yield").replace("def opens", "def opens_too"))
    # The same file twice is one file.
    mutation.load([own, own])
    for arguments in ([str(own), str(other)], [str(tmp_path / "json.py")]):
        (tmp_path / "json.py").write_text(one_exit_opens("yield"))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "has the same name: rename one" in " ".join(capsys.readouterr().err.split())
    monkeypatch.delitem(sys.modules, "mutants_own")


def test_a_mutant_may_wrap_a_method_that_it_calls(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(mutation, "MUTANTS", {})
    monkeypatch.delitem(sys.modules, "mutants_own", raising=False)
    own = tmp_path / "mutants_own.py"
    around = "lambda opens, self, view: opens(self, view) or self.exit"
    body = f"with wrapped(ViewTriggers, '_gate_open', {around}): yield"
    own.write_text(one_exit_opens(body, ", caught=('gate',)"))
    assert main([str(own)]) == 0
    assert "1 of 1 mutants caught" in capsys.readouterr().out
