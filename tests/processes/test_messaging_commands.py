"""The commands ``quorate queue`` and ``quorate topic``, at a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from quorate import RequestTimeout, Servers
from quorate.__main__ import cli
from quorate.messaging import HeuristicOutcome, Session, Topic, XASession

from .running import BOUND_S

pytestmark = pytest.mark.processes

XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16300"/>
    <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
    <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="2560"/>
    <queue name="orders"/><topic name="prices"/>
  </server>
</config>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Servers, Path]]:
    """Return a plain server with a queue and a topic, and the file that names its ports."""
    place = tmp_path_factory.mktemp("commands")
    path = place / "a3servers.xml"
    path.write_text(XML)
    with Servers(path, free_ports=True, data=place / "data") as servers:
        yield servers, place / "data" / "local-a3servers.xml"


@pytest.fixture
def two_servers(tmp_path: Path) -> Iterator[tuple[Servers, Path]]:
    """Return two plain servers with a clustered queue, and one queue that forwards to the other server."""
    one = '<queue name="wide" cluster="s0 s1"/><queue name="near" forward="far@s1"/>'
    two = (
        XML[XML.index("  <server") : XML.index("</config>")]
        .replace('"s0"', '"s1"')
        .replace('id="0"', 'id="1"')
    )
    two = two.replace("16300", "16301").replace("2560", "2561")
    two = two.replace('<queue name="orders"/>', '<queue name="wide" cluster="s0 s1"/><queue name="far"/>')
    text = XML.replace('<queue name="orders"/>', one).replace("</config>", f"{two}</config>")
    path = tmp_path / "a3servers.xml"
    path.write_text(text)
    with Servers(path, free_ports=True, data=tmp_path / "data") as servers:
        yield servers, tmp_path / "data" / "local-a3servers.xml"


def _run(site: tuple[Servers, Path], kind: str, verb: str, *words: str, server: str = "s0") -> Result:
    arguments = [kind, verb, str(site[1]), "--server", server, *words]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_a_queue_is_made_filled_browsed_and_purged(site: tuple[Servers, Path]) -> None:
    made = _run(site, "queue", "create", "bills", "--max-messages", "5", "--full", "reject")
    assert made.output.startswith("#0.0.")
    again = _run(site, "queue", "create", "bills")
    assert again.exit_code == 1
    with site[0].connect("s0") as connection, Session(connection, timeout=BOUND_S) as session:
        for body in ({"a": 1}, "two\nlines", b"\xff"):
            session.send("bills", body, properties={"region": "EU"})
        shown = json.loads(_run(site, "queue", "show", "bills", "--json").output)
        assert (shown["depth"], shown["producers"], shown["subscriptions"][0]["waiting"]) == (3, 1, 3)
        browsed = _run(site, "queue", "browse", "bills")
        assert browsed.output.splitlines() == ['1  {"a":1}', "2  two\\nlines", "3  \\\\xff"]
        first, *_ = json.loads(_run(site, "queue", "browse", "bills", "--json", "--limit", "1").output)[
            "messages"
        ]
        assert (first["number"], first["body"], first["region"]) == (1, {"a": 1}, "EU")
    assert _run(site, "queue", "purge", "bills").output == "3 messages were dropped.\n"
    listed = {each["title"]: each["depth"] for each in _listed(site, "queue")}
    assert listed == {"bills": 0, "orders": 0}


def _listed(site: tuple[Servers, Path], kind: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(_run(site, kind, "list", "--json").output)[f"{kind}s"]
    return found


def test_a_topic_shows_its_subscriptions(site: tuple[Servers, Path]) -> None:
    with site[0].connect("s0") as connection, Session(connection, client_id="me") as session:
        session.consumer(Topic("prices"), durable="audit", selector="n > 1")
        session.send(Topic("prices"), "x", properties={"n": 5})
        lines = _run(site, "topic", "show", "prices").output.splitlines()
    assert lines[0].split() == ["kind", "topic"]
    assert lines[-1].split() == ["audit", "me", "-", "n", ">", "1", "yes", "0", "1", "1"]
    assert [each["title"] for each in _listed(site, "topic")] == ["prices"]


@pytest.mark.parametrize("verb", ["show", "browse", "purge"])
def test_a_queue_that_does_not_exist_is_named(site: tuple[Servers, Path], verb: str) -> None:
    arguments = ["queue", verb, str(site[1]), "--server", "s0", "nope"]
    with pytest.raises(click.ClickException) as raised:
        CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
    assert "Server s0 has no queue nope; list what it has with: quorate queue list" in str(raised.value)


def test_a_name_that_cannot_be_is_refused(site: tuple[Servers, Path]) -> None:
    shown = _run(site, "queue", "create", "a@b")
    assert shown.exit_code == 2
    assert "'a@b' cannot be the name of a queue" in shown.output


def test_a_transaction_in_doubt_is_listed_and_ended_by_hand(site: tuple[Servers, Path]) -> None:
    with site[0].connect("s0") as connection, XASession(connection, timeout=BOUND_S) as session:
        for name in ("one", "two"):
            session.tpc_begin(session.xid(1, name, "messages"))
            session.send("orders", name)
            assert session.tpc_prepare()
            session._xid = None
        listed = json.loads(_run(site, "xa", "list", "--json").output)["transactions"]
        assert [(each["transaction"], each["state"]) for each in listed] == [
            ("one", "in doubt"),
            ("two", "in doubt"),
        ]
        assert "rolled back" in _run(site, "xa", "rollback", "one", "messages").output
        with pytest.raises(HeuristicOutcome, match="was rolled back by an administrator"):
            session.tpc_commit(session.xid(1, "one", "messages"))
        assert "rolled back by an administrator" in _run(site, "xa", "list").output
        assert "is forgotten" in _run(site, "xa", "forget", "one", "messages").output
        assert "committed" in _run(site, "xa", "commit", "two", "messages").output
        session.tpc_forget(session.xid(1, "two", "messages"))
        assert session.tpc_recover() == []
        with session.consumer("orders", timeout_s=BOUND_S) as consumer:
            assert consumer.receive().body == "two"
        session.commit()
    missing = _run(site, "xa", "commit", "three")
    assert (missing.exit_code, missing.stderr) == (1, "quorate: There is no prepared transaction 1/three/.\n")


def test_a_queue_is_paused_resumed_and_its_messages_are_moved(site: tuple[Servers, Path]) -> None:
    for title in ("dead", "moved"):
        _run(site, "queue", "create", title)
    with site[0].connect("s0") as connection, Session(connection, timeout=BOUND_S) as session:
        for number in range(5):
            session.send("dead", number.to_bytes())
        assert _run(site, "queue", "pause", "dead").output == "queue dead is paused; 5 messages wait.\n"
        with session.consumer("dead") as consumer:
            with pytest.raises(RequestTimeout):
                consumer.receive(0.5)
            assert _run(site, "queue", "move", "dead", "moved", "--limit", "2").output == (
                "2 messages were moved.\n"
            )
            assert "goes on; 3 messages wait" in _run(site, "queue", "resume", "dead").output
            assert consumer.receive().data == b"\x02"
    missing = _run(site, "queue", "move", "dead", "nowhere")
    assert (missing.exit_code, "there is no queue nowhere" in missing.stderr) == (1, True)


@pytest.mark.parametrize("mode", ["auto", "client", "dups-ok", "individual", "transacted"])
def test_a_load_is_measured_in_each_mode(site: tuple[Servers, Path], tmp_path: Path, mode: str) -> None:
    _run(site, "queue", "create", f"load {mode}")
    plot = tmp_path / "load.png"
    words = ["--queue", f"load {mode}", "--seconds", "0.5", "--ack", mode, "--json", "--plot", str(plot)]
    done = CliRunner().invoke(cli, ["bench", site[0].url("s0"), *words])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.output)
    assert shown["sent"] == shown["received"] > 0
    assert 0 < shown["latency_ms"]["50"] <= shown["latency_ms"]["100"]
    assert plot.stat().st_size > 1000
    depth = json.loads(_run(site, "queue", "show", f"load {mode}", "--json").output)["depth"]
    assert depth == 0


def test_a_load_with_a_rate_keeps_to_it_and_says_what_is_wrong(site: tuple[Servers, Path]) -> None:
    url = site[0].url("s0")
    paced = ["--topic", "prices", "--rate", "200", "--seconds", "1", "--consumers", "2"]
    done = CliRunner().invoke(cli, ["bench", url, *paced])
    assert done.exit_code == 0, done.output
    sent, received = (int(line.split()[1].replace(",", "")) for line in done.output.splitlines()[:2])
    assert 100 <= sent <= 210
    assert received >= 2 * sent
    missing = CliRunner().invoke(cli, ["bench", url, "--queue", "nothing", "--seconds", "0.5"])
    assert (missing.exit_code, "there is no queue nothing" in missing.stderr) == (1, True)
    wrong = CliRunner().invoke(cli, ["bench", url, "--queue", "a", "--topic", "b"])
    assert wrong.exit_code == 2


def test_destinations_of_servers_that_the_file_lacks_are_not_made(site: tuple[Servers, Path]) -> None:
    for option, value in (("--forward", "orders@s9"), ("--cluster", "s0,s9")):
        refused = _run(site, "queue", "create", "wide", option, value)
        assert (refused.exit_code, refused.stderr) == (2, "quorate: the file has no server s9; it has s0.\n")
    refused = _run(site, "queue", "create", "wide", "--cluster", "s9")
    assert "give all servers that have a member, as in s1,s2, with s0." in refused.stderr
    refused = _run(site, "queue", "create", "wide", "--forward", "orders")
    assert "'orders' is not a destination of another server; write name@server." in refused.stderr


def test_a_clustered_queue_shows_where_it_fetches_messages(two_servers: tuple[Servers, Path]) -> None:
    servers, _ = two_servers
    with (
        servers.connect("s0") as one,
        servers.connect("s1") as two,
        Session(one, timeout=BOUND_S) as sender,
        Session(two, timeout=BOUND_S) as receiver,
    ):
        consumer = receiver.consumer("wide")
        sender.send("wide", "a")
        message = consumer.receive()
        assert message is not None
        assert message.body == "a"
        sender.send("near", "b")
        message = receiver.consumer("far").receive()
        assert message is not None
        assert message.body == "b"
        shown = _run(two_servers, "queue", "show", "wide", server="s1").output
        assert "fetches       from queue:wide@s0: 1 messages so far, 1000 under way\n" in shown
        shown = _run(two_servers, "queue", "show", "near").output
        assert "forwards      to queue:far@s1: 1 messages so far, 0 under way\n" in shown


def test_the_destinations_of_a_joram_admin_file_are_made_once(
    site: tuple[Servers, Path], tmp_path: Path
) -> None:
    file = tmp_path / "joramAdmin.xml"
    file.write_text(
        '<JoramAdmin><User name="a"/><Queue name="legacy" DMQ="old"/><DMQueue name="old"/></JoramAdmin>'
    )
    arguments = ["joram-admin", str(site[1]), str(file)]
    first, second = (CliRunner().invoke(cli, arguments, catch_exceptions=False) for _ in range(2))
    assert first.stdout == "queue legacy of s0 was made\nqueue old of s0 was made\n"
    assert "1: <User> is ignored: users are declared in a3servers.xml." in first.stderr
    assert second.stdout.splitlines()[0] == "queue legacy of s0 is there already, and stays as it is"
    assert (first.exit_code, second.exit_code) == (0, 0)
