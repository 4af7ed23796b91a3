"""The files of the project, as its own tests see them."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {".venv", ".git", "build", "dist", "node_modules", "data", "demo-data", "__pycache__"}


def project_files() -> list[Path]:
    """Files under version control or about to be; all files where there is no version control."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, timeout=30).stdout.decode()
        paths = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [
            path
            for path in ROOT.rglob("*")
            if not LEFT_OUT.intersection(path.relative_to(ROOT).parts)
            and not any(part.endswith(("_cache", ".egg-info")) for part in path.parts)
        ]
    return sorted(path for path in paths if path.is_symlink() or path.is_file())


@pytest.fixture(scope="session")
def files() -> list[Path]:
    return project_files()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())
