"""When a replica that failed is started again."""

from quorate.server.cli.restart_policy import FailureCount, RestartPolicy

POLICY = RestartPolicy(first_delay_s=1.0, max_delay_s=3.0, reset_after_s=30.0, max_failed_starts=3)


def test_without_a_policy_nothing_is_restarted() -> None:
    assert FailureCount(None).add(0.0, ready=True) is None


def test_delays_double_up_to_the_longest_one() -> None:
    count = FailureCount(POLICY)
    assert [count.add(0.0, ready=True) for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]


def test_a_replica_that_is_never_ready_is_given_up_after_the_last_allowed_start() -> None:
    count = FailureCount(POLICY)
    assert [count.add(0.0, ready=False) for _ in range(3)] == [1.0, 2.0, None]
    assert count.failures == 3


def test_a_replica_that_was_ready_is_restarted_however_often_it_fails() -> None:
    count = FailureCount(POLICY)
    assert None not in [count.add(0.0, ready=True) for _ in range(10)]


def test_a_long_run_or_a_reset_begins_with_the_first_delay_again() -> None:
    count = FailureCount(POLICY)
    assert [count.add(ran_s, ready=True) for ran_s in (0.0, 29.9, 30.0)] == [1.0, 2.0, 1.0]
    count.reset()
    assert count.add(0.0, ready=True) == 1.0
