"""Wrong passwords by the address they came from: further attempts from there wait. Pure."""

import ipaddress
from collections import OrderedDict
from typing import Final

import attrs

__all__ = ["FREE_FAILURES", "MAX_WAIT_S", "FailedLogins"]

FREE_FAILURES: Final = 5
"""Wrong passwords from an address for a user before attempts have to wait."""
FIRST_WAIT_S: Final = 0.1
LONGEST_STEP_S: Final = 1.0
"""The pause after a wrong password; each further one doubles it, from the first to the longest."""
MAX_WAIT_S: Final = 1.5
"""An attempt that would have to wait longer is refused. Clients give up an attempt after two seconds."""
FORGET_S: Final = 600.0
MAX_NAME: Final = 64
"""Characters of the name of a user that are remembered."""
MAX_ENTRIES: Final = 10_000
"""Pairs of address and user that are remembered; with more, the oldest is forgotten."""


@attrs.define(eq=False)
class _Failures:
    count: int = 0
    free_at: float = 0.0
    """The time from which the next attempt may be answered."""
    last: float = 0.0


class FailedLogins:
    """Decides how long an attempt to log in waits before its password is looked at.

    Attempts of one address for one user wait for each other, also those with the right password: otherwise
    guesses on many connections at once would not be slowed. Other addresses and users wait for nothing.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def wait_s(self, now: float, host: str, user: str) -> float | None:
        """Return the seconds that an attempt has to wait; None if too many wait already.

        `host` is a numeric address, `user` the name that the client gives, which may be unknown.
        """
        known = self._failures.get(_key(host, user))
        if known is None or known.count < FREE_FAILURES or now - known.last > FORGET_S:
            return 0.0
        wait_s = max(0.0, known.free_at - now)
        if wait_s > MAX_WAIT_S:
            return None
        doubled = FIRST_WAIT_S * 2.0 ** min(known.count - FREE_FAILURES, 16)
        known.free_at = now + wait_s + min(LONGEST_STEP_S, doubled)
        return wait_s

    def failed(self, now: float, host: str, user: str) -> None:
        """Record a wrong password."""
        key = _key(host, user)
        known = self._failures.pop(key, None)
        if known is None or now - known.last > FORGET_S:
            known = _Failures()
        known.count += 1
        known.last = now
        if known.count == FREE_FAILURES:
            known.free_at = now + FIRST_WAIT_S
        self._failures[key] = known
        if len(self._failures) > MAX_ENTRIES:
            self._failures.popitem(last=False)

    def succeeded(self, host: str, user: str) -> None:
        """Forget the wrong passwords: the user has given the right one."""
        self._failures.pop(_key(host, user), None)


def _key(host: str, user: str) -> tuple[str, str]:
    """Return the key of an address and a user.

    One machine can choose among the addresses of its IPv6 network, so all of a /64 network count as one.
    """
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host, user[:MAX_NAME]
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64))), user[:MAX_NAME]
