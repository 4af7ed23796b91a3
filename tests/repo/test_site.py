"""The documentation site is built from the pages and docstrings, without a warning."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("sphinx") is None, reason="sphinx is not installed: pip install quorate[docs]"
    ),
]


def test_the_site_has_every_page_and_the_reference(tmp_path: Path, root: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        # All is read and resolved, with every warning; writing the pages would take twice as long.
        "-b",
        "dummy",
        "-c",
        root / "docs",
        root,
        tmp_path / "site",
    ]
    read = tmp_path / "read"
    built = subprocess.run([*command, "-d", read], capture_output=True, text=True, timeout=900)
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(root) for page in root.glob("docs/**/*.md")}
    assert {page for page in pages if not (read / page.with_suffix(".doctree")).is_file()} == set()
    reference = (read / "docs" / "api" / "1-quorate.doctree").read_bytes()
    assert b"quorate.Agent" in reference
    assert b"quorate.Connection.request" in reference
