"""The session, driven by hand: the test is the server, the network and the clock."""

import pytest

from quorate.agents import AgentId
from quorate.client.errors import (
    AuthenticationError,
    ConnectionClosed,
    ConnectionLost,
    FrameTooLarge,
    ProtocolError,
    Unavailable,
)
from quorate.client.events import (
    Acknowledged,
    Connect,
    Delivered,
    Disconnect,
    Ended,
    Interrupted,
    Opened,
    Resumed,
    SessionSettings,
    StillOpening,
)
from quorate.client.frames import (
    Bye,
    ClientInput,
    ClientOutput,
    Close,
    FrameBuffer,
    Hello,
    Ping,
    Pong,
    ServerNote,
    Welcome,
    decode_client_frame,
    encode_frame,
)
from quorate.client.session import Session

A, B, C = ("a", 1), ("b", 2), ("c", 3)
INBOX = (65536, 64 << 20)
WELCOME = Welcome(1, "#0.0.1025", [A, B, C], 60.0, 1 << 20, 100, 0)


class Driver:
    """Calls a session and decodes what it writes."""

    def __init__(self, endpoints=(A, B), **tuning):
        self.session = Session(list(endpoints), "root", "secret", lambda: 1.0, SessionSettings(**tuning))
        self.now = 0.0
        self.session.start(0.0)

    def events(self):
        return self.session.pop_events()

    def frames(self):
        data = b""
        while more := self.session.data_to_send(self.now):
            data += more
        buffer = FrameBuffer(1 << 24)
        buffer.feed(data)
        frames = []
        while (body := buffer.next()) is not None:
            frames.append(decode_client_frame(body))
        return frames

    def receive(self, *frames):
        self.session.received(self.now, b"".join(encode_frame(frame) for frame in frames))

    def open(self, welcome=WELCOME):
        self.session.connected(self.now)
        self.frames()
        self.receive(welcome)
        self.events()
        return self

    def send(self, n=1, request=0):
        for _ in range(n):
            self.session.send("alice", "bank:Deposit", b"\x80", request)

    def at(self, now):
        self.now = now
        self.session.tick(now)


def note(n):
    return ServerNote(AgentId(0, 0, 1030), "bank:Balance", b"\x80", n)


def seqs(frames):
    return [(f.first_seq, len(f.notes)) for f in frames if isinstance(f, ClientInput)]


def test_a_session_sends_hello_and_is_opened_by_the_welcome():
    driver = Driver()
    assert driver.events() == [Connect(A)]
    driver.session.connected(0.0)
    assert driver.frames() == [Hello("quorate-client", 1, "root", "secret", None, 0, 1)]
    driver.receive(WELCOME)
    assert driver.events() == [Opened("#0.0.1025")]
    assert driver.session.replicas == (A, B, C)
    assert driver.session.window == 100
    assert driver.session.is_open


def test_notifications_are_numbered_packed_and_kept_until_acknowledged():
    driver = Driver().open()
    driver.send(3)
    assert seqs(driver.frames()) == [(1, 3)]
    driver.send(2)
    assert seqs(driver.frames()) == [(4, 2)]
    driver.receive(ClientOutput(4, 1, []))
    assert driver.events() == [Acknowledged(4)]
    assert driver.session.outbox.acked == 4
    driver.session.lost(1.0, "cut")
    driver.events()
    driver.session.connected(1.0)
    assert driver.frames()[0].connection == "#0.0.1025"
    driver.receive(Welcome(1, "#0.0.1025", [A], 60.0, 1 << 20, 100, 4))
    assert driver.events() == [Resumed(A)]
    assert seqs(driver.frames()) == [(5, 1)]


def test_what_is_sent_before_the_welcome_goes_out_after_it():
    driver = Driver()
    driver.send(2)
    driver.session.connected(0.0)
    assert [type(f) for f in driver.frames()] == [Hello]
    driver.receive(WELCOME)
    assert seqs(driver.frames()) == [(1, 2)]


def test_the_welcome_acknowledges_what_the_lost_connection_could_not():
    driver = Driver().open()
    driver.send(3)
    driver.frames()
    driver.session.lost(1.0, "cut")
    driver.session.connected(1.0)
    driver.frames()
    driver.events()
    driver.receive(Welcome(1, "#0.0.1025", [A], 60.0, 1 << 20, 100, 3))
    assert driver.events() == [Resumed(A), Acknowledged(3)]
    assert driver.frames() == []


def test_a_notification_acknowledged_by_the_welcome_before_it_was_written_again_is_not_written():
    driver = Driver().open()
    driver.send(3)
    driver.frames()
    driver.session.lost(1.0, "cut")
    driver.send(2)
    driver.session.connected(1.0)
    driver.receive(Welcome(1, "#0.0.1025", [A], 60.0, 1 << 20, 100, 2))
    assert seqs(driver.frames()) == [(3, 3)]


def test_received_notifications_are_delivered_once():
    driver = Driver().open()
    driver.receive(ClientOutput(0, 1, [note(1), note(2)]))
    driver.receive(ClientOutput(0, 2, [note(2), note(3)]))
    driver.receive(ClientOutput(0, 1, [note(1)]))
    delivered = [n.request for e in driver.events() if isinstance(e, Delivered) for n in e.notes]
    assert delivered == [1, 2, 3]


def test_the_hello_of_a_reopening_tells_what_was_received():
    driver = Driver().open()
    driver.receive(ClientOutput(0, 1, [note(1), note(2)]))
    driver.session.lost(1.0, "cut")
    driver.session.connected(1.0)
    assert driver.frames()[0].out_ack == 2


def test_a_gap_in_the_output_makes_the_session_reopen():
    driver = Driver().open()
    driver.receive(ClientOutput(0, 3, [note(3)]))
    assert driver.events() == [
        Disconnect(),
        Interrupted("notification 1 from the server is missing"),
        Connect(A),
    ]


def test_a_gap_of_one_in_the_output_makes_the_session_reopen():
    driver = Driver().open()
    driver.receive(ClientOutput(0, 1, [note(1)]))
    driver.events()
    driver.receive(ClientOutput(0, 3, [note(3)]))
    assert driver.events() == [
        Disconnect(),
        Interrupted("notification 2 from the server is missing"),
        Connect(A),
    ]


@pytest.mark.parametrize("cut", [1, 4, 7])
def test_half_a_frame_of_a_lost_connection_is_not_read_with_the_next_one(cut):
    driver = Driver().open()
    driver.session.received(0.0, encode_frame(ClientOutput(0, 1, [note(1)]))[:cut])
    driver.session.lost(1.0, "cut")
    driver.events()
    driver.session.connected(1.0)
    driver.frames()
    driver.receive(WELCOME, ClientOutput(0, 1, [note(1)]))
    assert driver.events() == [Resumed(A), Delivered([note(1)])]


def test_acknowledgements_wait_for_company_but_not_for_ever():
    driver = Driver(ack_delay_s=0.5).open()
    driver.receive(ClientOutput(0, 1, [note(1)]))
    assert driver.frames() == []
    assert driver.session.deadline == 0.5
    driver.at(0.5)
    assert driver.frames() == [ClientInput(1, 1, [], *INBOX)]
    driver.receive(ClientOutput(0, 2, [note(2)]))
    driver.send()
    (frame,) = driver.frames()
    assert (frame.out_ack, frame.first_seq) == (2, 1)
    driver.at(0.9)
    assert driver.frames() == []


def test_many_received_notifications_are_acknowledged_at_once():
    driver = Driver(ack_notes=3).open()
    driver.receive(ClientOutput(0, 1, [note(1), note(2), note(3)]))
    assert driver.frames() == [ClientInput(3, 1, [], *INBOX)]


def test_a_session_without_traffic_keeps_alive_and_notices_a_dead_replica():
    driver = Driver().open()
    interval = driver.session.ping_interval_s
    driver.at(interval)
    assert driver.frames() == [Ping(1, 0, 1)]
    driver.receive(Pong(1))
    for n in (2, 3):
        driver.at(n * interval)
        assert driver.frames() == [Ping(n, 0, 1)]
    assert driver.session.deadline == 4 * interval
    driver.at(4 * interval)
    events = driver.events()
    assert events[0] == Disconnect()
    assert "nothing was heard from the replica for" in events[1].reason


def test_a_replica_that_fell_silent_is_tried_last_and_not_waited_for_long():
    driver = Driver(handshake_first_s=1.5, handshake_timeout_s=6.0, attempt_timeout_s=2.0).open()
    now = 3 * driver.session.ping_interval_s
    driver.at(now)
    assert driver.events()[2:] == [Connect(B)]
    for answers in (1.5, 3.0, 6.0, 6.0):
        # The slaves refuse; the frozen master takes the connection and says nothing.
        driver.session.attempt_failed(now, "connection refused")
        driver.session.attempt_failed(now, "connection refused")
        assert driver.events()[-1] == Connect(A)
        driver.session.connected(now)
        assert driver.session.deadline == now + answers
        now += answers
        driver.at(now)
        now = driver.session.deadline
        driver.at(now)
        assert driver.events()[-1] == Connect(B)
    driver.open()
    assert driver.session.is_open
    driver.session.lost(now, "cut")
    assert driver.events()[-1] == Connect(B)


def test_a_session_that_was_stopped_does_not_drop_its_replica_at_once():
    driver = Driver().open()
    interval = driver.session.ping_interval_s
    driver.at(100 * interval)
    assert driver.events() == []
    assert driver.frames() == [Ping(1, 0, 1)]
    driver.at(101 * interval)
    assert driver.events()[0] == Disconnect()


def test_keep_alives_come_at_a_third_of_a_short_idle_timeout():
    driver = Driver().open(Welcome(1, "#0.0.1025", [A], 3.0, 1 << 20, 100, 0))
    assert driver.session.deadline == 1.0


def test_the_same_replica_is_tried_first_then_the_others_then_it_waits():
    driver = Driver(backoff_first_s=0.1, backoff_cap_s=0.3)
    driver.events()
    driver.session.attempt_failed(0.0, "connection refused")
    assert driver.events() == [Connect(B)]
    driver.open()
    driver.session.lost(10.0, "cut")
    assert driver.events() == [Interrupted("cut"), Connect(B)]
    driver.session.attempt_failed(10.0, "refused")
    assert driver.events() == [Connect(C)]
    driver.session.attempt_failed(10.0, "refused")
    assert driver.events() == [Connect(A)]
    driver.session.attempt_failed(10.0, "refused")
    assert driver.events() == []
    waits, now = [], 10.0
    for _ in range(4):
        waits.append(round(driver.session.deadline - now, 6))
        now = driver.session.deadline
        driver.at(now)
        for _ in range(3):
            driver.session.attempt_failed(now, "refused")
    assert waits == [0.1, 0.2, 0.3, 0.3]


def test_connections_that_break_as_soon_as_they_are_welcomed_are_tried_ever_later():
    driver = Driver(backoff_first_s=0.1, backoff_cap_s=0.5).open()
    waits, now = [], 10.0
    for _ in range(5):
        driver.session.lost(now, "cut")
        at_once = any(isinstance(event, Connect) for event in driver.events())
        waits.append(0.0 if at_once else round(driver.session.deadline - now, 6))
        now += waits[-1]
        driver.at(now)
        driver.open()
        now += 0.2
    assert waits == [0.0, 0.0, 0.2, 0.4, 0.5]
    # One that lasts is no such one.
    now += 1.0
    driver.session.lost(now, "cut")
    assert driver.events()[-1] == Connect(A)


def test_an_attempt_that_hangs_is_given_up_for_the_next_replica():
    driver = Driver(attempt_timeout_s=2.0, handshake_first_s=6.0, handshake_timeout_s=6.0)
    driver.events()
    driver.at(2.0)
    assert driver.events() == [Disconnect(), Connect(B)]
    driver.session.connected(2.0)
    assert driver.session.deadline == 3.0
    driver.at(3.0)
    (notice,) = driver.events()
    assert isinstance(notice, StillOpening)
    assert "tries for 117 s more: a:1: no connection within 2 s; b:2: no answer in time" in notice.text
    driver.at(8.0)
    assert driver.events()[0] == Disconnect()


def test_without_a_master_the_error_tells_why_for_each_replica():
    driver = Driver(open_timeout_s=5.0)
    driver.session.attempt_failed(0.0, "connection refused")
    driver.session.connected(0.0)
    driver.receive(Bye("unavailable", "this replica is no longer master"))
    driver.at(5.0)
    error = driver.events()[-1].error
    assert isinstance(error, Unavailable)
    assert "within 5 s" in str(error)
    assert "a:1: connection refused; b:2: this replica is no longer master" in str(error)
    with pytest.raises(Unavailable):
        driver.send()
    assert driver.session.deadline is None


def test_a_connection_that_cannot_be_reopened_is_lost():
    driver = Driver(reconnect_timeout_s=20.0).open()
    driver.session.lost(100.0, "cut")
    driver.at(120.0)
    assert isinstance(driver.events()[-1].error, ConnectionLost)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("authentication", AuthenticationError, "sentence"),
        ("version", ProtocolError, "refuses"),
        ("protocol", ProtocolError, "refuses"),
        ("expired", ConnectionClosed, "the high availability is broken"),
        ("replaced", ConnectionClosed, "closed"),
        ("closed", ConnectionClosed, "closed"),
    ],
)
def test_some_goodbyes_are_final(code, error, text):
    for opened in (False, True):
        driver = Driver()
        if opened:
            driver.open()
        else:
            driver.session.connected(0.0)
        driver.receive(Bye(code, "a sentence"))
        *_, gone, ended = driver.events()
        assert gone == Disconnect()
        assert type(ended.error) is error
        assert text in str(ended.error)
        assert driver.session.ended


@pytest.mark.parametrize("code", ["full", "unavailable", "something new"])
def test_after_other_goodbyes_the_next_replica_is_tried(code):
    driver = Driver()
    driver.session.connected(0.0)
    driver.events()
    driver.receive(Bye(code, "a sentence"))
    assert driver.events() == [Disconnect(), Connect(B)]


def test_a_server_of_another_version_is_refused():
    driver = Driver()
    driver.session.connected(0.0)
    driver.receive(Welcome(2, "#0.0.1025", [], 60.0, 1 << 20, 100, 0))
    assert "version 2" in str(driver.events()[-1].error)


@pytest.mark.parametrize(
    "frame", [ClientOutput(1, 1, []), WELCOME, Hello("x", 1, "", ""), ClientInput(0, 1, [])]
)
def test_a_server_that_breaks_the_protocol_is_left(frame):
    driver = Driver().open()
    driver.receive(frame)
    assert [type(e) for e in driver.events()] == [Disconnect, Interrupted, Connect]


def test_another_connection_than_the_one_asked_for_ends_the_session():
    driver = Driver().open()
    driver.session.lost(1.0, "cut")
    driver.session.connected(1.0)
    driver.receive(Welcome(1, "#0.0.9999", [A], 60.0, 1 << 20, 100, 0))
    assert isinstance(driver.events()[-1].error, ProtocolError)


def test_garbage_from_a_replica_counts_as_a_failed_attempt():
    driver = Driver()
    driver.events()
    driver.session.connected(0.0)
    driver.session.received(0.0, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert driver.events() == [Disconnect(), Connect(B)]


def test_the_window_is_full_until_something_is_acknowledged():
    driver = Driver(window=3).open()
    driver.send(2)
    assert not driver.session.full
    driver.send()
    assert driver.session.full
    driver.frames()
    driver.receive(ClientOutput(1, 1, []))
    assert not driver.session.full


def test_the_window_counts_bytes_too():
    driver = Driver(window_bytes=10_000).open()
    driver.session.send("alice", "x:Y", bytes(10_000))
    assert driver.session.full


def test_a_notification_too_large_for_a_frame_is_refused_and_nothing_is_sent():
    driver = Driver().open(Welcome(1, "#0.0.1025", [A], 60.0, 4096, 100, 0))
    with pytest.raises(FrameTooLarge, match="4096 bytes"):
        driver.session.send("alice", "x:Y", bytes(5000))
    driver.send()
    assert seqs(driver.frames()) == [(1, 1)]


def test_frames_stay_below_the_limit_of_the_server():
    driver = Driver().open(Welcome(1, "#0.0.1025", [A], 60.0, 4096, 10_000, 0))
    for _ in range(100):
        driver.session.send("alice", "x:Y", bytes(1000))
    assert seqs(driver.frames()) == [(1 + 3 * n, 3) for n in range(33)] + [(100, 1)]


def test_closing_writes_the_queue_and_then_a_close_frame():
    driver = Driver().open()
    driver.send(2)
    driver.session.close(1.0)
    frames = driver.frames()
    assert [type(f) for f in frames] == [ClientInput, Close]
    driver.receive(ClientOutput(2, 1, []), Bye("closed", "the client closed the connection"))
    assert driver.events() == [Acknowledged(2), Disconnect(), Ended(None)]
    with pytest.raises(ConnectionClosed):
        driver.send()


@pytest.mark.parametrize("how", ["lost", "time"])
def test_closing_ends_whatever_the_server_does(how):
    driver = Driver(close_timeout_s=2.0).open()
    driver.session.close(1.0)
    if how == "lost":
        driver.session.lost(1.0, "cut")
    else:
        driver.at(3.0)
    assert driver.events()[-1] == Ended(None)


def test_closing_while_looking_for_the_master_ends_at_once():
    driver = Driver()
    driver.session.close(0.0)
    assert driver.events() == [Connect(A), Disconnect(), Ended(None)]
    driver.session.close(0.0)
    driver.session.lost(0.0, "late")
    driver.session.attempt_failed(0.0, "late")
    assert driver.events() == []


def test_reports_that_come_late_are_let_pass():
    driver = Driver().open()
    driver.session.attempt_failed(0.0, "late")
    assert driver.events() == []
    driver.session.abort()
    driver.session.tick(100.0)
    driver.session.received(100.0, b"late")
    assert driver.events() == [Disconnect(), Ended(None)]
    driver.session.connected(100.0)
    assert driver.events() == [Disconnect()]
