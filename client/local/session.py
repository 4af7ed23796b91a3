"""The session of a collocated client: one connection with the replica of this process, never reopened.

Source: HA Joram specification, section 5.2.
"""

from collections.abc import Callable

import attrs

from ..errors import ConnectionLost, Unavailable
from ..events import SessionSettings
from ..frames import Bye, ByeCode
from ..session import Session
from ..states import Open
from ..time_limits import MAX_SECONDS
from .server import LocalServer

__all__ = ["LocalSession"]

HANDSHAKE_TIMEOUT_S = 30.0
"""Time for the answer of the master in this process, which may be busy with a long reaction."""


class LocalSession(Session):
    """A session that waits until its replica is master, and ends when it is master no longer."""

    def __init__(
        self,
        server: LocalServer,
        user: str,
        jitter: Callable[[], float],
        settings: SessionSettings,
    ) -> None:
        """`settings.open_timeout_s` is the time for the replica to become master."""
        self.notice_s = None  # a slave waits for years, as it should
        settings = attrs.evolve(
            settings,
            attempt_timeout_s=MAX_SECONDS,
            handshake_first_s=HANDSHAKE_TIMEOUT_S,
            handshake_timeout_s=HANDSHAKE_TIMEOUT_S,
        )
        super().__init__([(f"local:{server.name}", 0)], user, "", jitter, settings)
        self.server = server

    def _interrupted(self, now: float, state: Open, reason: str, *, silent: bool = False) -> None:  # noqa: ARG002
        self._end(
            ConnectionLost(
                f"the connection with {self.server.name} in this process has ended: {reason}; what was not "
                "acknowledged may or may not have been processed. Open a new connection: that waits until "
                "this replica is master"
            )
        )

    def _timeout_error(self) -> Unavailable:
        return Unavailable(
            f"{self.server.name} in this process did not become master within "
            f"{self.settings.open_timeout_s:g} s: it is {self.server.role}"
        )

    def _handle_bye(self, now: float, frame: Bye) -> None:
        if frame.code == ByeCode.FULL and self.connection is None:
            self._end(Unavailable(f"{self.server.name} in this process opens no connection: {frame.text}"))
        else:
            super()._handle_bye(now, frame)

    def _tick_open(self, now: float, state: Open) -> None:
        # A server in this process that is not heard is busy: there is no other replica to look for.
        state.keep_alive.heard_at = now
        super()._tick_open(now, state)
