"""When a replica that failed is started again. Pure: times are arguments."""

import attrs

__all__ = ["FailureCount", "RestartPolicy"]


@attrs.frozen
class RestartPolicy:
    """Restarts after delays that double with each failure, until a replica fails to start too often."""

    first_delay_s: float = 0.5
    max_delay_s: float = 15.0
    reset_after_s: float = 30.0
    """A process that ran this long counts as started well: the next delay is the first one again."""
    max_failed_starts: int = 5
    """Failures in a row, the last one before the replica was ready, after which it is given up."""


@attrs.define
class FailureCount:
    """Failures of one replica in a row, and what its policy makes of them; without a policy: no restart."""

    policy: RestartPolicy | None
    failures: int = 0

    def reset(self) -> None:
        """Forget the failures: the replica was ready, or a user starts it."""
        self.failures = 0

    def add(self, ran_s: float, *, ready: bool) -> float | None:
        """Count a failure; return the seconds until the restart, or None if there is none.

        `ran_s` is how long the process ran, `ready` whether its replica was ready when the process ended.
        """
        policy = self.policy
        if policy is None:
            return None
        if ran_s >= policy.reset_after_s:
            self.failures = 0
        delay_s = min(policy.first_delay_s * 2**self.failures, policy.max_delay_s)
        self.failures += 1
        return None if not ready and self.failures >= policy.max_failed_starts else delay_s
