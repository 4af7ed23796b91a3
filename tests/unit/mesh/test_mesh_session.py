"""The session of a client of a mesh: daemons one after the other, and what is sent again."""

from typing import Any

import pytest

from quorate.client.errors import (
    AuthenticationError,
    ConnectionLost,
    NotPermitted,
    ProtocolError,
    Unavailable,
)
from quorate.client.events import Connect, Disconnect, SessionSettings
from quorate.client.frames import Bye, ByeCode, FrameBuffer, Hello, Ping, Pong, Welcome
from quorate.mesh import MeshError, NoTopic, SubscriptionEnded, TopicExists
from quorate.mesh.client.publisher import Confirmation
from quorate.mesh.client.session import MeshSession
from quorate.mesh.client.subscriber import MeshMessage, Subscriber
from quorate.mesh.frames import (
    MAGIC,
    Acknowledge,
    Answer,
    Ask,
    Attach,
    Attached,
    ClientFrame,
    Deliver,
    Detach,
    Ended,
    Publish,
    Published,
    Refused,
    ServerFrame,
    decode_client_frame,
    encode_frame,
)
from quorate.mesh.model import Data, Dot, Position, Stream, Uid, encode_record

ONE, OTHER = ("one", 1), ("other", 2)
STREAM = Stream(Uid(1, 0, 5, 1), 0, 5)


class Program:
    """What the program hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.messages: list[bytes] = []

    def opened(self) -> None:
        self.heard.append(("opened",))

    def confirmed(self, topic: str, confirmation: Confirmation) -> None:
        code = None if confirmation.refusal is None else confirmation.refusal.code
        self.heard.append(("confirmed", topic, confirmation.numbers, code))

    def order_lost(self, topic: str) -> None:
        self.heard.append(("order lost", topic))

    def answered(self, request: int, result: Any, error: Exception | None) -> None:
        self.heard.append(("answered", request, result, type(error)))

    def attached(self, consumer: int, error: Exception | None) -> None:
        self.heard.append(("attached", consumer, type(error)))

    def received(self, consumer: int, messages: list[MeshMessage]) -> None:
        del consumer
        self.messages += [each.body for each in messages]

    def ended(self, consumer: int, error: Exception) -> None:
        self.heard.append(("ended", consumer, type(error)))

    def closed(self, error: Exception | None) -> None:
        self.heard.append(("closed", type(error)))

    def news(self) -> list[tuple[Any, ...]]:
        heard, self.heard = self.heard, []
        return heard


class Client:
    """A session with its driver in the hands of a test."""

    def __init__(self, reconnect_s: float = 60.0) -> None:
        self.program = Program()
        self.now = 100.0
        settings = SessionSettings(open_timeout_s=10.0, reconnect_timeout_s=reconnect_s)
        self.session = MeshSession([ONE, OTHER], "me", "secret", "id", self.program, settings, lambda: 0.5)
        self.session.start(self.now)

    @property
    def actions(self) -> list[Any]:
        return [each.endpoint if isinstance(each, Connect) else "-" for each in self.session.take_actions()]

    def sent(self) -> list[ClientFrame]:
        buffer = FrameBuffer(1 << 24)
        buffer.feed(self.session.data_to_send())
        found: list[ClientFrame] = []
        while (body := buffer.next()) is not None:
            found.append(decode_client_frame(body))
        return found

    def hears(self, *frames: ServerFrame) -> None:
        self.session.received(self.now, b"".join(map(encode_frame, frames)))

    def open(self, daemon: str = "0") -> list[ClientFrame]:
        """Let the attempt under way succeed. Return what is sent after the Hello."""
        self.session.take_actions()
        self.session.connected(self.now)
        (hello,) = self.sent()
        assert isinstance(hello, Hello)
        assert (hello.magic, hello.user, hello.password) == (MAGIC, "me", "secret")
        self.hears(Welcome(1, daemon, [ONE, OTHER], 60.0, 1 << 20, 100))
        return self.sent()

    def lose(self) -> None:
        self.now += 5.0
        self.session.lost(self.now, "gone")


@pytest.fixture
def client() -> Client:
    made = Client()
    assert made.open() == []
    assert made.program.news() == [("opened",)]
    return made


def subscribed(client: Client) -> int:
    consumer = client.session.subscribe(Subscriber("t", "audit", "token"), 0)
    (attach,) = client.sent()
    assert isinstance(attach, Attach)
    client.hears(Attached(attach.request, consumer, [Dot(0, 5, 2)]))
    assert client.program.news() == [("attached", consumer, type(None))]
    return consumer


def delivery(consumer: int, *numbers: int) -> Deliver:
    records = [(n, encode_record(Data("p#1", n, b"%d" % n, 0))) for n in numbers]
    return Deliver(consumer, STREAM, records)


def test_the_next_daemon_is_tried_when_one_does_not_answer() -> None:
    client = Client()
    assert client.actions == [ONE]
    client.session.attempt_failed(client.now, "refused")
    assert client.actions == [OTHER]
    client.now = client.session.deadline or 0.0
    client.session.tick(client.now)
    assert client.actions == ["-"]
    assert not client.session.closed


def test_a_session_that_finds_no_daemon_in_time_ends() -> None:
    client = Client()
    while not client.session.closed:
        client.session.take_actions()
        client.now = max(client.now, client.session.deadline or 0.0)
        client.session.tick(client.now)
    assert client.program.news() == [("closed", Unavailable)]
    assert client.now < 115


def test_what_was_published_before_the_connection_is_sent_with_it() -> None:
    client = Client()
    client.session.publish("t", [b"a", b"b"])
    (publish,) = client.open()
    assert isinstance(publish, Publish)
    assert (publish.topic, publish.publisher, publish.first, publish.bodies) == ("t", "id#1", 1, [b"a", b"b"])


def test_unacknowledged_messages_and_subscriptions_go_to_the_next_daemon(client: Client) -> None:
    consumer = subscribed(client)
    client.hears(delivery(consumer, 1, 2))
    client.session.acknowledge(consumer)
    assert [type(each) for each in client.sent()] == [Acknowledge]
    client.session.publish("t", [b"a"])
    (publish,) = client.sent()
    assert isinstance(publish, Publish)
    client.lose()
    assert client.actions == [ONE]
    client.session.attempt_failed(client.now, "refused")
    attach, again = client.open("1")
    assert client.session.daemon == "1"
    assert isinstance(attach, Attach)
    assert attach.cursor is not None
    assert attach.cursor.positions == {STREAM: 2}
    assert isinstance(again, Publish)
    assert again.bodies == [b"a"]
    client.hears(Published(publish.request, Position(STREAM, 9)))
    assert client.program.news() == []
    client.hears(Published(again.request, Position(STREAM, 9)), delivery(consumer, 2, 3))
    assert client.program.news() == [("confirmed", "t", (1,), None)]
    assert client.program.messages == [b"1", b"2", b"3"]


def test_a_daemon_that_is_silent_is_left(client: Client) -> None:
    for _ in range(3):
        client.now += 3.0
        client.session.tick(client.now)
        assert [type(each) for each in client.sent()] == [Ping]
    client.hears(Pong(3))
    client.now += 3.0
    client.session.tick(client.now)
    assert client.actions == []
    client.now += 10.0
    client.session.tick(client.now)
    assert client.actions == ["-", OTHER]


def test_a_session_ends_when_no_daemon_is_found_again() -> None:
    client = Client(reconnect_s=5.0)
    client.open()
    client.session.publish("t", [b"a"])
    client.lose()
    while not client.session.closed:
        client.session.take_actions()
        client.now = max(client.now + 0.01, client.session.deadline or 0.0)
        client.session.tick(client.now)
    assert client.program.news()[-1] == ("closed", ConnectionLost)


def test_a_daemon_that_was_forgotten_is_left_for_another_one(client: Client) -> None:
    client.session.publish("t", [b"a"])
    (publish,) = client.sent()
    assert isinstance(publish, Publish)
    client.now += 5.0
    client.hears(Refused(publish.request, "forgotten", "not of the mesh"))
    assert client.actions == ["-", OTHER]
    (again,) = client.open("1")
    assert isinstance(again, Publish)
    assert client.program.news() == []


@pytest.mark.parametrize(
    ("code", "error"), [(ByeCode.AUTHENTICATION, AuthenticationError), (ByeCode.PROTOCOL, ProtocolError)]
)
def test_a_refused_hello_ends_the_session(code: str, error: type[Exception]) -> None:
    client = Client()
    client.session.connected(client.now)
    client.sent()
    client.hears(Bye(code, "no"))
    assert client.program.news() == [("closed", error)]


def test_a_daemon_that_stops_says_so_and_another_one_is_tried(client: Client) -> None:
    client.now += 5.0
    client.hears(Bye(ByeCode.UNAVAILABLE, "this daemon is stopping"))
    assert client.actions == ["-", OTHER]


def test_garbage_of_a_daemon_ends_the_session(client: Client) -> None:
    client.session.received(client.now, b"\x00\x00\x00\x01\xc1")
    assert isinstance(client.session.error, ProtocolError)


@pytest.mark.parametrize(
    ("code", "error"),
    [("rights", NotPermitted), ("exists", TopicExists), ("no topic", NoTopic), ("wrong", MeshError)],
)
def test_a_refused_request_fails_with_its_error(client: Client, code: str, error: type[Exception]) -> None:
    request = client.session.ask("create", "t")
    assert client.sent() == [Ask(request, "create", "t", None, "")]
    client.hears(Refused(request, code, "no"))
    assert client.program.news() == [("answered", request, None, error)]


def test_a_creation_whose_answer_was_lost_succeeds_when_it_is_repeated(client: Client) -> None:
    request = client.session.ask("create", "t")
    client.sent()
    client.lose()
    assert client.open() == [Ask(request, "create", "t", None, "")]
    client.hears(Refused(request, "exists", "there is one"))
    assert client.program.news() == [("answered", request, None, type(None))]


def test_a_refused_message_is_reported_and_later_ones_are_sent_again(client: Client) -> None:
    client.session.publish("t", [b"a"])
    (first,) = client.sent()
    client.session.publish("t", [b"b"])
    client.sent()
    assert isinstance(first, Publish)
    client.hears(Refused(first.request, "full", "no room"))
    assert client.program.news() == [("confirmed", "t", (1,), "full")]
    (again,) = client.sent()
    assert isinstance(again, Publish)
    assert (again.first, again.previous) == (2, 0)


def test_a_lost_order_is_reported_and_everything_is_sent_again(client: Client) -> None:
    client.session.publish("t", [b"a"])
    (first,) = client.sent()
    assert isinstance(first, Publish)
    client.hears(Refused(first.request, "order lost", "lost"))
    assert client.program.news() == [("order lost", "t")]
    (again,) = client.sent()
    assert isinstance(again, Publish)
    assert again.publisher == "id#2"


def test_a_subscription_to_no_topic_is_refused(client: Client) -> None:
    consumer = client.session.subscribe(Subscriber("t"), 0)
    (attach,) = client.sent()
    assert isinstance(attach, Attach)
    client.hears(Refused(attach.request, "no topic", "no such topic"))
    assert client.program.news() == [("attached", consumer, NoTopic)]


def test_a_subscription_waits_for_its_topic_at_a_daemon_that_has_not_heard_of_it(client: Client) -> None:
    subscribed(client)
    client.lose()
    (attach,) = client.open("1")
    assert isinstance(attach, Attach)
    client.hears(Refused(attach.request, "no topic", "no such topic"))
    assert client.program.news() == []
    client.now += 0.6
    client.session.tick(client.now)
    assert [type(each) for each in client.sent()] == [Attach]


def test_a_subscription_that_ends_elsewhere_is_reported(client: Client) -> None:
    consumer = subscribed(client)
    client.hears(Ended(consumer, "ended", "it was ended"), delivery(consumer, 1))
    assert client.program.news() == [("ended", consumer, SubscriptionEnded)]
    assert client.program.messages == []


def test_leaving_a_subscription_is_answered(client: Client) -> None:
    consumer = subscribed(client)
    request = client.session.detach(consumer, end=True)
    assert client.sent() == [Detach(request, consumer, True)]
    client.hears(Answer(request))
    assert client.program.news() == [("answered", request, None, type(None))]


def test_closing_ends_everything(client: Client) -> None:
    subscribed(client)
    client.session.ask("topics")
    client.session.close()
    assert [each[0] for each in client.program.news()] == ["answered", "ended", "closed"]
    assert isinstance(client.session.take_actions()[-1], Disconnect)


def test_a_daemon_that_has_not_heard_of_a_topic_gets_the_messages_again_a_little_later(
    client: Client,
) -> None:
    client.session.publish("t", [b"1"])
    (first,) = client.sent()
    assert isinstance(first, Publish)
    client.hears(Published(first.request, Position(STREAM, 1)))
    client.lose()
    client.open("1")
    client.program.news()
    client.session.publish("t", [b"2"])
    (second,) = client.sent()
    assert isinstance(second, Publish)
    client.hears(Refused(second.request, "no topic", "there is no topic 't' at daemon 1"))
    assert client.program.news() == []
    assert client.sent() == []
    client.now = client.session.deadline or 0.0
    client.session.tick(client.now)
    (again,) = client.sent()
    assert isinstance(again, Publish)
    assert (again.first, again.bodies) == (2, [b"2"])
    client.now += 10.0
    client.hears(Refused(again.request, "no topic", "there is no topic 't' at daemon 1"))
    assert client.program.news() == [("confirmed", "t", (2,), "no topic")]
