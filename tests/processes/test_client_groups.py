"""Groups of clients at a real server: killed and stopped replicas and members, disks, the two examples."""

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate import Connection, QuorateClientError, Servers
from quorate.__main__ import cli
from quorate.groups import Group, GroupEvent, Membership, Message, Suspicion, Trust, View

from .conftest import Start
from .running import BOUND_S, ROOT, until

pytestmark = pytest.mark.processes


def xml(durability: str, context: str = "replicated") -> str:
    replicas = "".join(
        f'<server id="{id}" hostname="localhost"><network domain="D1" port="{16300 + id}"/>'
        f'<service class="ConnectionManager" args="root root"/>'
        f'<service class="TcpProxyService" args="{2560 + id}"/></server>'
        for id in range(3)
    )
    properties = {"trace": "false", "balance": "rotate", "client_silence_s": "2", "expire_s": "4"}
    written = "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())
    return (
        f'<config><domain name="D1"/>{written}'
        f'<cluster id="0" name="s0" mode="group" context="{context}" durability="{durability}">{replicas}'
        "</cluster></config>"
    )


class Reader:
    """A member that is read in a thread."""

    def __init__(self, connection: Connection, label: str) -> None:
        self.connection = connection
        self.membership: Membership = Group(connection, "orders").join(label=label)
        self.events: list[GroupEvent] = []
        self.error: Exception | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for event in self.membership:
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
        except QuorateClientError as error:
            with self._changed:
                self.error = error
                self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition() or self.error, BOUND_S), self.events[-3:]
        assert condition(), self.error

    def wait_for(self, kind: type[GroupEvent]) -> None:
        self.wait(lambda: any(isinstance(each, kind) for each in self.events))

    def messages(self) -> list[bytes]:
        return [each.payload for each in self.events if isinstance(each, Message)]


def start_servers(place: Path, durability: str, context: str = "replicated") -> Iterator[Servers]:
    path = place / "a3servers.xml"
    path.write_text(xml(durability, context))
    with Servers(path, free_ports=True, data=place / "data") as servers:
        yield servers


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    yield from start_servers(tmp_path, "memory")


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Servers]:
    yield from start_servers(tmp_path, "disk")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Servers]:
    yield from start_servers(tmp_path, "disk", "local")


def members(servers: Servers, count: int = 3) -> list[Reader]:
    found = [Reader(servers.connect(), f"m{number}") for number in range(count)]
    for each in found:
        each.wait(lambda each=each: any(isinstance(e, View) and len(e.members) == count for e in each.events))
    return found


def assert_agreed(readers: list[Reader], casts: list[bytes]) -> None:
    """All members have seen all casts, in one order, each once; views and suspicions as well."""
    for each in readers:
        each.wait(lambda each=each: set(casts) <= set(each.messages()))
    last = max(reader.events[-1].index for reader in readers)
    for each in readers:
        each.wait(lambda each=each: each.events[-1].index >= last)
    by_index: dict[int, object] = {}
    for each in readers:
        indices = [event.index for event in each.events]
        assert indices == list(range(indices[0], indices[0] + len(indices)))
        for event in each.events:
            what = (event.sender, event.payload) if isinstance(event, Message) else event
            if not (isinstance(event, View) and event is each.events[0]):
                assert by_index.setdefault(event.index, what) == what
    assert sorted(readers[0].messages()) == sorted(casts)


def cast_while(servers: Servers, fail: Callable[[], None], count: int = 300) -> list[bytes]:
    """Cast messages, and have something fail in the middle."""
    group = Group(servers.connect(), "orders", timeout=BOUND_S)
    casts = [b"%d" % number for number in range(count)]
    failing = threading.Thread(target=fail)
    for number, payload in enumerate(casts):
        if number == count // 3:
            failing.start()
        group.cast(payload)
    failing.join(BOUND_S)
    return casts


def test_the_master_is_killed_and_comes_back(servers: Servers) -> None:
    readers = members(servers)

    def fail() -> None:
        replica = servers.kill_master()
        servers.start_replica(replica=replica)

    assert_agreed(readers, cast_while(servers, fail))
    assert all(len(each.events) for each in readers)


def test_every_replica_is_killed_in_turn(servers: Servers) -> None:
    readers = members(servers)

    def fail() -> None:
        for replica in (0, 1, 2):
            servers.kill(replica=replica)
            servers.start_replica(replica=replica)

    failing = threading.Thread(target=fail)
    failing.start()
    group = Group(servers.connect(), "orders", timeout=BOUND_S)
    casts: list[bytes] = []
    for number in itertools.count():
        casts.append(b"%d" % number)
        group.cast(casts[-1])
        if not failing.is_alive():
            break
    assert_agreed(readers, casts)
    assert all(each.connection.reconnections for each in readers)


def test_a_home_that_is_stopped_for_a_while(servers: Servers) -> None:
    readers = members(servers)
    slave = next(each for each in (0, 1, 2) if each != servers.master())
    paused = threading.Event()

    def fail() -> None:
        servers.pause(replica=slave)
        # Clients and replicas notice the silence, and go on without this replica.
        paused.wait(6.0)
        servers.resume(replica=slave)

    assert_agreed(readers, cast_while(servers, fail))


def test_the_group_outlives_a_crash_of_all_replicas_with_disks(durable: Servers) -> None:
    readers = members(durable)

    def fail() -> None:
        for replica in (0, 1, 2):
            durable.kill(replica=replica)
        # Each waits for the others.
        starts = [threading.Thread(target=durable.start_replica, args=(None, each)) for each in (0, 1, 2)]
        for each in starts:
            each.start()
        for each in starts:
            each.join(BOUND_S)

    assert_agreed(readers, cast_while(durable, fail, count=60))
    assert {each.index for each in readers[0].events if isinstance(each, View)}


def test_members_with_a_local_context_wait_for_their_replica(local: Servers, tmp_path: Path) -> None:
    readers = members(local)
    group = Group(local.connect(), "orders", timeout=BOUND_S)
    homes = {each.label: each.home for each in group.describe().members}
    label, home = next((label, home) for label, home in homes.items() if home != local.master())
    waiting = next(each for each in readers if f"m{readers.index(each)}" == label)
    local.kill(replica=home)
    casts = [b"%d" % number for number in range(50)]
    for payload in casts:
        group.cast(payload)
    others = [each for each in readers if each is not waiting]
    for each in others:
        each.wait(lambda each=each: set(casts) <= set(each.messages()))
        each.wait_for(Suspicion)
    assert not waiting.messages()
    held = {
        each["home"]: each["held"] for each in json.loads(run(tmp_path, "homes", "--json").output)["homes"]
    }
    assert held[f"s0.{home}"] >= len(casts)
    local.start_replica(replica=home)
    assert_agreed(readers, casts)
    assert {each.label: each.home for each in group.describe().members} == homes

    local.kill(replica=home)
    assert run(tmp_path, "drain", f"s0.{home}").exit_code == 1
    forgotten = run(tmp_path, "forget", f"s0.{home}")
    assert forgotten.exit_code == 0, forgotten.output
    waiting.wait(lambda: waiting.error is not None)
    assert "an administrator has given up its replica" in str(waiting.error)


MEMBER = """
import sys
from quorate import connect
from quorate.groups import Group
with connect(sys.argv[1], user="root", password="root") as c:
    for event in Group(c, "orders").join(label="process"):
        print(type(event).__name__, event.index, flush=True)
"""


def test_a_member_that_is_stopped_is_suspected_trusted_and_expires_when_killed(
    servers: Servers, start: Start
) -> None:
    member = start("-c", MEMBER, servers.url())
    member.until("View")
    reader = Reader(servers.connect(), "reader")
    os.kill(member.process.pid, signal.SIGSTOP)
    reader.wait_for(Suspicion)
    os.kill(member.process.pid, signal.SIGCONT)
    reader.wait_for(Trust)
    member.until("Trust")
    os.kill(member.process.pid, signal.SIGKILL)
    reader.wait(lambda: isinstance(reader.events[-1], View) and len(reader.events[-1].members) == 1)
    last = reader.events[-1]
    assert isinstance(last, View)
    assert [(member.label, reason) for member, reason in last.left] == [("process", "expired")]


def run(servers_place: Path, *words: str) -> Result:
    config = servers_place / "data" / "local-a3servers.xml"
    verb, *rest = words
    at = [] if verb in ("drain", "forget") else ["--server", "s0"]
    return CliRunner().invoke(cli, ["group", verb, str(config), *rest, *at], catch_exceptions=False)


def test_the_commands_of_groups(servers: Servers, tmp_path: Path) -> None:
    readers = members(servers)
    Group(servers.connect(), "orders").cast(b"order 7")
    listed = json.loads(run(tmp_path, "list", "--json").output)["groups"]
    assert [(each["title"], len(each["members"]), each["casts"]) for each in listed] == [("orders", 3, 1)]
    assert "orders" in run(tmp_path, "list").output
    shown = run(tmp_path, "show", "orders").output
    assert "view 3" in shown
    assert "m1" in shown
    homes = json.loads(run(tmp_path, "homes", "--json").output)["homes"]
    assert sum(each["clients"] for each in homes) == 4
    assert all(each["standing"] == "serves" for each in homes)

    expelled = run(tmp_path, "expel", "orders", "m1")
    assert expelled.exit_code == 0, expelled.output
    readers[1].wait(lambda: readers[1].error is not None)
    assert "expelled by an administrator" in str(readers[1].error)
    missing = run(tmp_path, "expel", "orders", "m1")
    assert missing.exit_code == 1
    assert "There is no member m1; the members are" in missing.output
    unknown = run(tmp_path, "show", "nothing")
    assert unknown.exit_code == 1
    assert "has no group nothing; list those it has with" in unknown.output

    assert run(tmp_path, "drain", "s0.2").exit_code == 0

    def drained() -> bool:
        found = json.loads(run(tmp_path, "homes", "--json").output)["homes"][2]
        return bool(found["clients"] == 0 and found["standing"] == "drained")

    until(drained, "no client is left at s0.2")
    assert_agreed([readers[0], readers[2]], [b"order 7"])
    assert run(tmp_path, "drain", "s0.1").exit_code == 0
    last = run(tmp_path, "drain", "s0.0")
    assert last.exit_code == 1
    assert "no other replica of the view is left" in last.output
    assert run(tmp_path, "drain", "s0.2", "--undo").exit_code == 0
    assert "not a replica" in run(tmp_path, "drain", "s0").output


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Servers]:
    with Servers(ROOT / "examples" / "groups.xml", free_ports=True, data=tmp_path / "data") as servers:
        yield servers


def test_the_order_book_goes_on_without_a_member_and_without_a_replica(
    example: Servers, start: Start
) -> None:
    url = example.url()
    first = start("-m", "examples.order_book", "member", url)
    first.until("ready")
    second = start("-m", "examples.order_book", "member", url)
    second.until("ready")

    def trade(*words: str) -> str:
        return start("-m", "examples.order_book", *words, url).rest()[-1]

    assert trade("buy", "100", "5") == "{'traded': 0, 'paid': 0, 'waiting': 5}"
    assert trade("sell", "99", "3") == "{'traded': 3, 'paid': 300, 'waiting': 0}"
    example.kill_master()
    first.process.kill()
    assert trade("sell", "100", "4") == "{'traded': 2, 'paid': 200, 'waiting': 2}"
    third = start("-m", "examples.order_book", "member", url)
    third.until("the book has 1 orders")
    third.until("ready")
    second.process.kill()
    assert trade("show") == "{'bid': None, 'ask': 100, 'waiting': 1, 'traded': 5}"


def test_the_chat_shows_who_is_there(example: Servers, start: Start) -> None:
    alice = start("-m", "examples.presence", "alice", example.url())
    alice.until("* alice is here; 1 in the room")
    bob = start("-m", "examples.presence", "bob", example.url())
    alice.until("* bob is here; 2 in the room")
    bob.say("hello")
    alice.until("bob: hello")
    os.kill(bob.process.pid, signal.SIGSTOP)
    alice.until("* bob is out of reach")
    os.kill(bob.process.pid, signal.SIGCONT)
    alice.until("* bob is back")
    bob.hang_up()
    alice.until("* bob has gone (left); 1 in the room")
