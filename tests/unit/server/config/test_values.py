"""Values of properties that come from files and from the environment."""

from pathlib import Path

import pytest

from quorate.server.config import ConfigError, load

XML = """<config>
  {properties}
  <server id="0" name="s0" hostname="localhost">
    <service class="ConnectionManager" args="root root"/>
  </server>
</config>"""


def loaded(directory: Path, *properties: str) -> Path:
    path = directory / "a3servers.xml"
    path.write_text(XML.format(properties="".join(properties)))
    return path


def test_a_value_comes_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hidden\n")
    config = load(loaded(tmp_path, '<property name="secret" file="key"/>'))
    assert config.setting("secret") == "hidden"


def test_a_value_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "hidden")
    config = load(loaded(tmp_path, '<property name="secret" env="SECRET_OF_TEST"/>'))
    assert config.setting("secret") == "hidden"


def test_the_file_of_users_is_found_from_everywhere(tmp_path: Path) -> None:
    config = load(loaded(tmp_path, '<property name="users_file" value="users"/>'))
    assert config.setting("users_file") == str(tmp_path / "users")


def test_what_is_hidden_does_not_change_the_digest(tmp_path: Path) -> None:
    digests = {
        load(loaded(tmp_path, f'<property name="{name}" value="{value}"/>')).digest
        for name in ("users_file", "mesh_password", "secret")
        for value in ("one", "two")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ('<property name="secret"/>', "has no value; give it one of value, file and env"),
        ('<property name="secret" value="a" env="B"/>', "has value and env; give it only one of"),
        ('<property name="secret" file="lost"/>', "the file 'lost': No such file or directory"),
        ('<property name="secret" env="NO_SUCH_VARIABLE"/>', "no variable 'NO_SUCH_VARIABLE'"),
        ('<property name="secret" file="."/>', "the file '.': Is a directory"),
        ('<property name="secret" file="binary"/>', "the file 'binary': it is not text in UTF-8"),
        ('<property name="secret" file="large"/>', "the file 'large': it has more than 65536 bytes"),
        ('<property name="trace_roll_s" env="SPACE"/>', "the property trace_roll_s must be a number"),
    ],
)
def test_what_has_no_value_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: str, sentence: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"a" * 65537)
    monkeypatch.setenv("SPACE", "never")
    with pytest.raises(ConfigError) as raised:
        load(loaded(tmp_path, properties))
    assert any(sentence in problem for problem in map(str, raised.value.problems))
