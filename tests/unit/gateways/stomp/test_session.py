"""The protocol of STOMP without I/O: what a client may do, what it gets, and what ends its connection."""

from typing import Any

import pytest

from quorate.gateways.stomp.frames import Frame, FrameReader, encode_frame
from quorate.gateways.stomp.requests import (
    Close,
    Commit,
    LogIn,
    Publish,
    Rollback,
    Settle,
    Subscribe,
    Sync,
    Unsubscribe,
)
from quorate.gateways.stomp.session import MAX_SUBSCRIPTIONS, MAX_TRANSACTIONS, StompSession


class Client:
    """A client of a session: sends frames, and reads what comes."""

    def __init__(self, version: str = "1.2", connect: bool = True, **headers: str):
        self.now = 0.0
        self.version = version
        self.session = StompSession(self.now, "s0", 1024)
        self._reader = FrameReader()
        self._reader.version = version
        if connect:
            accept = {} if version == "1.0" else {"accept-version": version}
            (login,) = self.send("CONNECT", **accept, login="anna", passcode="secret", **headers)
            assert login == LogIn("anna", "secret", headers.get("client-id", ""))
            self.session.logged_in()
            (self.connected,) = self.got()

    def send(self, command: str, body: bytes = b"", **headers: str) -> list[Any]:
        """Send a frame; ``_`` stands for ``-`` in names of headers. Return the requests."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.raw(encode_frame(Frame(command, named, body), self.version))

    def raw(self, data: bytes) -> list[Any]:
        self.session.received(self.now, data)
        return self.session.requests()

    def got(self) -> list[Frame]:
        return list(self._reader.feed(self.session.data_to_send(self.now)))

    def subscribe(self, name: str = "1", ack: str = "client-individual", **headers: str) -> None:
        (request,) = self.send("SUBSCRIBE", id=name, destination="/queue/orders", ack=ack, **headers)
        self.session.done(request.token)

    def deliver(self, *numbers: int, name: str = "1") -> list[Frame]:
        for number in numbers:
            self.session.deliver(name, number, {"message-id": f"m{number}"}, b"body")
        return self.got()

    def error(self) -> str:
        """The sentence of the ERROR frame with which the connection has ended."""
        *_, frame = self.got()
        assert frame.command == "ERROR"
        assert self.session.closed
        return frame.get("message")


def refused(client: Client, requests: list[Any]) -> str:
    assert [type(each) for each in requests] == [Close]
    return client.error()


# Connecting


@pytest.mark.parametrize(
    ("offered", "version"), [("1.0,1.1,1.2", "1.2"), ("1.1,1.0", "1.1"), ("1.1, 2.0", "1.1"), (None, "1.0")]
)
def test_the_highest_version_that_both_speak_is_used(offered, version) -> None:
    client = Client(connect=False)
    headers = {} if offered is None else {"accept_version": offered}
    client.send("CONNECT", login="anna", passcode="secret", **headers)
    client.session.logged_in()
    (connected,) = client.got()
    assert client.session.version == version
    assert connected.get("version", "1.0") == version


def test_a_version_that_is_not_spoken_is_refused_with_those_that_are() -> None:
    client = Client(connect=False)
    client.send("STOMP", accept_version="2.0")
    (error,) = client.got()
    assert (error.command, error.get("version")) == ("ERROR", "1.0,1.1,1.2")
    assert client.session.closed


def test_a_wrong_password_ends_the_connection() -> None:
    client = Client(connect=False)
    client.send("CONNECT", login="anna", passcode="wrong")
    client.session.refused("wrong user or password")
    assert client.error() == "wrong user or password"


def test_frames_that_come_before_the_answer_to_connect_wait_for_it() -> None:
    client = Client(connect=False)
    client.send("CONNECT", accept_version="1.2", login="anna", passcode="secret")
    assert client.send("SEND", b"x", destination="/queue/orders") == []
    client.session.logged_in()
    (publish,) = client.session.requests()
    assert isinstance(publish, Publish)


def test_the_first_frame_is_connect_and_it_comes_once() -> None:
    client = Client(connect=False)
    assert refused(client, client.send("SEND")) == "the first frame is CONNECT"
    client = Client()
    assert refused(client, client.send("CONNECT")) == "the client is connected already"


def test_a_client_that_never_connects_is_given_up() -> None:
    client = Client(connect=False)
    assert client.session.deadline == 10
    client.session.tick(10)
    assert client.session.requests() == [Close("no CONNECT came in time")]


def test_garbage_is_answered_with_an_error_and_the_end() -> None:
    client = Client(connect=False)
    assert "this is not STOMP" in refused(client, client.raw(b"\x16\x03\x01\x02\x00"))


# Heart-beats


def test_heart_beats_are_as_slow_as_the_slower_side_wants() -> None:
    client = Client(heart_beat="4000,500")
    assert client.connected.get("heart-beat") == "1000,1000"
    assert client.session.deadline == 1
    client.session.tick(1)
    assert client.session.data_to_send(1) == b"\n"
    for now in (2, 3, 4, 5, 6, 7):
        client.session.tick(now)
        client.session.data_to_send(now)
    client.session.tick(8)
    assert client.session.requests() == [Close("nothing was heard for 8 s")]


def test_a_heart_beat_of_the_client_counts_and_without_any_nothing_is_due() -> None:
    client = Client(heart_beat="1000,0")
    client.now = 1.5
    client.raw(b"\n")
    assert client.session.deadline == 3.5
    assert Client(heart_beat="0,0").session.deadline is None
    assert Client().session.deadline is None


def test_a_wrong_heart_beat_is_refused() -> None:
    client = Client(connect=False)
    assert "two numbers" in refused(client, client.send("CONNECT", accept_version="1.2", heart_beat="soon"))


# Sending


def test_a_receipt_comes_when_the_message_is_safe() -> None:
    client = Client()
    (publish,) = client.send("SEND", b"hi", destination="/queue/orders", kind="new", receipt="r1")
    assert publish.destination == "/queue/orders"
    assert (publish.body, publish.headers["kind"], publish.transaction) == (b"hi", "new", "")
    assert client.got() == []
    client.session.done(publish.token)
    assert client.got() == [Frame("RECEIPT", {"receipt-id": "r1"})]


def test_a_message_that_is_refused_ends_the_connection_and_names_the_receipt() -> None:
    client = Client()
    (publish,) = client.send("SEND", destination="/queue/orders", receipt="r1")
    client.session.failed(publish.token, "queue orders is full")
    (error,) = client.got()
    assert (error.get("message"), error.get("receipt-id")) == ("queue orders is full", "r1")
    assert client.session.requests() == [Close("queue orders is full")]


# Receiving and acknowledging


def test_messages_carry_what_their_acknowledgement_needs() -> None:
    newest, older, oldest = Client("1.2"), Client("1.1"), Client("1.0")
    for client in (newest, older):
        client.subscribe()
    (request,) = oldest.send("SUBSCRIBE", destination="/queue/orders", ack="client")
    (frame,) = newest.deliver(7)
    assert frame.headers == {
        "destination": "/queue/orders",
        "message-id": "m7",
        "subscription": "1",
        "ack": "1:7",
        "content-length": "4",
    }
    assert "ack" not in older.deliver(7)[0].headers
    assert "subscription" not in oldest.deliver(7, name=request.subscription)[0].headers


def test_mode_auto_settles_what_is_sent() -> None:
    client = Client()
    client.subscribe(ack="auto")
    assert "ack" not in client.deliver(7)[0].headers
    assert client.session.requests() == [Settle(0, "1", (7,))]


@pytest.mark.parametrize(("mode", "settled"), [("client", (1, 2, 3)), ("client-individual", (3,))])
def test_an_ack_concerns_one_message_or_all_up_to_it(mode, settled) -> None:
    client = Client()
    client.subscribe(ack=mode)
    client.deliver(1, 2, 3, 4)
    (settle,) = client.send("ACK", id="1:3")
    assert (settle.numbers, settle.accepted) == (settled, True)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_older_versions_acknowledge_by_the_id_of_the_message(version) -> None:
    client = Client(version)
    client.subscribe()
    client.deliver(1, 2)
    subscription = {} if version == "1.0" else {"subscription": "1"}
    (settle,) = client.send("ACK", message_id="m2", **subscription)
    assert settle.numbers == (2,)


@pytest.mark.parametrize(("requeue", "comes_again"), [("true", True), ("false", False)])
def test_a_nack_gives_back_or_rejects(requeue, comes_again) -> None:
    client = Client()
    client.subscribe()
    client.deliver(1)
    (settle,) = client.send("NACK", id="1:1", requeue=requeue)
    assert (settle.accepted, settle.requeue) == (False, comes_again)


def test_a_message_is_acknowledged_once() -> None:
    client = Client()
    client.subscribe()
    client.deliver(1)
    client.send("ACK", id="1:1")
    assert "waits for no acknowledgement" in refused(client, client.send("ACK", id="1:1", receipt="r"))


@pytest.mark.parametrize("id", ["1", "1:x", "2:1", ":1", "1:99999999999999999999999"])
def test_an_ack_of_something_else_is_refused(id) -> None:
    client = Client()
    client.subscribe()
    client.deliver(1)
    assert "is not that of the header ack" in refused(client, client.send("ACK", id=id))


def test_what_comes_after_unsubscribe_is_not_sent() -> None:
    client = Client()
    client.subscribe()
    (request,) = client.send("UNSUBSCRIBE", id="1", receipt="r")
    assert isinstance(request, Unsubscribe)
    assert client.deliver(1) == []
    client.session.done(request.token)
    assert client.got() == [Frame("RECEIPT", {"receipt-id": "r"})]


def test_a_subscription_that_the_destination_ends_is_an_error() -> None:
    client = Client()
    client.subscribe()
    client.session.ended("1", "queue orders was deleted")
    assert client.error() == "queue orders was deleted"


# Transactions


def test_a_transaction_takes_effect_with_its_commit() -> None:
    client = Client()
    client.subscribe(ack="client")
    client.deliver(1, 2, 3)
    assert client.send("BEGIN", transaction="t", receipt="b") == []
    assert client.got() == [Frame("RECEIPT", {"receipt-id": "b"})]
    (publish,) = client.send("SEND", destination="/queue/bills", transaction="t")
    assert publish.transaction == "t"
    assert client.send("ACK", id="1:2", transaction="t") == []
    settle, commit = client.send("COMMIT", transaction="t", receipt="c")
    assert (settle.numbers, settle.transaction) == ((1, 2), "t")
    assert isinstance(commit, Commit)
    client.session.done(publish.token)
    client.session.done(commit.token)
    assert client.got() == [Frame("RECEIPT", {"receipt-id": "c"})]


def test_what_an_aborted_transaction_had_acknowledged_can_be_acknowledged_again() -> None:
    client = Client()
    client.subscribe()
    client.deliver(1, 2)
    client.send("BEGIN", transaction="t")
    client.send("ACK", id="1:1", transaction="t")
    (rollback,) = client.send("ABORT", transaction="t")
    assert isinstance(rollback, Rollback)
    (settle,) = client.send("ACK", id="1:1")
    assert settle.numbers == (1,)


@pytest.mark.parametrize("command", ["COMMIT", "ABORT", "SEND"])
def test_a_transaction_that_is_not_open_is_refused(command) -> None:
    client = Client()
    assert "is not open" in refused(client, client.send(command, destination="/queue/a", transaction="t"))


# The end


def test_disconnect_waits_until_everything_is_done() -> None:
    client = Client()
    (publish,) = client.send("SEND", destination="/queue/orders")
    (sync,) = client.send("DISCONNECT", receipt="bye")
    client.session.done(sync.token)
    assert client.got() == []
    client.session.done(publish.token)
    assert client.got() == [Frame("RECEIPT", {"receipt-id": "bye"})]
    assert client.session.requests() == [Close("")]


def test_nothing_is_taken_after_the_end() -> None:
    client = Client()
    assert client.send("DISCONNECT") == [Sync(1)]
    assert client.send("SEND", destination="/queue/orders") == []
    assert client.got() == []


# Wrong frames, and limits


@pytest.mark.parametrize(
    ("command", "headers", "problem"),
    [
        ("SEND", {}, "SEND needs the header destination"),
        ("SUBSCRIBE", {"id": "1"}, "SUBSCRIBE needs the header destination"),
        ("SUBSCRIBE", {"destination": "/queue/a"}, "SUBSCRIBE needs the header id"),
        ("SUBSCRIBE", {"destination": "/queue/a", "id": "1", "ack": "never"}, "ack is auto, client or"),
        ("UNSUBSCRIBE", {}, "UNSUBSCRIBE needs the header id"),
        ("UNSUBSCRIBE", {"id": "5"}, "there is no subscription 5"),
        ("BEGIN", {}, "BEGIN needs the header transaction"),
        ("BEGIN", {"transaction": "t" * 300}, "more than 255 characters"),
        ("FLY", {}, "STOMP has no FLY"),
    ],
)
def test_a_frame_that_lacks_something_is_refused(command, headers, problem) -> None:
    client = Client()
    assert problem in refused(client, client.send(command, **headers))


def test_subscriptions_and_transactions_are_bounded() -> None:
    client = Client()
    for number in range(MAX_SUBSCRIPTIONS):
        client.subscribe(str(number))
    requests = client.send("SUBSCRIBE", id="more", destination="/queue/a")
    assert "at most 1000 subscriptions" in refused(client, requests)
    client = Client()
    for number in range(MAX_TRANSACTIONS):
        client.send("BEGIN", transaction=str(number))
    assert "at most 100 open" in refused(client, client.send("BEGIN", transaction="more"))


def test_a_name_that_is_taken_is_refused() -> None:
    client = Client()
    client.subscribe("1")
    requests = client.send("SUBSCRIBE", id="1", destination="/queue/a")
    assert "subscription 1 already" in refused(client, requests)
    client = Client()
    client.send("BEGIN", transaction="t")
    assert "open already" in refused(client, client.send("BEGIN", transaction="t"))


def test_version_1_0_has_no_nack_and_its_subscriptions_may_have_no_id() -> None:
    client = Client("1.0")
    (request,) = client.send("SUBSCRIBE", destination="/queue/orders")
    assert isinstance(request, Subscribe)
    (request,) = client.send("UNSUBSCRIBE", destination="/queue/orders")
    assert isinstance(request, Unsubscribe)
    assert "no command of STOMP 1.0" in refused(client, client.send("NACK", message_id="m1"))
