"""Finding the class of a stored agent by its name, also after its module has moved."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import AgentError
from quorate.agents import Create, factory
from quorate.agents.agent import _named
from quorate.agents.notification import _known
from quorate.engine import AgentState, Engine, import_modules
from quorate.engine.class_loading import Program, stored_class
from quorate.testing import Harness

BANK = """
import attrs
from quorate import Agent, Context, Notification, reacts

@attrs.frozen
class Put(Notification, name="moved-test.put"):
    amount: int

@attrs.define
class Account(Agent, {}):
    balance: int = 0

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        self.balance += note.amount
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules, forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()


def forget() -> None:
    """Leave this process without the modules and their classes."""
    for name in ("moved_old_bank", "moved_new_bank"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    for known in (_named._classes, _known._classes):
        for name in [name for name in known if name.startswith("moved")]:
            del known[name]


def stored(folder: Path, arguments: str) -> tuple[bytes, list[AgentState]]:
    """What a disk has of a server with an agent of moved_old_bank, which this process then forgets."""
    (folder / "moved_old_bank.py").write_text(BANK.format(arguments))
    harness = Harness()
    harness.send(factory(0), Create("moved_old_bank:Account", name="alice", state=b"\x81\xa7balance\x07"))
    assert harness.engine.find("alice") is not None
    capture = harness.engine.capture()
    capture.step()
    forget()
    return capture.header, capture.agents


def test_a_stored_agent_is_loaded_from_the_module_it_was_deployed_from(folder: Path) -> None:
    disk = stored(folder, "name='moved-test.account'")
    engine = Engine(0, {"s0": 0})
    engine.load(*disk)
    assert engine.state_of("alice") == b"\x81\xa7balance\x07"


def test_a_class_that_has_moved_is_found_once_its_new_module_is_imported(folder: Path) -> None:
    disk = stored(folder, "name='moved-test.account'")
    (folder / "moved_old_bank.py").rename(folder / "moved_new_bank.py")
    engine = Engine(0, {"s0": 0})
    with pytest.raises(AgentError, match=r"moved-test.account/1 .* in the property agent_modules"):
        engine.load(*disk)
    import_modules(("moved_new_bank",))
    engine.load(*disk)
    cell = engine.find("alice")
    assert cell is not None
    assert cell.stored()[0].location == "moved_new_bank:Account"


def test_a_class_stored_without_a_name_is_found_by_also_in_its_new_module(folder: Path) -> None:
    disk = stored(folder, "name=None")
    (folder / "moved_old_bank.py").unlink()
    arguments = "name='moved-test.account', also=('moved_old_bank:Account',)"
    (folder / "moved_new_bank.py").write_text(BANK.format(arguments))
    import_modules(("moved_new_bank",))
    engine = Engine(0, {"s0": 0})
    engine.load(*disk)
    cell = engine.find("alice")
    assert cell is not None
    assert (cell.spec.name, cell.stored()[0].cls) == ("moved-test.account/1", "moved-test.account/1")


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ("name='moved-test.account', version=2", False),
        ("name='moved-test.account', version=2, also=('moved-test.account/1',)", True),
        ("name=None", False),
    ],
)
def test_a_class_of_another_name_loads_a_stored_agent_only_if_it_says_so(
    folder: Path, now: str, found: bool
) -> None:
    stored(folder, "name='moved-test.account'")
    (folder / "moved_old_bank.py").write_text(BANK.format(now) + "# another size\n")
    if found:
        spec = stored_class(Program(), "moved-test.account/1", "moved_old_bank:Account")
        assert spec.name == "moved-test.account/2"
    else:
        with pytest.raises(AgentError, match=r"list also=\('moved-test.account/1',\)"):
            stored_class(Program(), "moved-test.account/1", "moved_old_bank:Account")


def test_a_module_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(AgentError, match="importing moved_nowhere failed: ModuleNotFoundError"):
        import_modules(("moved_nowhere",))
