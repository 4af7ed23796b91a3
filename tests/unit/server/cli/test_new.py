"""A new project: its files work, its name is a module's, and nothing is overwritten."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate.server.cli.new import command
from quorate.server.config import load


def new(directory: Path) -> Result:
    return CliRunner().invoke(command, [str(directory)])


def test_the_tests_of_a_new_project_pass_and_its_file_is_valid(tmp_path: Path) -> None:
    made = new(tmp_path / "My orders-2")
    assert made.exit_code == 0, made.output
    project = tmp_path / "My orders-2"
    assert {path.name for path in project.iterdir()} == {
        "README.md",
        "a3servers.xml",
        "client.py",
        "my_orders_2.py",
        "test_my_orders_2.py",
    }
    assert [len(server.replicas) for server in load(project / "a3servers.xml").servers] == [3]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout


@pytest.mark.parametrize("name", ["2nd", "é", "class", "json", "quorate", "client", "a" * 61, "a/b c$"])
def test_a_name_that_cannot_be_a_module_is_refused(tmp_path: Path, name: str) -> None:
    refused = new(tmp_path / name)
    assert refused.exit_code == 2
    assert "cannot be the name of a project" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "client.py").write_text("mine")
    refused = new(tmp_path / "orders")
    assert refused.exit_code == 2
    assert "client.py already" in refused.output
    assert [path.read_text() for path in (tmp_path / "orders").iterdir()] == ["mine"]


def test_a_directory_that_cannot_be_made_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = new(tmp_path / "file" / "orders")
    assert refused.exit_code == 1
    assert "Not a directory" in refused.output
