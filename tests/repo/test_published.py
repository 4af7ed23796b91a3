"""What other people get: the public names, the packages, the wheel."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest


def importance(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each by name: the order ruff keeps __all__ in."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


def packages(root: Path) -> dict[str, str]:
    """Published name -> directory, from the tree: every directory with an __init__.py."""
    found = {"quorate": "quorate"}
    for init in sorted(root.glob("*/__init__.py")):
        top = init.parent.name
        if top in {"quorate", "tests", "examples", "benchmarks"} or top.startswith("."):
            continue
        for inner in sorted((root / top).rglob("__init__.py")):
            place = inner.parent.relative_to(root).as_posix()
            found["quorate." + place.replace("/", ".")] = place
    return found


def test_the_list_of_packages_is_the_tree(root: Path, pyproject: dict[str, Any]) -> None:
    setuptools = pyproject["tool"]["setuptools"]
    tree = packages(root)
    assert setuptools["packages"] == sorted(setuptools["packages"])
    assert set(setuptools["packages"]) == set(tree)
    assert setuptools["package-dir"] == tree


def test_every_directory_of_modules_is_a_package(root: Path) -> None:
    tree = set(packages(root).values())
    wrong = {
        path.parent.relative_to(root).as_posix()
        for top in tree
        for path in (root / top).rglob("*.py")
        if "__pycache__" not in path.parts and (root / "quorate") not in path.parents
    } - tree
    assert not wrong, f"no __init__.py in {sorted(wrong)}"


def test_the_links_of_the_import_package_are_the_packages(root: Path) -> None:
    links = {path.name: os.readlink(path) for path in (root / "quorate").iterdir() if path.is_symlink()}
    tops = [place for place in packages(root).values() if "/" not in place and place != "quorate"]
    assert links == {top: f"../{top}" for top in tops}


def test_pyright_is_given_every_link_of_the_import_package(root: Path, pyproject: dict[str, Any]) -> None:
    # It does not enter links by itself: a package that is not named would never be checked.
    links = [f"quorate/{path.name}" for path in (root / "quorate").iterdir() if path.is_symlink()]
    assert pyproject["tool"]["pyright"]["include"] == ["quorate", *sorted(links)]


def test_the_public_names_are_sorted_and_there() -> None:
    quorate = importlib.import_module("quorate")
    names: list[str] = quorate.__all__
    assert names == sorted(names, key=importance)
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(quorate, name)] == []


@pytest.mark.parametrize("package", sorted(packages(Path(__file__).resolve().parents[2])))
def test_a_package_names_what_it_offers_or_offers_nothing(package: str, root: Path) -> None:
    tree = ast.parse((root / packages(root)[package] / "__init__.py").read_text())
    assert ast.get_docstring(tree), "say in a docstring what the package is for"
    if len(tree.body) == 1:
        return
    module = importlib.import_module(package)
    names: list[str] = module.__all__
    assert names == sorted(names, key=importance)
    assert [name for name in names if not hasattr(module, name)] == []


def test_type_checkers_are_told_that_the_package_is_typed(root: Path) -> None:
    assert (root / "quorate" / "py.typed").is_file()


def test_the_subcommands_are_where_the_table_says(root: Path) -> None:
    entries = importlib.import_module("quorate.__main__").COMMANDS
    wrong = []
    for name, entry in entries.items():
        module, _, attribute = entry.target.partition(":")
        path = root / Path(*module.split(".")[1:]).with_suffix(".py")
        if not path.is_file() or f"def {attribute}(" not in path.read_text():
            wrong.append(f"{name}: {entry.target}")
    assert not wrong, wrong


@pytest.mark.slow
def test_the_wheel_holds_one_package_and_its_data(root: Path, files: list[Path], tmp_path: Path) -> None:
    source = tmp_path / "source"
    for path in files:
        place = path.relative_to(root)
        if place.parts[0] in {"tests", "docs", "benchmarks"}:
            continue
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, source / place, follow_symlinks=False)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"quorate"}
    assert {"quorate/py.typed", "quorate/server/config/a3config.dtd", "quorate/server/cli/check.py"} <= set(
        names
    )
    modules = {name for name in names if name.endswith(".py")}
    expected = {
        f"{package.replace('.', '/')}/{path.name}"
        for package, place in packages(source).items()
        for path in (source / place).glob("*.py")
    }
    assert modules == expected
