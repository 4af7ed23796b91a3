"""Witnesses and copies in a configuration."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.server.cli.check import command as check
from quorate.server.config import Config, ConfigError, load

from .config_texts import OPEN

CM = '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
WITNESS = {1: 'witness="true"'}


def read(
    place: Path, attributes: str = "", own: dict[int, str] | None = None, inside: dict[int, str] | None = None
) -> Config:
    """A cluster of three on line 2, one replica a line from line 3 on."""
    replicas = [
        f'<server id="{id}" hostname="h{id}" {(own or {}).get(id, "")}><network domain="D1" port="10"/>'
        f"{(inside or {}).get(id, '')}</server>"
        for id in range(3)
    ]
    path = place / "a3servers.xml"
    cluster = f'<cluster id="0" name="s0" {attributes}>'
    path.write_text(
        "\n".join([f'<config>{OPEN}<domain name="D1"/>', cluster, *replicas, "</cluster></config>"]), "utf-8"
    )
    return load(path)


def test_a_witness_votes_and_is_not_expected_at_the_first_start(tmp_path: Path) -> None:
    server = read(tmp_path, own=WITNESS, inside={0: CM, 2: CM}).server("s0")
    assert server.witness_ids == (1,)
    assert (server.copies, server.expected, server.min_copies) == (2, 2, 1)


def test_the_digest_depends_on_min_copies_and_not_on_witnesses(tmp_path: Path) -> None:
    digest = read(tmp_path).digest
    assert read(tmp_path, own=WITNESS).digest == digest
    assert read(tmp_path, 'min_copies="2"').digest != digest


@pytest.mark.parametrize(
    ("attributes", "own", "inside", "problem"),
    [
        ("", WITNESS, {1: CM}, "4: a witness runs no services"),
        ("", dict.fromkeys(range(3), 'witness="true"'), {}, "2: s0 has witnesses only"),
        ('min_copies="3"', WITNESS, {}, "2: min_copies is 3, but s0 has 2 replicas with agents; lower it"),
        ('min_copies="0"', {}, {}, "2: min_copies must be a number of replicas, at least 1, not '0'"),
        (
            'nbClusterExpected="3"',
            WITNESS,
            {},
            "2: nbClusterExpected is 3, but s0 has 2 replicas with agents; give 2",
        ),
    ],
)
def test_contradictions_about_witnesses_are_refused(
    tmp_path: Path, attributes: str, own: dict[int, str], inside: dict[int, str], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, attributes, own, inside)
    (found,) = caught.value.problems
    assert f"{found.line}: {found.message}".startswith(problem)


def test_check_shows_witnesses_and_copies(tmp_path: Path) -> None:
    path = read(tmp_path, 'min_copies="2"', own=WITNESS).path
    shown = CliRunner().invoke(check, [str(path)])
    assert shown.exit_code == 0
    assert " 1 (witness) " in shown.output
    assert (
        "acknowledged by all replicas of the view, nothing new with fewer than 2 replicas, "
        "first start with 2 of 2 and 1 witness." in shown.output
    )


def test_the_digest_depends_on_replicated_properties_wherever_they_are_set(tmp_path: Path) -> None:
    same = dict.fromkeys(range(3), '<property name="max_turn" value="50000"/>')
    other = dict.fromkeys(range(3), '<property name="lease_s" value="0.7"/>')
    digest = read(tmp_path).digest
    assert read(tmp_path, inside=same).digest != digest
    assert read(tmp_path, inside=other).digest == digest, "each grants for its own time"
