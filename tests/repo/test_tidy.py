"""Small things that rot when nobody looks: sizes, links, paths of somebody's machine."""

import re
import stat
from pathlib import Path
from typing import Any

MAX_LINES = 600
MAX_COLUMNS = 110

BINARY = {".gz", ".ico", ".jpg", ".parquet", ".pdf", ".png", ".whl", ".zip"}


def texts(files: list[Path]) -> list[tuple[Path, str]]:
    """The text files with their content."""
    return [
        (path, path.read_text(encoding="utf-8"))
        for path in files
        if path.is_file() and not path.is_symlink() and path.suffix not in BINARY
    ]


def anchors(markdown: str) -> set[str]:
    """The ids a Markdown renderer gives to the headings."""
    found: set[str] = set()
    for line in markdown.splitlines():
        if match := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
            text = re.sub(r"[`*]|\[|\]\([^)]*\)", "", match[1]).lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def without_blocks(markdown: str) -> str:
    """Markdown with empty lines in place of its blocks of code."""
    return re.sub(
        r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), markdown, flags=re.DOTALL | re.MULTILINE
    )


def without_code(markdown: str) -> str:
    """Markdown without its code, which may look like a link."""
    return re.sub(r"`[^`\n]*`", "", without_blocks(markdown))


def test_no_module_is_too_long(files: list[Path], root: Path) -> None:
    long = [
        f"{path.relative_to(root)}: {count} lines"
        for path, text in texts(files)
        if path.suffix == ".py" and (count := text.count("\n")) > MAX_LINES
    ]
    assert not long, long


def test_lines_of_pages_wrap(files: list[Path], root: Path) -> None:
    """Tables, code and links that cannot be broken may be longer."""
    long = [
        f"{path.relative_to(root)}:{number}: {len(line)} characters"
        for path, text in texts(files)
        if path.suffix == ".md"
        for number, line in enumerate(without_blocks(text).split("\n"), 1)
        if len(line) > MAX_COLUMNS and not line.startswith("|") and " " in line.strip().lstrip("-* ")
    ]
    assert not long, "\n".join(long)


def test_every_link_between_our_pages_leads_somewhere(files: list[Path], root: Path) -> None:
    broken = []
    for path, text in texts(files):
        if path.suffix != ".md":
            continue
        targets = re.findall(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)", without_code(text))
        targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", without_code(text), flags=re.MULTILINE)
        for target in targets:
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            place, _, anchor = target.partition("#")
            there = (path.parent / place).resolve() if place else path
            if not there.exists() or root not in (there, *there.parents):
                broken.append(f"{path.relative_to(root)}: {target} does not exist")
            elif (
                anchor and there.suffix == ".md" and anchor not in anchors(there.read_text(encoding="utf-8"))
            ):
                broken.append(f"{path.relative_to(root)}: {target} has no such heading")
    assert not broken, "\n".join(broken)


def test_no_file_names_the_home_of_somebody(files: list[Path], root: Path) -> None:
    home = re.compile(r"(?<![\w.\-}])/(?:home|root|Users|work)" + r"/\w+")
    found = [
        f"{path.relative_to(root)}: {match[0]}"
        for path, text in texts(files)
        for match in home.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_no_conflict_is_left_in_a_file(files: list[Path], root: Path) -> None:
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    found = [
        str(path.relative_to(root))
        for path, text in texts(files)
        if any(f"\n{mark}" in text for mark in marks)
    ]
    assert not found, found


def test_scripts_can_be_run(files: list[Path], root: Path) -> None:
    wrong = [
        str(path.relative_to(root))
        for path, text in texts(files)
        if text.startswith("#!") and not path.stat().st_mode & stat.S_IXUSR
    ]
    assert not wrong, wrong


def test_the_lock_file_pins_every_dependency_and_no_local_path(root: Path, pyproject: dict[str, Any]) -> None:
    lines = [
        line
        for line in (root / "requirements.lock").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    locked = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}
    project = pyproject["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {
        re.sub(r"[-_.]+", "-", name).lower()
        for group in groups
        for entry in group
        for name in re.findall(r"^[A-Za-z0-9._-]+", entry)
    }
    assert wanted - locked - {"quorate"} == set()
