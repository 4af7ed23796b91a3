"""More for a client than it takes: the rest waits at the server, within bounds, and nothing is lost."""

import attrs
import msgspec
import pytest

from quorate.agents import (
    Agent,
    AgentId,
    Context,
    ExceptionNotification,
    Notification,
    UnknownAgent,
    decode,
    encode,
    reacts,
)
from quorate.agents.client_output import MAX_WAITING_BYTES, MAX_WAITING_NOTES, page_id
from quorate.client.frames import Bye, ClientInput, ClientNote, ClientOutput, Close


@attrs.frozen
class Go(Notification):
    count: int
    size: int = 0


@attrs.frozen
class Event(Notification):
    number: int
    data: bytes = b""


@attrs.frozen
class Answer(Notification):
    pass


@attrs.define
class Source(Agent):
    """Sends its client many notifications, and answers."""

    sent: int = 0
    failures: list[ExceptionNotification] = attrs.field(factory=list)

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        for _ in range(note.count):
            self.sent += 1
            ctx.send(ctx.sender, Event(self.sent, bytes(note.size)))
        ctx.send(ctx.reply_to, Answer())

    @reacts
    def failed(self, ctx: Context, note: ExceptionNotification) -> None:
        self.failures.append(note)


class Client:
    """A client that acknowledges and takes what the test says."""

    def __init__(self, bench):
        self.bench = bench
        self.tcp, welcome = bench.opened()
        self.name = welcome.connection
        self.sent = self.received = 0
        self.events, self.answers, self.ends = [], [], []

    @property
    def proxy(self):
        return self.bench.harness.engine.find(AgentId.parse(self.name))

    @property
    def pages(self):
        agents = self.bench.harness.engine._directory
        return [each for each in agents if each.spec.name == "quorate.output-page/1"]

    def say(self, *notes, acknowledge=True, credit=(0, 0)):
        ack = self.received if acknowledge else 0
        self.read(self.bench.say(self.tcp, ClientInput(ack, self.sent + 1, list(notes), *credit)))
        self.sent += len(notes)

    def read(self, frames):
        for frame in frames:
            if isinstance(frame, Bye):
                self.ends.append(frame.code)
            elif isinstance(frame, ClientOutput):
                for seq, note in enumerate(frame.notes, frame.first_seq):
                    assert seq == self.received + 1
                    self.received = seq
                    if note.type == Event.type_name:
                        self.events.append(decode(Event, note.payload).number)
                    else:
                        self.answers.append(note)

    def go(self, count, size=0, request=0, **options):
        self.say(ClientNote("source", Go.type_name, encode(Go(count, size)), request), **options)

    def acknowledge_all(self, **options):
        before = -1
        while self.received != before:
            before = self.received
            self.say(**options)


@pytest.fixture
def client(bench):
    bench.harness.deploy(Source, name="source")
    return Client(bench)


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr("quorate.agents.client_output.PAGE_NOTES", 3)


@pytest.fixture
def small_window(monkeypatch):
    monkeypatch.setattr("quorate.agents.proxy.MAX_OUTPUT_NOTES", 10)


def source(client):
    return client.bench.harness.agent("source")


def test_what_a_client_has_not_acknowledged_holds_back_the_rest(client, small_window, small_pages):
    client.go(100, acknowledge=False)
    assert client.events == list(range(1, 11))
    assert client.pages
    client.acknowledge_all()
    assert client.events == list(range(1, 101))
    assert [note.type for note in client.answers] == [Answer.type_name]
    assert client.pages == []
    assert client.proxy.agent.flow.waiting is None
    assert client.ends == []


def test_one_reaction_may_send_a_reading_client_more_than_the_window(client):
    client.go(50, size=200_000)
    client.acknowledge_all()
    assert client.events == list(range(1, 51))
    assert client.ends == []


def test_more_notifications_than_the_credit_wait_and_answers_overtake_them(client, small_pages):
    client.go(100, request=7, credit=(20, 1 << 20))
    assert client.events == list(range(1, 21))
    assert [note.request for note in client.answers] == [7]
    client.acknowledge_all()
    assert client.events == list(range(1, 21))
    client.say(credit=(55, 1 << 20))
    assert client.events == list(range(1, 56))
    client.go(1, request=8)
    assert [note.request for note in client.answers] == [7, 8]
    client.say(credit=(1000, 1 << 20))
    assert client.events == list(range(1, 102))
    assert client.pages == []


def test_the_credit_counts_bytes(client):
    client.go(10, size=1000, credit=(1000, 2500))
    assert client.events == [1, 2, 3]
    client.say(credit=(1000, 1 << 20))
    assert client.events == list(range(1, 11))


def test_a_smaller_credit_than_before_is_ignored(client):
    client.go(10, credit=(5, 1 << 20))
    client.say(credit=(3, 10))
    client.say(credit=(6, 10))
    assert client.events == [1, 2, 3, 4, 5, 6]


def test_a_reopened_connection_continues_with_what_waits(client, small_window, small_pages):
    client.go(100, acknowledge=False)
    client.tcp.cut()
    client.tcp, _ = client.bench.opened(connection=client.name, ack=client.received)
    client.read(client.tcp.rest)
    client.acknowledge_all()
    assert client.events == list(range(1, 101))


def test_another_master_continues_with_what_waits(client, small_window, small_pages, make_bench):
    client.go(100, acknowledge=False)
    client.bench = make_bench(harness=client.bench.harness)
    client.tcp, _ = client.bench.opened(connection=client.name, ack=5)
    client.received = 5
    del client.events[5:]
    client.read(client.tcp.rest)
    client.acknowledge_all()
    assert client.events == list(range(1, 101))


@pytest.mark.parametrize("bound", ["MAX_WAITING_NOTES", "MAX_WAITING_BYTES"])
def test_beyond_the_bound_the_sender_is_told_and_the_client_goes_on(
    client, small_window, small_pages, monkeypatch, bound
):
    monkeypatch.setattr("quorate.agents.client_output.MAX_WAITING_NOTES", 20)
    if bound == "MAX_WAITING_BYTES":
        monkeypatch.setattr("quorate.agents.client_output.MAX_WAITING_NOTES", 1000)
        monkeypatch.setattr("quorate.agents.client_output.MAX_WAITING_BYTES", 2000)
    client.go(100, request=7, acknowledge=False)
    failures = source(client).failures
    (failure, *_) = failures
    assert (str(failure.agent), failure.type, failure.error) == (client.name, Event.type_name, "Backlog")
    assert f"client {client.name} of user root" in failure.message
    assert f"at most {MAX_WAITING_NOTES} of them and {MAX_WAITING_BYTES} bytes" in failure.message
    client.acknowledge_all()
    assert client.ends == []
    assert client.events == list(range(1, len(client.events) + 1))
    assert len(client.events) + len(failures) == 101
    (answer,) = client.answers
    assert (answer.request, decode(ExceptionNotification, answer.payload).error) == (7, "Backlog")
    client.go(1, request=8)
    assert [(note.request, note.type) for note in client.answers[1:]] == [(8, Answer.type_name)]


def test_the_end_of_a_connection_leaves_nothing_that_waited(client, small_window, small_pages):
    client.go(100, acknowledge=False)
    assert client.pages
    client.read(client.bench.say(client.tcp, Close(0)))
    assert client.ends == ["closed"]
    assert client.pages == []


def test_what_waits_does_not_make_the_state_of_the_proxy_large(client):
    client.go(0, credit=(10, 1 << 20))
    for _ in range(5):
        client.go(10_000)
    assert len(client.pages) > 40
    assert len(client.proxy.state()) < 200_000


def test_a_client_cannot_read_or_create_pages(client, small_window, small_pages):
    client.go(100, acknowledge=False)
    page = client.pages[0].identity
    assert page.host == 0
    client.acknowledge_all()
    client.say(ClientNote(page, "quorate.connection.read-page/1", msgspec.msgpack.encode({}), 9))
    refused = decode(ExceptionNotification, client.answers[-1].payload)
    assert refused.error == "PermissionError"


def test_a_page_from_somebody_else_is_a_notification_for_the_client(client):
    body = msgspec.msgpack.encode({"page": 1, "notes": b"\x90"})
    client.say(ClientNote(AgentId.parse(client.name), "quorate.connection.page-read/1", body))
    assert [note.type for note in client.answers] == ["quorate.connection.page-read/1"]


def limit_turns(client, reactions):
    engine = client.bench.harness.engine
    engine.settings = attrs.evolve(engine.settings, max_turn=reactions)


def test_after_a_turn_that_was_stopped_the_client_gets_what_was_kept(client, small_window, small_pages):
    limit_turns(client, 50)
    client.go(40, acknowledge=False)
    assert "was stopped after" in " ".join(client.bench.harness.reports)
    limit_turns(client, 1000)
    client.acknowledge_all()
    assert 10 <= len(client.events) < 40
    assert client.events == sorted(set(client.events))
    assert client.proxy.agent.flow.waiting is None
    assert client.pages == []
    client.go(5)
    assert client.events[-5:] == [41, 42, 43, 44, 45]


@pytest.mark.parametrize("reactions", [1, 2, 3, 4, 5])
def test_a_page_whose_reading_was_stopped_is_read_again(client, small_window, small_pages, reactions):
    client.go(100, acknowledge=False)
    limit_turns(client, reactions)
    client.acknowledge_all()
    limit_turns(client, 1000)
    client.acknowledge_all()
    client.acknowledge_all()
    assert client.events == list(range(1, 101))
    assert client.proxy.agent.flow.waiting is None


def test_only_the_server_may_say_that_a_page_does_not_exist(client, small_window, small_pages):
    client.go(100, acknowledge=False)
    limit_turns(client, 2)
    client.say()
    (entry,) = client.proxy.agent.flow.waiting.reading()
    limit_turns(client, 1000)
    lie = UnknownAgent(str(page_id(AgentId.parse(client.name), entry)), "x")
    client.say(ClientNote(AgentId.parse(client.name), UnknownAgent.type_name, encode(lie)), acknowledge=False)
    client.acknowledge_all()
    assert client.events == list(range(1, 101))
    assert [note.type for note in client.answers] == [Answer.type_name, UnknownAgent.type_name]


@attrs.frozen
class Ball(Notification):
    to: AgentId


@attrs.define
class Player(Agent):
    @reacts
    def ball(self, ctx: Context, note: Ball) -> None:
        ctx.send(note.to, Ball(ctx.agent))


def test_the_report_of_a_turn_that_a_client_began_names_what_the_client_sent(client):
    harness = client.bench.harness
    players = [harness.deploy(Player, name) for name in ("ann", "bea")]
    limit_turns(client, 50)
    client.say(
        ClientNote("source", Go.type_name, encode(Go(1)), 1),
        ClientNote("ann", Ball.type_name, encode(Ball(players[1]))),
    )
    beginning = (
        f"the turn of {Ball.type_name} from the client {client.name} to {players[0]} was stopped after"
    )
    assert [beginning in report for report in harness.reports if "was stopped" in report] == [True]
    assert harness.engine.stopped_turn.startswith(f"entry {harness.engine.applied}: {beginning}")
