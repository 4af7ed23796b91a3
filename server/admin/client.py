"""Administration calls of the commands: to one replica, or to the master wherever it is.

A call to the master follows the replicas' hints, waits for the end of a failover, and is bounded by a time.
"""

import math
import time
from collections.abc import Callable, Iterable
from random import uniform
from typing import TypeVar

import attrs
import msgspec

from ...tls import TlsError
from ..certificates import administration_tls
from ..config import Config, Server
from ..network.hello import ProtocolError
from . import wire
from .connection import (
    CONNECT_TIMEOUT_S,
    AdminError,
    CallFailed,
    Connect,
    Connection,
    Endpoint,
    Lost,
    Silent,
    Unreachable,
    connect,
)

CALL_TIMEOUT_S = 10.0
DOWN_TIMEOUT_S = 3.0
"""A server counts as down when none of its replicas could be reached for DOWN_TIMEOUT_S."""
FAILOVER_TIMEOUT_S = 30.0
"""Default of the longest wait for a master, while replicas answer."""
NOTICE_S = 2.0
"""A wait for a master that lasts longer than this is reported."""
RETRY_FIRST_S = 0.1
RETRY_LAST_S = 1.0
LEAST_S = 0.01
"""No call is made when less time than this is left."""
SHORT_S = 1.0
"""With less time than this left, a connection may fail only because the time ends."""
ANSWER_S = 0.25
"""A replica stops waiting for a reply this long before its caller does, so that it can still answer so."""
MAX_HOPS = 4
"""Hints at the master followed without a pause; then the command waits for the replicas to agree on one."""
NOT_IN_THE_FILE = -1
"""Stands for the id of a replica whose address is all that is known of it."""

T = TypeVar("T")


def _ignore(_sentence: str) -> None:
    """Discard a sentence."""


@attrs.define
class ServerAdmin:
    """Calls to the replicas of one server."""

    config: Config
    server: Server
    connect: Connect = connect
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = uniform
    warn: Callable[[str], None] = _ignore
    """Called with a sentence, once for a call, when there is no master yet or answers may be out of date."""
    _warned: set[str] = attrs.field(factory=set[str], init=False)

    @property
    def endpoints(self) -> list[Endpoint]:
        """The endpoints of its replicas, in the order of the configuration."""
        return [self.endpoint(*address) for address in self.config.addresses(self.server.name)]

    def trusts(self, host: object) -> bool:
        """Whether a replica that the file lacks may be asked: there is a secret, or the file has its host."""
        return self._secret() is not None or host in [replica.host for replica in self.server.replicas]

    def ask(self, replica: int, body: wire.Body, expected: type[T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Ask one replica, once. Raises AdminError, and UnknownName for a replica that the file lacks."""
        return self._once(self._endpoint_of(replica), body, expected, timeout_s)

    def ask_at(self, endpoint: Endpoint, body: wire.Body, expected: type[T], timeout_s: float) -> T:
        """Ask the replica that listens at `endpoint`, once. Raises AdminError."""
        return self._once(endpoint, body, expected, timeout_s)

    def open(self, replica: int, timeout_s: float = CONNECT_TIMEOUT_S) -> Connection:
        """Return a connection to a replica, for several calls: close it. Raises AdminError, UnknownName."""
        return self.connect(self._endpoint_of(replica), self._secret(replica), timeout_s)

    def _endpoint_of(self, replica: int) -> Endpoint:
        """Return the endpoint of a replica. Raises Unreachable, UnknownName."""
        self.config.replica(self.server.name, replica)
        endpoint = next((each for each in self.endpoints if each.replica == replica), None)
        if endpoint is None:
            raise Unreachable(f"{self.server.name}.{replica} declares no network to be asked on.")
        return endpoint

    def ask_master(
        self,
        body: wire.Body,
        expected: type[T],
        *,
        repeatable: bool,
        timeout_s: float = CALL_TIMEOUT_S,
        master_timeout_s: float = FAILOVER_TIMEOUT_S,
        total_timeout_s: float = math.inf,
    ) -> T:
        """Send a call to the master, and wait up to `master_timeout_s` for a master during a failover.

        `timeout_s` bounds one attempt, `total_timeout_s` everything: connections, the wait for a master and
        its answer. A `repeatable` call is made again when its effect is not known; for others `Lost` is
        raised then. Raises Unreachable when the server is down, AdminError when there is no master in time.
        """
        endpoints = self.endpoints
        if not endpoints:
            raise Unreachable(f"Server {self.server.name} declares no network to be asked on.")
        started = heard = self.seconds()
        ends = started + total_timeout_s
        hint: tuple[str, int] | None = None
        reasons: dict[Endpoint, str] = {}
        delay_s = RETRY_FIRST_S
        hops = 0
        warned = timed_out = False
        while True:
            previous: tuple[str, int] | None = hint
            for endpoint in sorted(endpoints, key=lambda each: (each.host, each.port) != previous):
                left_s = ends - self.seconds()
                if left_s < LEAST_S:
                    break
                try:
                    # Connecting may take half of the time, so that the other replicas can be asked too.
                    return self._once(endpoint, body, expected, min(timeout_s, left_s), left_s / 2)
                except Unreachable as error:
                    # An attempt that the end of the time cut short says less than an earlier answer.
                    if left_s >= SHORT_S or endpoint not in reasons:
                        reasons[endpoint] = str(error)
                except Lost as error:
                    if not repeatable:
                        raise _unknown_outcome(error) from None
                    reasons[endpoint] = str(error)
                    heard = self.seconds()
                except CallFailed as error:
                    reasons[endpoint] = f"{endpoint}: {error}"
                    heard = self.seconds()
                    timed_out = timed_out or error.failure.kind == "timeout"
                    hint = _next_hint(error, repeatable)
                    if hint is not None and hint != previous:
                        endpoints = self._with(endpoints, hint)
                        break
            now = self.seconds()
            if now - heard >= DOWN_TIMEOUT_S:
                raise Unreachable(f"Server {self.server.name} is down: {_listed(reasons.values())}.")
            left_s = min(started + master_timeout_s, ends) - now
            if left_s < LEAST_S:
                what = "gave no answer in" if timed_out else "had no master for"
                waited_s = round(min(master_timeout_s, total_timeout_s), 2)
                raise AdminError(
                    f"Server {self.server.name} {what} {waited_s:g} s: "
                    f"{_listed(reasons.values())}; see `quorate status`."
                )
            if hint is not None and hint != previous and hops < MAX_HOPS:
                hops += 1
                continue
            hops = 0
            # A server of which no replica answers is reported as down soon enough.
            if not warned and heard > started and now - started >= NOTICE_S and left_s >= 1:
                warned = True
                self.warn(
                    f"Server {self.server.name} has no master yet: {_listed(reasons.values())}; "
                    f"waiting up to {left_s:.0f} s."
                )
            self.sleep(min(delay_s * self.jitter(0.5, 1.0), left_s))
            delay_s = min(2 * delay_s, RETRY_LAST_S)

    def _once(
        self,
        endpoint: Endpoint,
        body: wire.Body,
        expected: type[T],
        timeout_s: float,
        connect_s: float = CONNECT_TIMEOUT_S,
    ) -> T:
        """Connect and ask, both together within `timeout_s`."""
        ends = self.seconds() + timeout_s
        secret = self._secret(endpoint.replica)
        connection = self.connect(endpoint, secret, min(CONNECT_TIMEOUT_S, connect_s, timeout_s))
        try:
            left_s = ends - self.seconds()
            if left_s <= 0:
                raise Silent(f"{endpoint}: no answer in time")
            result = wire.unpack(connection.call(_within(body, left_s), left_s), expected)
            self._warn(endpoint, connection.behind)
            return result
        except ProtocolError as error:
            raise AdminError(f"{endpoint}: {error}") from None
        finally:
            connection.close()

    def _warn(self, endpoint: Endpoint, behind: str) -> None:
        """Warn that the answer may be out of date, and why; once for all pages of a list."""
        if not behind or behind in self._warned:
            return
        self._warned.add(behind)
        listed = endpoint.replica != NOT_IN_THE_FILE
        name = f"{self.server.name}.{endpoint.replica}" if listed else str(endpoint)
        self.warn(f"What {name} shows may be behind: {without_period(behind)}.")

    def endpoint(self, replica: int, host: str, port: int) -> Endpoint:
        """Return an address of a replica of the server, with its TLS. Raises AdminError without its files."""
        try:
            return Endpoint(replica, host, port, administration_tls(self.config, self.server, replica))
        except TlsError as error:
            raise AdminError(f"TLS cannot start: {error}.") from None

    def _with(self, endpoints: list[Endpoint], address: tuple[str, int]) -> list[Endpoint]:
        """Return the endpoints with the one at `address` added, which the file may lack, if it is trusted."""
        if address in [(each.host, each.port) for each in endpoints] or not self.trusts(address[0]):
            return endpoints
        return [*endpoints, self.endpoint(NOT_IN_THE_FILE, *address)]

    def _secret(self, replica: int = NOT_IN_THE_FILE) -> str | None:
        known = replica if replica in self.server.replica_ids else self.server.replicas[0].id
        return self.config.setting("secret", server=self.server.name, replica=known)


def _within(body: wire.Body, left_s: float) -> wire.Body:
    """Return the call; the replica waits for the reply of a Request a little shorter than its caller does."""
    if not isinstance(body, wire.Request):
        return body
    reply_s = left_s - min(ANSWER_S, left_s / 4)
    return msgspec.structs.replace(body, timeout_s=min(body.timeout_s, reply_s))


def _listed(reasons: Iterable[str]) -> str:
    """Join the reasons given by the replicas into one sentence."""
    return "; ".join(without_period(reason) for reason in reasons)


def without_period(sentence: str) -> str:
    """Remove the full stop of a sentence, so that it can be continued."""
    return sentence.rstrip(". :;")


def _next_hint(error: CallFailed, repeatable: bool) -> tuple[str, int] | None:
    """Return the address of the master to try after a failure; raise the error when a retry cannot help."""
    match error.failure.kind:
        case "not master":
            return error.failure.master
        case "interrupted" if repeatable:
            return None
        case "interrupted":
            raise _unknown_outcome(error) from None
        case "timeout" if repeatable:
            return None
        case _:
            raise error


def _unknown_outcome(error: AdminError) -> Lost:
    return Lost(f"The answer was lost ({error}); whether the call had its effect is not known.")
