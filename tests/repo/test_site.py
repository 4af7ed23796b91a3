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
        "-c",
        root / "docs",
        root,
        tmp_path / "site",
    ]
    built = subprocess.run(
        [*command, "-d", tmp_path / "doctrees"], capture_output=True, text=True, timeout=900
    )
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(root) for page in root.glob("docs/**/*.md")}
    missing = {page for page in pages if not (tmp_path / "site" / page.with_suffix(".html")).is_file()}
    assert not missing
    reference = (tmp_path / "site" / "docs" / "api" / "1-quorate.html").read_text()
    assert 'id="quorate.Agent"' in reference
    assert 'id="quorate.Connection.request"' in reference
