"""The page of scenarios is true: thirty of them, each with tests that name it."""

import ast
import re
from pathlib import Path

COUNT = 30
NOT_YET = "not yet"


def rows(root: Path) -> dict[int, str]:
    """The last column of the table, by number."""
    found: dict[int, str] = {}
    for line in (root / "docs" / "scenarios.md").read_text().splitlines():
        if match := re.match(r"\| (\d+) \|.*\| ([^|]*) \|$", line):
            found[int(match[1])] = match[2]
    return found


def named(root: Path) -> dict[int, set[str]]:
    """The files whose tests name a scenario in their docstrings, by its number."""
    found: dict[int, set[str]] = {}
    for path in (root / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            text = ast.get_docstring(node) or ""
            for numbers in re.findall(r"[Ss]cenarios? (\d+(?:(?:, | and )\d+)*)", text):
                for number in re.findall(r"\d+", numbers):
                    place = path.relative_to(root / "tests").as_posix()
                    found.setdefault(int(number), set()).add(place)
    return found


def test_every_scenario_stands_on_the_page_and_is_named_by_the_tests_it_says(root: Path) -> None:
    table, tests = rows(root), named(root)
    assert sorted(table) == list(range(1, COUNT + 1))
    wrong = []
    for number, column in table.items():
        files = set(re.findall(r"`([^`]+)`", column))
        if not files and NOT_YET not in column:
            wrong.append(f"scenario {number} has no test")
        wrong += [
            f"no test of {file} names scenario {number} in its docstring"
            for file in sorted(files - tests.get(number, set()))
        ]
    assert not wrong, "\n".join(wrong)


def test_no_test_names_a_scenario_that_there_is_not(root: Path) -> None:
    assert not set(named(root)) - set(range(1, COUNT + 1))
