"""The sentence about an error in an agent's own code has the file and the line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import AgentError, CreateFailed
from quorate.agents import Create, factory
from quorate.agents.origin import raised_at
from quorate.engine import load_class
from quorate.testing.harness import Harness

HEAD = """import json

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Go(Notification):
    pass


def twice() -> int:
    return json.loads("x")


@attrs.define
class Faulty(Agent):
    {}

    @reacts
    def go(self, ctx: Context, _: Go) -> None: ...
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("origin_test_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero (origin_test_a.py, line 1)"),
        ("import json\n\njson.loads('x')", "(origin_test_a.py, line 3)"),
        ("x = 1\nimport no_such_dependency", "no_such_dependency cannot be found (origin_test_a.py, line 2)"),
        ("\ndef broken(:", "(origin_test_a.py, line 2)"),
        ("import origin_test_b", "(origin_test_b/__init__.py, line 2)"),
        ("raise SystemExit(3)", "SystemExit: 3 (origin_test_a.py, line 1)"),
        ("def __getattr__(name):\n    raise OSError('disk')", "OSError: disk (origin_test_a.py, line 2)"),
    ],
)
def test_an_error_at_import_names_file_and_line(source: str, sentence: str, write: Path) -> None:
    (write / "origin_test_a.py").write_text(source)
    (write / "origin_test_b").mkdir()
    (write / "origin_test_b" / "__init__.py").write_text("\nraise OSError('b')")
    with pytest.raises(AgentError) as refused:
        load_class("origin_test_a:Faulty")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("body", "error", "line"),
    [
        ("x: int = attrs.field(factory=twice)", "JSONDecodeError: ", 14),
        ("x: int = attrs.field(factory=lambda: 1 // 0)", "ZeroDivisionError: ", 19),
        (
            "x: int = 0\n\n    def __attrs_post_init__(self) -> None:\n        raise SystemExit(3)",
            "SystemExit: 3",
            22,
        ),
    ],
)
def test_an_error_in_a_default_or_the_constructor_names_file_and_line(
    body: str, error: str, line: int, write: Path
) -> None:
    (write / "origin_test_c.py").write_text(HEAD.format(body))
    (answer,) = Harness().send(factory(0), Create("origin_test_c:Faulty"))
    assert isinstance(answer, CreateFailed)
    assert error in answer.reason
    assert answer.reason.endswith(f" (origin_test_c.py, line {line})")


def test_an_error_in_the_default_of_an_attribute_that_the_state_lacks_is_a_value_error(write: Path) -> None:
    (write / "origin_test_d.py").write_text(HEAD.format("x: int = attrs.field(factory=lambda: 1 // 0)"))
    spec = load_class("origin_test_d:Faulty")
    with pytest.raises(ValueError, match="the default of x in origin_test_d:Faulty raised") as bad:
        spec.load(b"\x80")
    assert "(origin_test_d.py, line 19)" in str(bad.value)


def test_an_error_that_was_not_raised_has_no_place() -> None:
    assert raised_at(ValueError("never raised")) == ""
