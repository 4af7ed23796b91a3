import threading

import attrs
import pytest

from quorate.agents import Notification, Opaque
from quorate.client import (
    AuthenticationError,
    ConnectionClosed,
    FrameTooLarge,
    ReactionError,
    RequestTimeout,
    SessionSettings,
    Unavailable,
    UnexpectedReply,
    UnhandledTypeError,
    UnknownAgentError,
    connect,
    pending,
)
from quorate.client.session import Session


@pytest.fixture
def connection(model):
    with connect(model.url, user="root", password="root") as connection:
        yield connection


def test_a_request_returns_the_answer(connection, deposit, balance):
    connection.send("alice", deposit(5))
    assert connection.request("alice", deposit(7), timeout=5) == balance(12)
    assert connection.request("alice", deposit(1), reply=balance).amount == 13


def test_an_answer_that_its_class_refuses_does_not_lose_the_answers_of_other_requests(
    connection, model, deposit, balance, monkeypatch
):
    """The copy of the class in this process may have a validator that raises anything."""
    decoded = []

    def decode(cls, type_name, payload):
        decoded.append(payload)
        if len(decoded) == 1:
            raise KeyError("amount")
        return original(cls, type_name, payload)

    original = pending.read
    monkeypatch.setattr(pending, "read", decode)
    answers = {}

    def ask(number):
        try:
            answers[number] = connection.request("alice", deposit(1), reply=balance, timeout=5)
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [answer for answer in answers.values() if isinstance(answer, UnexpectedReply)]
    assert len(refused) == 1
    assert "does not fit" in str(refused[0])
    assert sum(isinstance(answer, balance) for answer in answers.values()) == 7
    assert connection.reconnections == 0


@pytest.mark.parametrize("reply", [int, "Balance", (int,), 5])
def test_a_reply_that_is_no_notification_class_is_refused_before_anything_is_sent(
    connection, model, deposit, reply
):
    with pytest.raises(TypeError, match="give a notification class"):
        connection.request("alice", deposit(1), reply=reply)
    assert model.seen == []


def test_sending_returns_once_the_server_has_it(connection, model, deposit):
    connection.send("alice", deposit(5))
    assert model.seen == [5]
    assert connection.unacknowledged == 0


def test_many_notifications_share_a_frame(connection, model, deposit):
    for n in range(5000):
        connection.send_nowait("alice", deposit(n))
    connection.flush(timeout=10)
    assert model.seen == list(range(5000))
    assert model.frames < 1000


def test_the_other_replica_is_found_when_the_master_dies(connection, model, deposit, balance):
    for n in range(1, 101):
        connection.send_nowait("alice", deposit(n))
        if n == 50:
            model.fail_over()
    assert connection.request("alice", deposit(0), reply=balance, timeout=10) == balance(5050)
    assert model.seen == [*range(1, 101), 0]
    assert connection.reconnections >= 1
    assert connection.is_open


def test_an_answer_lost_with_the_connection_arrives_after_it_is_reopened(connection, model, deposit, balance):
    model.cut_after = 1
    assert connection.request("alice", deposit(5), timeout=10) == balance(5)
    assert model.seen == [5]


def test_threads_share_a_connection(connection, model, deposit):
    def work(start):
        for n in range(start, start + 200):
            connection.send_nowait("alice", deposit(n))
            if n % 50 == 0:
                connection.request("alice", deposit(n), timeout=10)

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection.flush(10)
    for k in range(4):
        mine = list(dict.fromkeys(n for n in model.seen if n // 1000 == k))
        assert mine == list(range(1000 * k, 1000 * k + 200))


def test_the_waiter_of_an_answer_is_known_before_the_request_leaves(
    connection, deposit, balance, monkeypatch
):
    # An answer can be read in the very turn of the loop that sent the request, before any other turn.
    later = []
    monkeypatch.setattr(connection, "_call", lambda function, _: later.append(function))
    assert connection.request("alice", deposit(5), reply=balance, timeout=5) == balance(5)
    monkeypatch.undo()


def test_a_wrong_password_is_an_error_at_once(model):
    with pytest.raises(AuthenticationError, match="wrong user or password"):
        connect(model.url, user="root", password="guess", timeout=100)


def test_without_a_server_the_error_names_what_was_tried(model):
    port = model.ports[1]
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}: connection refused"):
        connect(f"quorate://127.0.0.1:{port}", user="root", password="root", timeout=0.3)


def test_a_program_that_waits_for_its_first_master_is_told_why(model, monkeypatch, caplog):
    port = model.ports[1]
    monkeypatch.setattr(Session, "notice_s", 0.1)
    with pytest.raises(Unavailable):
        connect(f"quorate://127.0.0.1:{port}", user="root", password="root", timeout=0.4)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("quorate.client", "WARNING")
    assert f"127.0.0.1:{port}: connection refused" in record.getMessage()


def test_a_name_without_agent_is_an_error(model):
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid:1: "):
        connect("quorate://no-such-host.invalid:1", user="root", password="root", timeout=0.3)


def test_a_failed_reaction_is_raised_with_its_report(connection, deposit):
    with pytest.raises(ReactionError, match="ValueError: no debts") as caught:
        connection.request("alice", deposit(-1))
    assert caught.value.notification.error == "ValueError"
    with pytest.raises(UnhandledTypeError, match="does not react to Deposit"):
        connection.request("stranger", deposit(1))


def test_an_unknown_agent_is_raised(connection, deposit):
    with pytest.raises(UnknownAgentError, match="there is no agent nobody"):
        connection.request("nobody", deposit(1))


def test_failures_of_plain_sends_come_to_receive(connection, deposit):
    connection.send("nobody", deposit(1))
    assert connection.receive(timeout=5).notification.agent == "nobody"


def test_another_reply_than_the_accepted_one_is_an_error_that_carries_it(connection, deposit, balance):
    with pytest.raises(UnexpectedReply, match=r"not .*Deposit") as caught:
        connection.request("alice", deposit(1), reply=deposit)
    assert caught.value.reply.type == balance.type_name
    assert connection.request("alice", deposit(1), reply=(deposit, balance)) == balance(2)


def test_a_reply_of_an_unknown_type_is_an_error_that_carries_it(connection, model, deposit, monkeypatch):
    monkeypatch.setattr("quorate.client.pending.known_type", lambda name: None)
    with pytest.raises(UnexpectedReply, match="import its module"):
        connection.request("alice", deposit(1))
    model.push(deposit(3))
    assert isinstance(connection.receive(timeout=5).notification, Opaque)


def test_a_request_that_is_not_answered_times_out(connection, deposit):
    with pytest.raises(RequestTimeout, match="silent has not answered"):
        connection.request("silent", deposit(1), timeout=0.05)
    with pytest.raises(TimeoutError):
        connection.receive(timeout=0.01)


def test_a_send_that_is_not_acknowledged_times_out_and_arrives_later(connection, model, deposit):
    model.deaf = True
    with pytest.raises(RequestTimeout):
        connection.send("alice", deposit(5), timeout=0.05)
    model.hear_again()
    connection.flush(10)
    assert model.seen == [5]


def test_a_full_window_blocks_the_sender_and_nothing_is_lost(model, deposit):
    model.window = 10
    with connect(model.url, user="root", password="root") as connection:
        model.deaf = True
        for n in range(10):
            connection.send_nowait("alice", deposit(n), timeout=5)
        with pytest.raises(RequestTimeout, match="window of 10"):
            connection.send_nowait("alice", deposit(99), timeout=0.05)
        model.hear_again()
        for n in range(10, 100):
            connection.send_nowait("alice", deposit(n), timeout=10)
        connection.flush(10)
    assert model.seen == list(range(100))


def test_a_notification_too_large_is_refused_and_the_connection_goes_on(connection, model, deposit):
    with pytest.raises(FrameTooLarge, match="65536"):
        connection.send("alice", deposit(1, "x" * 70_000))
    connection.send("alice", deposit(2))
    assert model.seen == [2]


def test_what_cannot_be_sent_is_a_type_error(connection):
    @attrs.frozen
    class Bad(Notification):
        thing: object

    with pytest.raises(TypeError, match="not a notification"):
        connection.send("alice", 5)
    with pytest.raises(TypeError, match="cannot be encoded"):
        connection.send("alice", Bad(object()))


def test_an_expired_connection_is_an_error_that_names_the_consequence(connection, model, deposit):
    model.deaf = True
    connection.send_nowait("alice", deposit(5))
    model.contexts.clear()
    model.cut()
    with pytest.raises(ConnectionClosed, match="the high availability is broken"):
        connection.flush(10)
    with pytest.raises(ConnectionClosed):
        connection.send("alice", deposit(5))
    with pytest.raises(ConnectionClosed):
        connection.request("alice", deposit(5))
    with pytest.raises(ConnectionClosed):
        connection.receive()


def test_a_closed_connection_refuses_operations(connection, model, deposit):
    connection.send_nowait("alice", deposit(5))
    connection.close()
    assert model.seen == [5]
    for attempt in (
        lambda: connection.send("alice", deposit(5)),
        lambda: connection.request("alice", deposit(5)),
        lambda: connection.flush(),
        lambda: connection.receive(),
    ):
        with pytest.raises(ConnectionClosed, match="the connection is closed"):
            attempt()
    connection.close()


def test_leaving_the_block_by_an_exception_does_not_wait(model, deposit):
    model.deaf = True

    def fail():
        with connect(model.url, user="root", password="root") as connection:
            connection.send_nowait("alice", deposit(5))
            raise KeyError

    with pytest.raises(KeyError):
        fail()


def test_notifications_that_answer_nothing_are_received_in_order(connection, model, deposit):
    for n in range(3):
        model.push(deposit(n))
    received = [connection.receive(timeout=5) for _ in range(3)]
    assert [r.notification.amount for r in received] == [0, 1, 2]
    assert str(received[0].sender) == "#0.0.1030"


def test_an_inbox_that_is_switched_off_drops_and_counts(model, deposit, balance):
    tuning = SessionSettings(inbox_notes=0)
    with connect(model.url, user="root", password="root", settings=tuning) as connection:
        for n in range(8):
            model.push(deposit(n))
        assert connection.request("alice", deposit(5), reply=balance) == balance(5)
        assert connection.inbox_dropped == 8


def test_no_thread_stays_behind(model):
    before = threading.active_count()
    with connect(model.url, user="root", password="root"):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_the_server_is_told_of_the_room_that_receiving_makes(model, deposit):
    tuning = SessionSettings(inbox_notes=4, ack_delay_s=1000)
    with connect(model.url, user="root", password="root", settings=tuning) as connection:
        for n in range(2):
            model.push(deposit(n))
        connection.request("alice", deposit(0))
        assert model.credits.get(timeout=5) == 4
        for n in range(2):
            assert connection.receive(timeout=5).notification == deposit(n)
        assert model.credits.get(timeout=5) == 6
