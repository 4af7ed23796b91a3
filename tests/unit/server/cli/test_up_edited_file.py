"""`quorate up` says that its file was edited, and what that means."""

import os
from pathlib import Path

from quorate.server.cli.up import ConfigFileWatch

SERVER = '<server id="{0}" hostname="{1}"><network domain="D1" port="{0}01"/></server>'
BEFORE = {("s0", 1), ("s0", 2)}


def write(path: Path, *replicas: tuple[int, str]) -> None:
    inside = "".join(SERVER.format(*replica) for replica in replicas)
    secret = '<property name="secret" value="x"/>'
    path.write_text(
        f'<config>{secret}<domain name="D1"/><cluster id="0" name="s0">{inside}</cluster></config>'
    )


def test_an_edit_is_reported_once_with_the_new_replicas_of_this_host(tmp_path: Path) -> None:
    path = tmp_path / "a3servers.xml"
    write(path, (1, "localhost"), (2, "localhost"))
    edited = ConfigFileWatch(path)
    assert edited.edits(BEFORE) == []
    os.utime(path, ns=(1, 1))
    assert edited.edits(BEFORE) == [], "touched, and still the same"
    write(path, (1, "localhost"), (3, "localhost"), (4, "far.example"))
    first, *rest = edited.edits(BEFORE)
    assert "was edited; the servers run as before" in first
    assert rest == [f"s0.3 is new: start it with `quorate start {path} --server s0 --replica 3 --join`"]
    assert edited.edits(BEFORE) == []


def test_an_invalid_edit_is_reported_and_a_removed_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a3servers.xml"
    write(path, (1, "localhost"))
    edited = ConfigFileWatch(path)
    path.unlink()
    assert edited.edits(BEFORE) == []
    path.write_text("<config>")
    assert edited.edits(BEFORE) == [f"{path} was edited and is not valid; see `quorate check {path}`"]
