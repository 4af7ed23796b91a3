"""Files to load, written into a directory of the test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.server.config import Config, ConfigError, load

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a configuration file and return its path."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "a3servers.xml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def good(write: Write) -> Callable[[str], Config]:
    """Load a text that must be valid."""
    return lambda content: load(write(content))


@pytest.fixture
def bad(write: Write) -> Callable[[str | bytes], list[str]]:
    """Load a text that must not be valid; its problems as ``line: message``."""

    def problems(content: str | bytes) -> list[str]:
        path = write(content)
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert all(problem.file == str(path) for problem in caught.value.problems)
        assert all("\n" not in problem.message for problem in caught.value.problems)
        return [f"{problem.line}: {problem.message}" for problem in caught.value.problems]

    return problems
