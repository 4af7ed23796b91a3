"""What systemd wants to know of a service: that it is ready, what it does, and that it still lives.

The protocol is that of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["ServiceManager"]

MICROSECONDS: Final = 1_000_000
MAX_STATUS: Final = 500


class ServiceManager:
    """The manager of this process; there is none if the environment names no socket."""

    def __init__(self, environment: Mapping[str, str] = os.environ, pid: int | None = None) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in the abstract namespace of Linux.
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        own = environment.get("WATCHDOG_PID", str(pid or os.getpid())) == str(pid or os.getpid())
        wanted = environment.get("WATCHDOG_USEC", "") if own else ""
        self._period_s = int(wanted) / MICROSECONDS / 2 if wanted.isdigit() else 0.0

    def tell(self, **values: str) -> None:
        """Send what has changed, as ``READY="1"``. What nobody reads is lost, and no error."""
        if not self._address:
            return
        text = "\n".join(f"{name}={' '.join(value.split())[:MAX_STATUS]}" for name, value in values.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(text.encode(), self._address)

    def keep_alive(self, later: Callable[[float, Callable[[], None]], object]) -> None:
        """Tell that the process lives, twice in each interval that the manager has set.

        later: calls a function after so many seconds, in the thread whose life is meant.
        """
        if self._address and self._period_s:
            self.tell(WATCHDOG="1")
            later(self._period_s, lambda: self.keep_alive(later))
