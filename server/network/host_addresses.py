"""Numeric addresses of host names, looked up in the background. Twisted."""

from typing import Any

import attrs

from ...hachannel.transport.name_lookup import resolve
from ...hachannel.transport.ports import ClockPort

__all__ = ["LOOKUP_AGAIN_S", "HostAddresses"]

LOOKUP_AGAIN_S = 10.0
"""Age of an answer, in seconds, from which the name is looked up again when somebody asks for it."""


@attrs.define(eq=False)
class _Answer:
    addresses: frozenset[str] | None = None
    """None before the first lookup has ended."""
    asked_at: float = 0.0
    under_way: bool = False


class HostAddresses:
    """The addresses of the hosts of a configuration, as this machine resolves them.

    A lookup may take long, so it never delays a caller: the answer is that of the last complete lookup.
    """

    def __init__(self, reactor: ClockPort) -> None:
        self._reactor = reactor
        self._answers: dict[str, _Answer] = {}

    def seconds(self) -> float:
        """Return the time of the reactor."""
        return self._reactor.seconds()

    def of(self, host: str) -> frozenset[str] | None:
        """Return the addresses of a host, none if it does not resolve; None while they are not known yet."""
        now = self._reactor.seconds()
        answer = self._answers.get(host)
        if answer is None:
            answer = self._answers[host] = _Answer()
        if not answer.under_way and (answer.addresses is None or now - answer.asked_at >= LOOKUP_AGAIN_S):
            answer.asked_at, answer.under_way = now, True
            resolve(self._reactor, host).addCallbacks(self._found, self._failed, (answer,), {}, (answer,), {})
        return answer.addresses

    def _found(self, addresses: list[str], answer: _Answer) -> None:
        answer.addresses, answer.under_way = frozenset(addresses), False

    def _failed(self, failure: Any, answer: _Answer) -> None:
        # A name server that does not answer for a while must not shut out hosts that are known.
        del failure
        answer.addresses, answer.under_way = answer.addresses or frozenset(), False
