"""What a good file means: defaults, routes, addresses, users, digest, notes, and the summary of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.server.cli.check import command
from quorate.server.config import (
    CONNECTION_MANAGER,
    TCP_PROXY_SERVICE,
    Config,
    NoRoute,
    UnknownName,
    load,
)

from .config_texts import OPEN

Good = Callable[[str], Config]

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
JORAM = HERE / "joram_sample.xml"
NETWORK = '<network domain="D1" port="16301" />'


@pytest.fixture(scope="module")
def sample() -> Config:
    return load(ROOT / "a3servers.xml")


def net(identifier: int, *domains: str, extra: str = "") -> str:
    networks = "".join(
        f'<network domain="{domain}" port="{1000 + 100 * n + identifier}"/>'
        for n, domain in enumerate(domains)
    )
    return f'<server id="{identifier}" hostname="h">{networks}{extra}</server>'


def config(*servers: str, domains: str = "A B C") -> str:
    declared = "".join(f'<domain name="{name}"/>' for name in domains.split())
    return f"<config>{OPEN}{declared}{''.join(servers)}</config>"


def test_a_domain_with_causal_order_names_its_servers_and_is_a_part_of_the_digest(
    tmp_path: Path,
) -> None:
    def loaded(attribute: str) -> Config:
        path = tmp_path / "a3servers.xml"
        text = config(
            net(0, "A"),
            net(1, "A", "B"),
            net(2, "B"),
            domains="A B",
        )
        path.write_text(text.replace('name="A"/>', f'name="A"{attribute}/>', 1))
        return load(path)

    causal, fifo, unsaid = loaded(' ordering="causal"'), loaded(' ordering="fifo"'), loaded("")
    assert [causal.causal_domains(server) for server in (0, 1, 2)] == [[{0, 1}], [{0, 1}], []]
    assert fifo.causal == frozenset()
    assert fifo.digest == unsaid.digest != causal.digest


def test_the_sample_of_the_joram_specification_is_valid_as_it_is() -> None:
    config = load(JORAM)
    (s0,) = config.servers
    assert (s0.id, s0.name, s0.clustered, s0.mode, s0.ack, s0.expected) == (0, "s0", True, "ha", "ALL", 3)
    assert s0.replica_ids == (0, 1, 2)
    assert [replica.networks[0].port for replica in s0.replicas] == [16301, 16302, 16303]
    assert [service.class_name for service in s0.replicas[0].services] == [
        CONNECTION_MANAGER,
        TCP_PROXY_SERVICE,
    ]
    assert s0.replicas[0].services[1].declared == "org.objectweb.joram.mom.proxies.tcp.TcpProxyService"
    assert config.notes == ()


def test_the_sample_at_the_root_has_a_cluster_and_a_plain_server(sample: Config) -> None:
    assert sample.names == {"s0": 0, "s1": 1}
    assert sample.server("s1").replica_ids == (0,)
    assert not sample.server("s1").clustered
    assert sample.users("s0") == {"root": "root"}
    assert sample.users() == {"root": "root"}
    assert sample.users("s1") == {}
    assert sample.client_urls(0) == "quorate://localhost:2560,localhost:2561,localhost:2562"
    assert sample.client_urls("s1") == ""
    assert [tuple(address) for address in sample.addresses("s0")] == [
        (0, "localhost", 16301),
        (1, "localhost", 16302),
        (2, "localhost", 16303),
    ]
    assert sample.next_hop("s0", "s1") == 1
    assert sample.next_hop(1, 1) == 1
    assert sample.link_domain("s0", "s1") == "D1"
    assert sample.notes == ()


def test_a_server_is_found_by_name_and_by_id(sample: Config) -> None:
    assert sample.server("s0") is sample.server(0) is sample.server("0")
    assert sample.replica("s0", 2).networks[0].port == 16303
    with pytest.raises(UnknownName, match=r"There is no server 's7' in .*: it declares s0, s1\."):
        sample.server("s7")
    with pytest.raises(UnknownName, match=r"Server s0 in .* has no replica 3: it has 0, 1, 2\."):
        sample.replica("s0", 3)


def test_a_single_plain_server_without_a_network_is_valid_with_a_note(good: Good) -> None:
    config = good('<config><server id="4" hostname="localhost"/></config>')
    assert config.server("s4").domains == ()
    assert "has no network" in config.notes[0].message


def test_routes_are_shortest_paths_and_every_hop_is_nearer(good: Good) -> None:
    domains = "A B C D"
    c = good(
        config(
            net(1, "A"), net(2, "A", "B"), net(3, "B", "C"), net(4, "C"), net(5, "A", "D"), domains=domains
        )
    )
    assert [c.next_hop(1, target) for target in range(1, 6)] == [1, 2, 2, 2, 5]
    assert [c.next_hop(4, target) for target in range(1, 6)] == [3, 3, 3, 4, 3]
    assert c.routes(1) == {2: 2, 3: 2, 4: 2, 5: 5}
    at, way = 1, []
    while at != 4:
        at = c.next_hop(at, 4)
        way.append(at)
    assert way == [2, 3, 4]


def test_the_choice_between_two_shortest_paths_is_always_the_same(good: Good) -> None:
    c = good(config(net(1, "A"), net(2, "A", "B"), net(3, "A", "B"), net(4, "B"), domains="A B"))
    assert c.next_hop(1, 4) == 2
    assert c.next_hop(4, 1) == 2


def test_servers_that_share_no_domain_have_no_link(good: Good) -> None:
    c = good(config(net(1, "A"), net(2, "A", "B"), net(3, "B"), domains="A B"))
    with pytest.raises(NoRoute):
        c.link_domain(1, 3)


def test_nat_changes_the_address_for_the_replica_that_declares_it(good: Good) -> None:
    c = good(config(net(1, "A"), net(2, "A", extra='<nat sname="s1" hostname="gate" port="99"/>')))
    assert [tuple(address) for address in c.addresses(1, "A", seen_from=c.replica(2, 0))] == [(0, "gate", 99)]
    assert [tuple(address) for address in c.addresses(1, "A")] == [(0, "h", 1001)]


def test_the_nearest_property_wins(good: Good) -> None:
    c = good(
        '<config><property name="x" value="all"/><property name="y" value="all"/><domain name="A"/>'
        '<cluster id="0" name="c"><property name="x" value="cluster"/>'
        '<server id="3" hostname="localhost"><property name="x" value="replica"/>'
        '<network domain="A" port="1"/></server>'
        '<server id="4" hostname="localhost"><network domain="A" port="2"/></server></cluster></config>'
    )
    assert c.setting("x", server="c", replica=3) == "replica"
    assert c.setting("x", server="c", replica=4) == "cluster"
    assert c.setting("x") == "all"
    assert c.setting("y", server="c", replica=3) == "all"
    assert c.setting("z", "default", server="c", replica=3) == "default"


@pytest.mark.parametrize(
    ("attribute", "inner", "common", "expected"),
    [
        ("", "", "", 3),
        ('nbClusterExpected="2"', "", "", 2),
        ("", '<property name="nbClusterExpected" value="2"/>', "", 2),
        ("", "", '<property name="nbClusterExpected" value="2"/>', 2),
        ('nbClusterExpected="3"', "", '<property name="nbClusterExpected" value="2"/>', 3),
    ],
)
def test_the_expected_replicas_come_from_an_attribute_or_a_property(
    attribute: str, inner: str, common: str, expected: int, good: Good
) -> None:
    text = JORAM.read_text().replace('name="s0">', f'name="s0" {attribute}>{inner}')
    assert good(text.replace("<config>", f"<config>{common}")).server(0).expected == expected


@pytest.mark.parametrize(
    ("element", "durability"),
    [
        ("server", "disk"),
        ('server durability="disk"', "disk"),
        ('server durability="memory"', "memory"),
        ("transient", "memory"),
    ],
)
def test_durability_is_disk_unless_the_file_says_otherwise(good: Good, element: str, durability: str) -> None:
    name = element.partition(" ")[0]
    network = '<network domain="A" port="1"/>'
    c = good(f'<config><domain name="A"/><{element} id="0" hostname="localhost">{network}</{name}></config>')
    assert c.server(0).durability == durability
    assert not c.notes


def test_old_elements_are_accepted_with_a_note(good: Good) -> None:
    c = good(
        '<config name="old"><domain name="A" network="x.SpecialNetwork"/>'
        '<transient id="1" hostname="localhost" server="0"><jvmArgs value="-Xmx1g"/>'
        '<network domain="A" port="1"/></transient>'
        '<server id="0" hostname="localhost"><network domain="A" port="2"/></server></config>'
    )
    assert c.server(1).transient
    notes = " ".join(note.message for note in c.notes)
    for word in ("jvmArgs is ignored", "SpecialNetwork", "the attribute server"):
        assert word in notes


JAVA_SERVICES = (
    "fr.dyade.aaa.agent.AdminProxy",
    "fr.dyade.aaa.jndi2.server.JndiServer",
    "fr.dyade.aaa.jndi2.distributed.DistributedJndiServer",
    "org.objectweb.joram.mom.proxies.soap.SoapProxyService",
    "org.ow2.joram.mom.amqp.AMQPService",
)


def test_a_java_service_without_an_equivalent_is_ignored_with_one_note(good: Good) -> None:
    services = "".join(f'\n<service class="{name}" args="1"/>' for name in JAVA_SERVICES)
    c = good(JORAM.read_text().replace('<network domain="D1" port="16301" />', f"{NETWORK}{services}"))
    notes = [note.message for note in c.notes]
    assert len(notes) == len(JAVA_SERVICES)
    for name, note in zip(JAVA_SERVICES, notes, strict=True):
        assert note == f"the Java service {name!r} is ignored; Quorate has no such service."
    assert [service.class_name for service in c.server(0).replicas[0].services] == [
        CONNECTION_MANAGER,
        TCP_PROXY_SERVICE,
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("Transaction", "Transaction.UseLockFile", "NTLogFileSize", "Engine", "A3DEBUG_PROXY"),
        *("HttpNetwork.ActivationPeriod", "fr.dyade.aaa.agent.A3CONF_FILE"),
    ],
)
def test_a_property_of_joram_is_ignored_with_a_note(good: Good, name: str) -> None:
    c = good(JORAM.read_text().replace("<config>", f'<config><property name="{name}" value="x"/>'))
    [note] = c.notes
    assert note.message.startswith(f"the property {name!r} is ignored")


def test_a_connection_manager_without_arguments_has_no_users_and_a_note(good: Good) -> None:
    c = good(JORAM.read_text().replace('args="root root"', ""))
    assert c.users(0) == {}
    assert [note.message.partition(",")[0] for note in c.notes] == ["ConnectionManager has no users"] * 3


def test_users_that_differ_between_replicas_are_noted(good: Good) -> None:
    c = good(JORAM.read_text().replace("root root", "anne bee", 1))
    assert "have different users" in c.notes[0].message


def test_a_property_like_a_known_one_is_noted_and_an_unknown_one_is_not(good: Good) -> None:
    c = good(
        '<config><property name="hearbeat_s" value="1"/><property name="my.own" value="x"/>'
        '<server id="0" hostname="a"/></config>'
    )
    notes = " ".join(note.message for note in c.notes)
    assert "did you mean heartbeat_s?" in notes
    assert "my.own" not in notes


def test_the_args_of_the_built_in_services_are_read_as_the_services_read_them(good: Good) -> None:
    c = good(JORAM.read_text().replace("2560", "2560 30"))
    assert c.client_urls(0).startswith("quorate://localhost:2560,")


def test_several_users_are_pairs(good: Good) -> None:
    assert good(JORAM.read_text().replace("root root", "a b  c d")).users(0) == {"a": "b", "c": "d"}


def test_a_service_of_the_user_may_be_written_in_two_ways(
    good: Good, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("quorate.services.base")
    (tmp_path / "my_services.py").write_text(
        "from quorate.services.base import Service\nprint('imported')\nclass Clock(Service):\n"
        "    def init(self, ctx, args, first_time): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for written in ("my_services:Clock", "my_services.Clock"):
        c = good(
            f'<config><server id="0" hostname="a"><service class="{written}" args="1"/></server></config>'
        )
        assert c.server(0).replicas[0].services[0].class_name == "my_services:Clock"


@pytest.mark.parametrize(
    "change",
    [
        ("<domain", "<!-- a comment --><domain"),
        ("\n", "\r\n"),
        ('  <domain name="D1" />', '<domain name="D1"></domain>'),
        ("org.objectweb.joram.mom.proxies.ConnectionManager", CONNECTION_MANAGER),
        ("org.objectweb.joram.mom.proxies.ConnectionManager", "ConnectionManager"),
        ("org.objectweb.joram.mom.proxies.tcp.TcpProxyService", "TcpProxyService"),
        ("root root", "root other"),
        ('name="s0"', 'name="s0" ack="ALL"'),
        ('name="s0"', 'name="s0" nbClusterExpected="2"'),
        ("<config>", '<!DOCTYPE config SYSTEM "a3config.dtd"><config><property name="secret" value="x"/>'),
        ("<config>", f"<config>{OPEN}"),
        ("<config>", '<config><property name="max_connections" value="7"/>'),
        ('id="2"', 'id="5"'),
        ("16303", "16309"),
    ],
)
def test_the_digest_does_not_depend_on_how_a_file_is_written_nor_on_the_replicas_of_a_cluster(
    change: tuple[str, str], good: Good
) -> None:
    text = JORAM.read_text()
    assert change[0] in text
    assert good(text.replace(*change)).digest == load(JORAM).digest


@pytest.mark.parametrize(
    "change",
    [
        ('name="s0"', 'name="s9"'),
        ('id="0" name', 'id="7" name'),
        ('name="s0"', 'name="s0" ack="MAJORITY"'),
        ("<config>", '<config><property name="max_turn" value="70000"/>'),
        (
            "</config>",
            '<server id="8" hostname="localhost"><network domain="D1" port="1"/></server></config>',
        ),
    ],
)
def test_the_digest_depends_on_what_replicas_must_agree_on(change: tuple[str, str], good: Good) -> None:
    text = JORAM.read_text()
    assert change[0] in text
    assert good(text.replace(*change)).digest != load(JORAM).digest


@pytest.mark.parametrize(
    ("properties", "same"),
    [
        ('<property name="max_connections" value="7"/>', False),
        ('<property name="lease_s" value="2"/>', False),
        ('<property name="secret" value="s3cret"/>', True),
        ('<property name="users_file" value="users"/>', True),
    ],
)
def test_the_digest_of_settings_is_that_of_what_one_process_has(
    properties: str, same: bool, good: Good
) -> None:
    text = JORAM.read_text()
    before = load(JORAM).settings_digest("s0", 1)
    assert (
        good(text.replace("<config>", f"<config>{properties}")).settings_digest("s0", 1) == before
    ) is same


def test_a_client_url_puts_an_ipv6_address_in_brackets(good: Good) -> None:
    assert "quorate://[::1]:2560,[::1]:2561" in good(
        JORAM.read_text().replace("localhost", "::1")
    ).client_urls(0)


def test_check_summarizes_a_good_file_without_its_passwords() -> None:
    result = CliRunner().invoke(command, [str(JORAM)])
    assert result.exit_code == 0
    assert result.stderr == ""
    for word in (
        "s0 (id 0)",
        "D1:16302",
        "TcpProxyService",
        "2561",
        "acknowledged by all replicas",
        "is valid: 1 server",
    ):
        assert word in result.stdout
    assert "root" not in result.stdout.replace(str(JORAM), "")


def test_check_prints_notes_and_still_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text('<config><server id="0" hostname="a"><jvmArgs value="x"/></server></config>')
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code == 0
    assert f"note: {path}:1: jvmArgs is ignored" in result.stdout


@pytest.mark.parametrize("swapped", [False, True])
def test_a_service_that_stands_before_the_one_it_needs_is_noted(
    good: Callable[[str], Config], swapped: bool
) -> None:
    services = [
        '<service class="quorate.services.manager:ConnectionManager" args="root root"/>',
        '<service class="quorate.services.tcp:TcpProxyService" args="2560"/>',
    ]
    inside = "".join(reversed(services) if swapped else services)
    config = good(
        '<config><domain name="D1"/><server id="0" name="s0" hostname="localhost">'
        f'<network domain="D1" port="1000"/>{inside}</server></config>'
    )
    said = [note.message for note in config.notes]
    assert len(said) == swapped
    assert all("put the ConnectionManager before it" in each for each in said)
