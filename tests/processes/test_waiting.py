"""What real processes say while they wait: started with another file, frozen, or with nobody there."""

import pytest

from .conftest import MakeSite, Start
from .replicas import Part, Site

pytestmark = pytest.mark.processes


def diagnosis(site: Site, replica: int, part: str) -> None:
    """Wait until a replica says what it waits for in these words."""
    site.until(lambda all: any(each["replica"] == replica and part in each["diagnosis"] for each in all))


def test_a_replica_with_other_settings_is_refused_and_says_so(make_site: MakeSite, start: Start) -> None:
    site = make_site(Part("s0", 3))
    site.kill(1)
    other = site.place / "other.xml"
    other.write_text(
        site.xml.read_text().replace("<config>", '<config><property name="max_turn" value="70000"/>')
    )
    words = [
        "-m",
        "quorate",
        "start",
        other,
        "--server",
        "s0",
        "--replica",
        1,
        "--data",
        site.place / "data",
    ]
    wrong = start(*words, cwd=site.place)
    wrong.until("has another configuration than replica")
    assert not any("slave" in line for line in wrong.lines)
    assert len(site.until(lambda all: any(each["role"] == "master" for each in all))) == 3
    wrong.end()
    site.start(1)
    site.whole()


def test_a_frozen_replica_is_told_from_one_that_has_ended(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3))
    site.whole()
    site.kill(0)
    site.freeze(2)
    diagnosis(site, 1, "start replica 0, or mend the network; replica 2 does not answer: frozen")
    site.kill(2)
    diagnosis(site, 1, "start replica 0 or 2, or mend the network")
    site.start(2)
    site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave"])
