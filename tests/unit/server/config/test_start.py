"""What `quorate check` lets pass a replica can start with: both refuse the same settings."""

from pathlib import Path

import pytest

from quorate.server.config import ConfigError, load
from quorate.server.config.properties import PROPERTIES
from quorate.server.settings import ReplicaSettings

TEXTS = (
    *("", " ", "0", "1", "2", "-1", "+1", "1_0", "0x10", "1e3", "1e-3", "inf", "nan", "true", "no", "\u0661"),
    *("0.0001", "0.0009", "0.001", "0.01", "0.5", "3", "4096", "16384", "86399", "86399.9999", "86400"),
    *("1000000", "1000000000", "999999999999999", "0.000000000001", "999999999999.999999999999"),
)


def starts(path: Path) -> None:
    config = load(path, check_imports=False)
    for server in config.servers:
        for replica in server.replicas:
            ReplicaSettings.read(config, server, replica)


@pytest.mark.parametrize("name", sorted(PROPERTIES))
@pytest.mark.parametrize("other", ["", "0.04"])
def test_a_replica_can_start_with_every_setting_that_passes_the_check(
    name: str, other: str, tmp_path: Path
) -> None:
    beside = f'<property name="suspect_s" value="{other}"/>' if other and name != "suspect_s" else ""
    for text in TEXTS:
        path = tmp_path / "a3servers.xml"
        path.write_text(
            f'<config><property name="{name}" value="{text}"/>{beside}<domain name="D1"/>'
            '<cluster id="0" name="s0"><server id="0" hostname="localhost"><network domain="D1" port="1"/>'
            '</server><server id="1" hostname="localhost"><network domain="D1" port="2"/></server>'
            "</cluster></config>",
            encoding="utf-8",
        )
        try:
            load(path, check_imports=False)
        except ConfigError:
            continue
        starts(path)


@pytest.mark.parametrize("name", ["heartbeat_s", "suspect_s", "stall_s"])
def test_a_period_below_a_millisecond_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a3servers.xml"
    path.write_text(
        f'<config>\n<property name="{name}" value="0.0009"/><server id="0" name="s0" hostname="h"/></config>'
    )
    with pytest.raises(ConfigError, match=rf":2: the property {name} must be a number of seconds from 0.001"):
        load(path)


MODULES = (
    '<config>\n<property name="agent_modules" value="{}"/><server id="0" name="s0" hostname="h"/></config>'
)


def test_the_modules_of_moved_agent_classes_are_read_as_a_list(tmp_path: Path) -> None:
    path = tmp_path / "a3servers.xml"
    path.write_text(MODULES.format("bank.accounts  stock"))
    config = load(path, check_imports=False)
    server = config.servers[0]
    settings = ReplicaSettings.read(config, server, server.replicas[0])
    assert settings.agent_modules == ("bank.accounts", "stock")
    path.write_text(MODULES.format("bank/accounts.py"))
    with pytest.raises(ConfigError, match=r":2: the property agent_modules must be names of modules"):
        load(path)


def test_agent_modules_that_can_be_imported_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moved_accounts.py").write_text("print('hello')")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "a3servers.xml"
    path.write_text(MODULES.format("moved_accounts json"))
    load(path)


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("no_bank.accounts", None, "there is no module 'no_bank' here; install it, or run quorate in"),
        (
            "half_bank",
            "import no_such_thing",
            "it needs the module 'no_such_thing' (half_bank.py, line 1); install",
        ),
        (
            "broken_bank",
            "1 / 0",
            "ZeroDivisionError: division by zero (broken_bank.py, line 1); correct the module.",
        ),
    ],
)
def test_an_agent_module_that_cannot_be_imported_is_reported_with_the_reason(
    module: str, source: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source is not None:
        (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "a3servers.xml"
    path.write_text(MODULES.format(f"json {module}"))
    with pytest.raises(ConfigError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert problem.message.startswith(f"the property agent_modules: {module} cannot be imported: {reason}")
