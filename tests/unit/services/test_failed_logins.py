"""Guesses of passwords are slowed, for the guesser only."""

import pytest

from quorate.client.frames import Bye, Welcome
from quorate.services.failed_logins import FORGET_S, FREE_FAILURES, MAX_ENTRIES, MAX_WAIT_S, FailedLogins


@pytest.fixture
def logins():
    return FailedLogins()


def guess(logins, now, host="10.0.0.1", user="root", count=1):
    for _ in range(count):
        logins.failed(now, host, user)


def test_some_wrong_passwords_cost_nothing(logins):
    guess(logins, 0.0, count=FREE_FAILURES - 1)
    assert logins.wait_s(0.0, "10.0.0.1", "root") == 0.0


def test_a_guesser_gets_about_one_answer_a_second(logins):
    now, answers = 0.0, 0
    guess(logins, now, count=FREE_FAILURES)
    while now < 100.0:
        wait_s = logins.wait_s(now, "10.0.0.1", "root")
        assert wait_s is not None
        now += wait_s
        guess(logins, now)
        answers += 1
    assert 95 <= answers <= 110


def test_guesses_on_many_connections_at_once_wait_for_each_other(logins):
    guess(logins, 0.0, count=FREE_FAILURES + 20)
    waits = [logins.wait_s(10.0, "10.0.0.1", "root") for _ in range(1000)]
    taken = [wait_s for wait_s in waits if wait_s is not None]
    assert taken == [0.0, 1.0]
    assert max(taken) <= MAX_WAIT_S


def test_other_addresses_and_other_users_do_not_wait(logins):
    guess(logins, 0.0, count=50)
    assert logins.wait_s(0.0, "10.0.0.2", "root") == 0.0
    assert logins.wait_s(0.0, "10.0.0.1", "alice") == 0.0


def test_the_addresses_of_one_ipv6_network_count_as_one(logins):
    for number in range(50):
        guess(logins, 0.0, host=f"2001:db8::{number:x}")
    assert logins.wait_s(0.0, "2001:db8::ffff", "root") != 0.0
    assert logins.wait_s(0.0, "2001:db8:0:1::1", "root") == 0.0


def test_the_right_password_and_time_end_the_waiting(logins):
    guess(logins, 0.0, count=50)
    assert logins.wait_s(FORGET_S + 1.0, "10.0.0.1", "root") == 0.0
    logins.succeeded("10.0.0.1", "root")
    assert logins.wait_s(0.0, "10.0.0.1", "root") == 0.0
    assert len(logins) == 0


def test_what_is_remembered_is_bounded(logins):
    for number in range(MAX_ENTRIES + 100):
        guess(logins, 0.0, host=f"h{number}")
    assert len(logins) == MAX_ENTRIES


def test_the_service_delays_a_guesser_and_nobody_else(bench):
    for _ in range(FREE_FAILURES):
        (bye,) = bench.say(bench.join(), bench.hello("root", "wrong"))
        assert bye.code == "authentication"
    tcp = bench.join()
    assert bench.say(tcp, bench.hello("root", "wrong")) == []
    other = bench.join()
    other.link.host = "10.0.0.2"
    assert isinstance(bench.say(other, bench.hello())[0], Welcome)
    bench.ctx.reactor.advance(MAX_WAIT_S)
    assert bench.heard(tcp) == [Bye("authentication", "wrong user or password")]


def test_the_right_password_is_accepted_after_the_delay(bench):
    for _ in range(FREE_FAILURES):
        bench.say(bench.join(), bench.hello("root", "wrong"))
    tcp = bench.join()
    assert bench.say(tcp, bench.hello()) == []
    bench.ctx.reactor.advance(MAX_WAIT_S)
    assert isinstance(bench.heard(tcp)[0], Welcome)


def test_a_client_that_leaves_while_it_waits_is_not_checked(bench):
    for _ in range(FREE_FAILURES):
        bench.say(bench.join(), bench.hello("root", "wrong"))
    tcp = bench.join()
    bench.say(tcp, bench.hello("root", "wrong"))
    tcp.cut()
    bench.ctx.reactor.advance(MAX_WAIT_S)
    assert bench.ctx.counts["authentication_failures"] == FREE_FAILURES


def test_more_guesses_than_can_wait_are_refused_unread(bench):
    for _ in range(FREE_FAILURES + 1):
        bench.say(bench.join(), bench.hello("root", "wrong"))
    answers = [bench.say(bench.join(), bench.hello("root", "wrong")) for _ in range(50)]
    assert (
        Bye("unavailable", "too many wrong passwords came from this address; try again later") in answers[-1]
    )
    assert bench.ctx.counts["authentication_failures"] == FREE_FAILURES
