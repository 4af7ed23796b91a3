"""The order and the times of a client's attempts to connect to the replicas of a server. No I/O, no clock.

The attempts go in rounds: each round tries every replica once, and before the next round the client waits.
The wait grows with every round. `ConnectionAttempts` returns what to do next as a state of the session:
`Connecting`, `Waiting`, or None when the time for all attempts is over.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from .events import SessionSettings
from .states import Connecting, Waiting
from .url import Endpoint, format_endpoint

__all__ = ["BRIEF_S", "ConnectionAttempts"]

BRIEF_S: Final = 1.0
"""A TCP connection that ends within this time counts as brief. After a second brief one in a row the client
waits before it connects again."""
MAX_REPLICAS: Final = 64
"""Replicas remembered from a server's list."""
MAX_DOUBLINGS: Final = 16
"""Rounds after which times that double with every round grow no more."""


class ConnectionAttempts:
    """Chooses the replica of each attempt, beginning with the one that was master last."""

    def __init__(self, endpoints: Sequence[Endpoint], settings: SessionSettings, jitter: Callable[[], float]):
        """Know the replicas at `endpoints`. `jitter` returns numbers from 0 to 1, which vary the waits."""
        self.replicas: tuple[Endpoint, ...] = tuple(endpoints)
        """The replicas in the order in which they are tried, from the last master on."""
        self.deadline = 0.0
        """The time at which the attempts end."""
        self._settings = settings
        self._jitter = jitter
        self._configured = tuple(endpoints)
        self._round_plan: deque[Endpoint] = deque()
        self._round = 0
        self._brief_connections = 0
        """TCP connections that broke soon after they were welcomed, one after the other."""
        self._last_master: Endpoint = self.replicas[0]
        self._silent: Endpoint | None = None
        """The replica that has fallen silent. It may still accept TCP connections, so it is tried last."""
        self._failures: dict[Endpoint, str] = {}

    @property
    def handshake_timeout_s(self) -> float:
        """Seconds that a replica has for its answer to the handshake in the present round."""
        settings = self._settings
        doubled = settings.handshake_first_s * 2.0 ** min(self._round, MAX_DOUBLINGS)
        return min(settings.handshake_timeout_s, doubled)

    def start(self, now: float) -> Connecting | Waiting | None:
        """Begin the first round of a session."""
        self.deadline = now + self._settings.open_timeout_s
        return self.begin_round(now)

    def restart(
        self, now: float, endpoint: Endpoint, opened_at: float, reason: str, *, silent: bool = False
    ) -> Connecting | Waiting | None:
        """Begin again after the connection to the master at `endpoint`, open since `opened_at`, has failed.

        `silent` says that the replica stopped sending, and may do so again.
        """
        self._last_master = endpoint
        self._failures = {endpoint: reason}
        if silent:
            self._silent = endpoint
        self._brief_connections = self._brief_connections + 1 if now - opened_at < BRIEF_S else 0
        self._round = max(0, self._brief_connections - 1)
        self.deadline = now + self._settings.reconnect_timeout_s
        # Every client that reconnects costs all replicas of a server some work.
        return self._wait(now) if self._round else self.begin_round(now)

    def begin_round(self, now: float) -> Connecting | Waiting | None:
        """Plan one attempt per replica: the last master first, then the others in their order.

        A replica that has fallen silent is tried last: the others refuse at once, unless one of them is
        master.
        """
        replicas = self.replicas
        at = replicas.index(self._last_master) if self._last_master in replicas else 0
        self._round_plan = deque(replicas[at:] + replicas[:at])
        if self._silent == self._round_plan[0]:
            self._round_plan.rotate(-1)
        return self._next(now)

    def failed(self, now: float, endpoint: Endpoint, reason: str) -> Connecting | Waiting | None:
        """Record why the attempt at `endpoint` failed, and go to the next one."""
        self._failures[endpoint] = reason
        return self._next(now)

    def succeeded(self, endpoint: Endpoint, listed: Sequence[Endpoint]) -> None:
        """Record the master and the replicas that it lists. Those the client was given at first are kept."""
        listed = tuple(listed[:MAX_REPLICAS])
        first = () if endpoint in listed else (endpoint,)
        self.replicas = tuple(dict.fromkeys((*first, *listed, *self._configured)))
        self._last_master = endpoint
        self._silent = None
        self._failures = {}

    def failures(self) -> str:
        """Return why the latest attempt at each replica failed, as text."""
        return "; ".join(
            f"{format_endpoint(endpoint)}: {self._failures.get(endpoint, 'no answer in time')}"
            for endpoint in self.replicas
        )

    def _next(self, now: float) -> Connecting | Waiting | None:
        if now >= self.deadline:
            return None
        if self._round_plan:
            return Connecting(self._round_plan.popleft(), now + self._settings.attempt_timeout_s)
        return self._wait(now)

    def _wait(self, now: float) -> Waiting:
        settings = self._settings
        doubled = settings.backoff_first_s * 2 ** min(self._round, MAX_DOUBLINGS)
        self._round += 1
        return Waiting(now + min(settings.backoff_cap_s, doubled) * (0.5 + 0.5 * self._jitter()))
