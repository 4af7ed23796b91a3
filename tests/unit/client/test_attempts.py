"""The order and the times of connection attempts."""

from quorate.client.attempts import BRIEF_S, MAX_REPLICAS, ConnectionAttempts
from quorate.client.events import SessionSettings
from quorate.client.states import Connecting, Waiting

A, B, C = ("a", 1), ("b", 2), ("c", 3)
SETTINGS = SessionSettings(
    open_timeout_s=10.0,
    reconnect_timeout_s=100.0,
    attempt_timeout_s=2.0,
    backoff_first_s=0.1,
    backoff_cap_s=0.5,
)


def attempts(*endpoints, jitter=1.0):
    return ConnectionAttempts(endpoints or (A, B, C), SETTINGS, lambda: jitter)


def round_of(tried, now=0.0):
    """Fail every attempt of a round that has begun; return the replicas tried after the first."""
    order = []
    step = tried.failed(now, A, "refused")
    while isinstance(step, Connecting):
        order.append(step.endpoint)
        step = tried.failed(now, step.endpoint, "refused")
    return order, step


def test_the_first_round_tries_the_replicas_in_the_given_order_and_then_waits():
    tried = attempts()
    assert tried.start(0.0) == Connecting(A, 2.0)
    assert round_of(tried) == ([B, C], Waiting(0.1))


def test_a_round_begins_with_the_last_master():
    tried = attempts()
    tried.succeeded(B, [A, B, C])
    assert tried.restart(5.0, B, 0.0, "cut") == Connecting(B, 7.0)


def test_a_replica_that_fell_silent_is_tried_last_until_it_is_master_again():
    tried = attempts()
    tried.succeeded(A, [A, B, C])
    assert tried.restart(5.0, A, 0.0, "silent", silent=True) == Connecting(B, 7.0)
    assert round_of(tried, 5.0)[0] == [C, A]
    tried.succeeded(A, [A, B, C])
    assert tried.restart(9.0, A, 5.0, "cut") == Connecting(A, 11.0)


def test_waits_double_up_to_the_cap_and_vary_down_to_half():
    for jitter, share in ((1.0, 1.0), (0.0, 0.5)):
        tried, waits = attempts(A, jitter=jitter), []
        tried.start(0.0)
        for _ in range(5):
            step = tried.failed(0.0, A, "refused")
            waits.append(step.until)
            tried.begin_round(0.0)
        assert waits == [share * wait for wait in (0.1, 0.2, 0.4, 0.5, 0.5)]


def test_the_time_for_the_handshake_doubles_with_every_round_up_to_its_limit():
    tried, times = attempts(A), []
    tried.start(0.0)
    for _ in range(4):
        times.append(tried.handshake_timeout_s)
        tried.failed(0.0, A, "silent")
        tried.begin_round(0.0)
    assert times == [1.5, 3.0, 6.0, 6.0]


def test_a_second_brief_connection_in_a_row_is_followed_by_a_wait():
    tried = attempts(A)
    assert isinstance(tried.restart(BRIEF_S / 2, A, 0.0, "cut"), Connecting)
    assert isinstance(tried.restart(BRIEF_S, A, BRIEF_S / 2, "cut"), Waiting)
    assert isinstance(tried.restart(3 * BRIEF_S, A, BRIEF_S, "cut"), Connecting), "this connection lasted"


def test_attempts_end_at_the_deadline_of_opening_and_of_reopening():
    tried = attempts()
    tried.start(0.0)
    assert tried.deadline == 10.0
    assert tried.failed(10.0, A, "refused") is None
    tried.restart(50.0, A, 0.0, "cut")
    assert tried.deadline == 150.0
    assert tried.begin_round(150.0) is None


def test_the_list_of_the_master_comes_first_and_the_configured_replicas_are_kept():
    tried = attempts(A, B)
    tried.succeeded(B, [C, B])
    assert tried.replicas == (C, B, A)


def test_a_master_that_does_not_list_itself_is_tried_before_the_listed_ones():
    tried = attempts(A)
    tried.succeeded(B, [A, C])
    assert tried.replicas == (B, A, C)


def test_a_long_list_of_replicas_is_cut():
    tried = attempts(A)
    tried.succeeded(A, [A, *((f"r{n}", n) for n in range(1000))])
    assert len(tried.replicas) == MAX_REPLICAS


def test_the_failures_name_every_replica_with_its_latest_reason():
    tried = attempts(A, B)
    tried.start(0.0)
    tried.failed(0.0, A, "connection refused")
    assert tried.failures() == "a:1: connection refused; b:2: no answer in time"
