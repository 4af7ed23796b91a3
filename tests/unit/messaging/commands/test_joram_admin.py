"""What `quorate joram-admin` reads in a joramAdmin.xml."""

from pathlib import Path

import pytest

from quorate.messaging.agents.settings import Kind
from quorate.messaging.commands.joram_admin import JoramDestination, read_joram_admin
from quorate.server.config import Config, ConfigError, load

XML = """<config>
  <domain name="D1"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16300"/></server>
  <server id="1" name="s1" hostname="localhost"><network domain="D1" port="16301"/></server>
</config>"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "a3servers.xml"
    path.write_text(XML)
    return load(path)


def _file(*elements: str) -> str:
    return "\n".join(["<JoramAdmin>", *elements, "</JoramAdmin>"])


def _read(text: str, config: Config) -> tuple[list[JoramDestination], list[str]]:
    path = config.path.parent / "joramAdmin.xml"
    path.write_text(text)
    found, notes = read_joram_admin(path, config)
    return found, [each.removeprefix(f"{path}:") for each in notes]


def test_queues_and_topics_are_read_with_their_settings(config: Config) -> None:
    text = _file(
        '<Queue name="orders" serverId="1" DMQ="dead" nbMaxMsg="100" threshold="5"/>',
        '<DMQueue name="dead" serverId="1"/>',
        '<Topic name="prices"/>',
    )
    found, notes = _read(text, config)
    assert [(each.kind, each.title, each.server) for each in found] == [
        (Kind.QUEUE, "orders", 1),
        (Kind.QUEUE, "dead", 1),
        (Kind.TOPIC, "prices", 0),
    ]
    settings = found[0].settings
    assert (settings.dead_queue, settings.max_messages, settings.max_deliveries) == ("dead", 100, 5)
    assert notes == []


def test_the_members_of_a_cluster_know_each_other(config: Config) -> None:
    text = _file(
        "<Cluster>",
        '<Queue name="q0" serverId="0"/>',
        '<Queue name="q1" serverId="1"/>',
        '<freeReader/><jndi name="q"/>',
        "</Cluster>",
    )
    found, notes = _read(text, config)
    assert [(each.title, each.server, each.settings.peers) for each in found] == [
        ("q0", 0, ("q1@s1",)),
        ("q1", 1, ("q0@s0",)),
    ]
    assert len(notes) == 2


def test_what_has_no_meaning_here_is_named(config: Config) -> None:
    text = _file(
        "<!-- a comment -->",
        '<ConnectionFactory className="x"><tcp host="h" port="1"/></ConnectionFactory>',
        '<User name="anonymous" password="anonymous" serverId="0"/>',
        '<Topic name="prices" parent="root"><freeReader/><writer user="a"/><jndi name="p"/></Topic>',
        "<Gadget/>",
    )
    found, notes = _read(text, config)
    assert [each.title for each in found] == ["prices"]
    assert notes == [
        "3: <ConnectionFactory> is ignored: clients give a URL to connect.",
        "4: <User> is ignored: users are declared in a3servers.xml.",
        "5: parent of Topic prices is ignored.",
        "5: rights of Topic prices are ignored: all users of a server may use it.",
        "5: <jndi> of Topic prices is ignored: clients know it by its name.",
        "6: <Gadget> is not known, and ignored.",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<JoramAdmin>", ": "),
        ("<config/>", "1: the root element is <config>; that of a joramAdmin.xml is <JoramAdmin>."),
        (_file('<Queue name="a" serverId="7"/>'), "2: serverId is '7'; a3servers.xml has the servers 0"),
        (_file('<Queue name="a" serverId="x"/>'), "2: serverId is 'x'"),
        (_file("<Queue/>"), "2: '' cannot be the name of a queue; give printable text without @."),
        (
            _file('<Queue name="a" nbMaxMsg="-1"/>'),
            "2: nbMaxMsg of Queue a is '-1'; write a whole number.",
        ),
        (
            _file('<Queue name="a"/>', '<Queue name="a"/>'),
            "3: queue a stands on line 2 already; keep one.",
        ),
        (_file('<Cluster><Queue name="a"/></Cluster>'), "2: a Cluster has two or more queues"),
        (
            _file('<Cluster><Queue name="a"/><Topic name="b" serverId="1"/></Cluster>'),
            "2: a Cluster has two or more queues",
        ),
        (
            _file('<Cluster><Queue name="a"/><Queue name="a" serverId="9"/></Cluster>'),
            "2: serverId is '9'",
        ),
    ],
)
def test_a_file_with_problems_makes_nothing(config: Config, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(text, config)
    assert problem in "\n".join(map(str, caught.value.problems))
