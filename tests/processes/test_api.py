"""The HTTP API at real servers: what commands do, by any program, with the same rights."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate import Servers
from quorate.__main__ import cli
from quorate.groups import Group
from quorate.messaging import Session
from quorate.server.config.servers import HTTP_SERVICE

from .api_client import ApiClient, quoted
from .foreign_clients import cluster, running, service_ports
from .running import BOUND_S, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    text = cluster("HttpService", "orders", "done", tokens_file="tokens")
    with running(tmp_path, text) as found:
        yield found


def clients(servers: Servers) -> tuple[ApiClient, list[ApiClient]]:
    """Return clients that are logged in: of the master, and of the slaves."""
    ports = service_ports(servers, HTTP_SERVICE)
    found = [ApiClient(port).login() for port in ports]
    master = servers.master()
    return found[master], [each for number, each in enumerate(found) if number != master]


def test_an_agent_from_its_making_to_its_end(servers: Servers) -> None:
    master, _ = clients(servers)
    new = {"class": "examples.bank:Account", "name": "alice", "state": {"balance": 3}, "key": "k1"}
    made = master.post("/agents", new)
    assert master.post("/agents", new) == made, "the same key makes one agent"
    assert master.get("/agents/alice")["state"]["balance"] == 3
    deposit = {"type": "examples.bank:Deposit", "fields": {"amount": 5}, "wait": True}
    answer = master.post("/agents/alice/notifications", deposit)
    assert answer["value"]["amount"] == 8
    assert master.ask("POST", "/agents/alice/notifications", {**deposit, "wait": False}) == (204, None)
    until(lambda: master.get("/agents/alice")["state"]["balance"] == 13, "the deposit is there")
    assert master.get("/agents?name=al*")["agents"][0]["id"] == made["id"]
    master.post(f"/agents/{quoted(made['id'])}/pause")
    assert master.get("/agents/alice")["paused"] is True
    master.post("/agents/alice/resume")
    assert master.ask("DELETE", "/agents/alice")[0] == 200
    code, problem = master.ask("GET", "/agents/alice")
    assert (code, problem["code"], problem["detail"]) == (
        404,
        "not-found",
        "There is no agent alice on this server.",
    )


def test_wrong_requests_about_agents_are_refused_with_sentences(servers: Servers) -> None:
    master, _ = clients(servers)
    unknown = {"class": "no.where:Agent", "key": "k"}
    assert master.ask("POST", "/agents", unknown)[0] == 409
    master.post("/agents", {"class": "examples.bank:Account", "name": "bob", "key": "k2"})
    wrong = {"class": "examples.bank:Account", "state": {"balanse": 3}, "key": "k3"}
    code, problem = master.ask("POST", "/agents", wrong)
    assert code == 409
    assert "balanse" in problem["detail"]
    for note, part in (
        ({"type": "nothing"}, "knows no notification"),
        ({"type": "examples.bank:Deposit", "fields": {"amount": "x"}}, "Expected `int`"),
        ({"type": "examples.bank:Deposit", "fields": {"amount": 1, "x": 2}}, "has no field x"),
    ):
        code, problem = master.ask("POST", "/agents/bob/notifications", note)
        assert code == 409
        assert part in problem["detail"]


def test_a_queue_from_its_making_to_its_messages(servers: Servers) -> None:
    master, slaves = clients(servers)
    assert master.ask("PUT", "/queues/new", {"max_messages": 3, "full": "reject"})[0] == 200
    with servers.connect("s0") as connection, Session(connection) as session:
        for number in range(5):
            session.send("orders", f"order {number}", properties={"kind": "book"})
        session.sync(BOUND_S)
    found = master.get("/queues/orders/messages?limit=2")["messages"]
    assert [(each["number"], each["body"], each["kind"]) for each in found] == [
        (1, "order 0", "book"),
        (2, "order 1", "book"),
    ]
    assert master.post("/queues/orders/move", {"to": "done", "limit": 2}) == {"moved": 2}
    assert master.post("/queues/orders/pause") == {"paused": True, "waiting": 3}
    assert master.get("/queues/orders")["paused"] is True
    master.post("/queues/orders/resume")
    assert master.post("/queues/orders/purge") == {"dropped": 3}
    listed = {each["title"]: each["depth"] for each in master.get("/queues")["destinations"]}
    assert listed == {"done": 2, "new": 0, "orders": 0}
    for slave in slaves:
        figures = {
            each["name"]: each["figures"]["messages"] for each in slave.get("/destinations")["destinations"]
        }
        until(lambda figures=figures: figures["done"] == 2, "the slave has the figures")
    assert master.get("/topics/prices")["kind"] == "topic"
    assert master.ask("PUT", "/topics/t", {"tree": True})[0] == 200
    assert master.ask("GET", "/queues/nothing")[1]["detail"] == "There is no queue nothing."


def figure(client: ApiClient, name: str) -> int:
    """Return how many messages a replica knows a queue to have."""
    found = client.get("/destinations")["destinations"]
    return next(int(each["figures"]["messages"]) for each in found if each["name"] == name)


def test_a_slave_shows_and_changes_nothing(servers: Servers) -> None:
    _, (slave, _) = clients(servers)
    assert slave.get("/replica")["role"] == "slave"
    assert slave.get("/agents/queue%3Aorders")["name"] == "queue:orders"
    assert len(slave.get("/servers")["servers"][0]["replicas"]) == 3
    for method, path, body in (
        ("PUT", "/queues/more", {}),
        ("DELETE", "/agents/queue%3Aorders", None),
        ("GET", "/queues", None),
    ):
        code, problem = slave.ask(method, path, body)
        assert (code, problem["code"]) == (409, "not-master")
        master = service_ports(servers, HTTP_SERVICE)[servers.master()]
        assert problem["master"] == f"http://localhost:{master}"


def test_a_failover_is_among_the_views_and_the_api_goes_on_at_the_new_master(servers: Servers) -> None:
    _, slaves = clients(servers)
    servers.kill_master()
    until(lambda: any(each.get("/replica")["serving"] for each in slaves), "there is a new master")
    leader = next(each for each in slaves if each.get("/replica")["serving"])
    views = leader.get("/views")["views"]
    assert len({each["master"] for each in views}) == 2
    assert views[-1]["at"] > views[0]["at"]
    down = [each["role"] for each in leader.get("/servers")["servers"][0]["replicas"]]
    assert sorted(down) == ["down", "master", "slave"]
    assert leader.ask("PUT", "/queues/after", {})[0] == 200


def test_nobody_gets_in_without_a_login_or_a_token(servers: Servers, tmp_path: Path) -> None:
    (port, *_) = service_ports(servers, HTTP_SERVICE)
    stranger = ApiClient(port)
    assert stranger.ask("GET", "/replica")[0] == 401
    assert stranger.ask("POST", "/session", {"user": "root", "password": "x"})[0] == 401
    assert stranger.ask("POST", "/session", {"user": "anna", "password": "anna"})[0] == 403
    assert ApiClient(port, "nonsense").ask("GET", "/replica")[0] == 401
    file = str(tmp_path / "tokens")
    reader = CliRunner().invoke(cli, ["token", file, "board", "--read-only"]).stdout.strip()
    writer = CliRunner().invoke(cli, ["token", file, "ci"]).stdout.strip()
    master = service_ports(servers, HTTP_SERVICE)[servers.master()]
    assert ApiClient(master, reader).get("/session") == {
        "user": "token board",
        "read_only": True,
        "expires": None,
    }
    code, problem = ApiClient(master, reader).ask("PUT", "/queues/x", {})
    assert (code, problem["detail"]) == (403, "token board may only read; use one with the scope all.")
    assert ApiClient(master, writer).ask("PUT", "/queues/x", {})[0] == 200
    audit = tmp_path / "data" / "s0" / str(servers.master()) / "audit.log"
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    acts = [(each["user"], each["from"], each["outcome"]) for each in lines]
    assert ("token ci", "127.0.0.1 over HTTP", "done") in acts
    assert CliRunner().invoke(cli, ["token", file, "ci", "--remove"]).exit_code == 0
    assert ApiClient(master, writer).ask("GET", "/replica")[0] == 401


def test_garbage_is_refused_and_the_server_goes_on(servers: Servers) -> None:
    master, _ = clients(servers)
    assert master.ask("PUT", "/queues/x", b"{")[0] == 400
    assert master.ask("PUT", "/queues/x", b"[" * 100_000)[0] == 400
    assert master.ask("PUT", "/queues/x", b"\xff\xfe")[0] == 400
    assert master.ask("PUT", "/queues/x", {"full": "sometimes"})[0] == 400
    assert master.ask("PUT", "/queues/x", {"nothing": 1})[0] == 400
    assert master.ask("PUT", "/queues/x", {}, Content_Type="text/plain")[0] == 415
    assert master.ask("PATCH", "/queues/x")[0] == 405
    assert master.ask("GET", "/%ff")[0] == 400
    assert (
        raw(master.port, b"PUT /api/v1/queues/x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        == 413
    )
    assert (
        raw(master.port, b"PUT /api/v1/queues/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        == 411
    )
    assert raw(master.port, b"\x00\x01\r\n\r\n") == 400
    assert master.get("/queues")["destinations"]


def raw(port: int, data: bytes) -> int:
    """Return the status with which a server answers these bytes."""
    with socket.create_connection(("127.0.0.1", port), BOUND_S) as connection:
        connection.sendall(data)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status


def test_a_replica_is_restarted_and_stopped(servers: Servers) -> None:
    _, (slave, other) = clients(servers)
    views = slave.get("/views")["views"]
    assert slave.ask("POST", "/replica/restart") == (204, None)

    def back() -> bool:
        try:
            again = ApiClient(slave.port).login()
            return again.get("/replica")["role"] == "slave" and again.get("/views")["views"][0] != views[0]
        except OSError:
            return False

    until(back, "it is back")
    assert other.ask("POST", "/replica/stop") == (204, None)
    until(lambda: refuses(other.port), "it is gone")


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return True
    return False


def test_timers_dead_letters_and_transactions_are_listed(servers: Servers) -> None:
    master, _ = clients(servers)
    assert master.get("/timers") == {"timers": []}
    assert master.get("/transactions") == {"transactions": []}
    assert master.get("/traces")["files"] == []
    code, problem = master.ask("POST", "/transactions/commit", {"transaction": "t"})
    assert (code, problem["code"]) == (409, "refused")
    assert master.ask("DELETE", "/dead-letters/7")[0] == 404
    assert master.ask("GET", "/timers?agent=nobody")[0] == 404


def test_groups_of_clients(tmp_path: Path) -> None:
    text = cluster("HttpService").replace('name="s0"', 'name="s0" mode="group"', 1)
    with running(tmp_path, text) as servers:
        master, _ = clients(servers)
        with servers.connect("s0") as connection:
            member = Group(connection, "chat").join(label="anna")
            assert master.get("/groups") == {"groups": ["chat"]}
            (found,) = master.get("/groups/chat")["members"]
            assert (found["label"], found["suspected"]) == ("anna", False)
            homes = master.get("/homes")["homes"]
            assert sum(each["clients"] for each in homes) == 1
            master.post("/groups/chat/expel", {"member": "anna"})
            until(lambda: master.get("/groups/chat")["members"] == [], "she is expelled")
            with pytest.raises(Exception, match="expelled by an administrator"):
                for _ in member:
                    pass
        drained = next(each["home"] for each in homes if each["home"] != servers.master())
        standing = {
            each["home"]: each["standing"] for each in master.post(f"/homes/{drained}/drain")["homes"]
        }
        assert standing[drained] == "drained"
        assert master.ask("POST", "/homes/9/drain")[0] == 404
        assert master.ask("POST", f"/homes/{drained}/forget")[0] == 409


def test_what_an_agent_did_last_is_in_the_trace_of_every_replica(tmp_path: Path) -> None:
    with running(tmp_path, cluster("HttpService", trace="true", trace_roll_s="0.2")) as servers:
        master, others = clients(servers)
        made = master.post(
            "/agents", {"class": "examples.bank:Account", "name": "alice", "state": {}, "key": "k"}
        )
        for amount in (5, -100):
            deposit = {"type": "examples.bank:Deposit", "fields": {"amount": amount}, "wait": amount > 0}
            master.ask("POST", "/agents/alice/notifications", deposit)
        path = "/agents/alice/reactions"
        for each in (master, *others):
            until(lambda each=each: len(each.ask("GET", path)[1].get("reactions", ())) == 3)
            failed, well, creation = each.get(path)["reactions"]
            assert (creation["kind"], well["kind"], well["sends"]) == ("create", "react", 1)
            assert (well["error"], failed["sends"]) == ("", 0)
            assert "the balance is 5" in failed["error"]
            latest = each.get(f"/agents/{quoted(made['id'])}/reactions?limit=1")["reactions"]
            assert latest == [failed]


def test_without_a_trace_there_are_no_last_reactions(servers: Servers) -> None:
    master, _ = clients(servers)
    master.post("/agents", {"class": "examples.bank:Account", "name": "alice", "state": {}, "key": "k"})
    code, refused = master.ask("GET", "/agents/alice/reactions")
    assert code == 409
    assert refused["detail"].startswith("This replica has no trace that can be read")


def two_servers() -> str:
    """Return a configuration: two servers of one replica each, connected, each with a port for HTTP."""
    servers = "".join(
        f'<server id="{number}" name="s{number}" hostname="localhost">'
        f'<network domain="D1" port="{16301 + number}"/><service class="ConnectionManager" args="root root"/>'
        f'<service class="TcpProxyService" args="{2560 + number}"/>'
        f'<service class="HttpService" args="{9464 + number}"/></server>'
        for number in range(2)
    )
    return (
        '<config><property name="administrators" value="root"/><property name="trace" value="false"/>'
        f'<domain name="D1"/>{servers}</config>'
    )


def test_a_clustered_queue_has_a_member_at_each_server(tmp_path: Path) -> None:
    with running(tmp_path, two_servers()) as servers:
        one, other = (
            ApiClient(service_ports(servers, HTTP_SERVICE, name)[0]).login() for name in ("s0", "s1")
        )
        code, refused = one.ask("PUT", "/queues/orders", {"cluster": ["s1"]})
        assert (code, "each once, and s0 among them" in refused["detail"]) == (409, True)
        code, refused = one.ask("PUT", "/queues/orders", {"cluster": ["s0", "s7"]})
        assert (code, refused["detail"]) == (409, "There is no server s7; there are s0, s1.")
        for each in (one, other):
            assert each.ask("PUT", "/queues/orders", {"cluster": ["s0", "s1"]})[0] == 200
        with servers.connect("s0") as connection, Session(connection) as session:
            session.send("orders", "a lamp", timeout=BOUND_S)
        with servers.connect("s1") as connection, Session(connection) as session:
            assert session.consumer("orders").receive(BOUND_S).body == "a lamp"
