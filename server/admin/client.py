"""Administration as the commands use it: plain blocking sockets, no reactor.

Everything is bounded by a time. A call for the master follows the replicas' hints, and waits out a failover.
"""

import contextlib
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import uniform
from typing import Any, Protocol, TypeVar

import attrs
import msgspec

from ...hachannel.codec.framing import FrameError, FrameReader, frame_parts
from ..config import Config, Server
from ..network.handshake import ADMIN, MAX_HELLO_BYTES, NONCE_BYTES, Connector, ProtocolError, Refused
from . import wire

CONNECT_TIMEOUT_S = 2.0
"""For the connection and the hello together."""
STATUS_TIMEOUT_S = 2.0
CALL_TIMEOUT_S = 10.0
DOWN_TIMEOUT_S = 3.0
"""A server of which no replica could be reached for so long is taken to be down."""
FAILOVER_TIMEOUT_S = 30.0
"""The longest wait for a server whose replicas answer to have a master."""
NOTICE_S = 2.0
"""Whoever waits for a master longer than that is told."""
RETRY_FIRST_S = 0.1
RETRY_LAST_S = 1.0
LEAST_S = 0.01
"""In less time nobody is asked."""
ANSWER_S = 0.25
"""A replica that gives up waiting for a reply so long before its caller does can still say so."""
MAX_HOPS = 4
"""Hints to follow at once, before waiting for the replicas to agree on who is master."""
PARALLEL_STATUS = 32
NOT_IN_THE_FILE = -1
"""Instead of the id of a replica of which only the address is known."""
RECEIVE_BYTES = 65536

T = TypeVar("T")


class AdminError(Exception):
    """The call did not succeed; the text is one sentence for the user."""

    exit_code = 1


class Unreachable(AdminError):
    """Nobody listens there, or the hello was not answered. Nothing was asked."""


class Silent(Unreachable):
    """Somebody listens, but did not answer the hello in time."""


class Lost(AdminError):
    """The connection ended, or fell silent, after the call was sent: its effect is not known."""


class CallFailed(AdminError):
    """The replica answered with a failure."""

    def __init__(self, failure: wire.Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


@attrs.frozen
class Endpoint:
    """The network listener of one replica."""

    replica: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Connection(Protocol):
    """An open administration connection."""

    def call(self, body: wire.Body, timeout_s: float) -> msgspec.Raw:
        """Ask and wait. Raises CallFailed, Lost, ProtocolError."""
        ...

    @property
    def behind(self) -> str:
        """Why what the last answer shows may be behind, in a sentence; "" if nothing says so."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class SocketConnection:
    """A `Connection` over a socket, after the hello. Raises Unreachable or AdminError when there is none."""

    def __init__(self, endpoint: Endpoint, secret: str | None, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        self._endpoint = endpoint
        self._reader = FrameReader()
        self._frames: deque[bytes] = deque()
        self._last_id = 0
        self.behind = ""
        try:
            self._socket = _connected(endpoint, deadline)
        except OSError as error:
            raise Unreachable(f"{endpoint}: {error.strerror or error}") from None
        try:
            self._shake(secret, deadline)
        except Refused as error:
            self.close()
            raise AdminError(f"{endpoint} refuses: {error}") from None
        except ProtocolError as error:
            self.close()
            raise AdminError(f"{endpoint}: {error}") from None
        except OSError as error:
            self.close()
            raise Silent(f"{endpoint}: {error.strerror or error}") from None

    def call(self, body: wire.Body, timeout_s: float) -> msgspec.Raw:
        """Ask and wait at most `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        self._last_id += 1
        frame = wire.encode(wire.Call(self._last_id, body))
        try:
            self._send(frame, deadline)
            while True:
                message = wire.decode_answer(self._receive(deadline, wire.MAX_FRAME_BYTES))
                if message.id != self._last_id:
                    continue
                if isinstance(message, wire.Failure):
                    raise CallFailed(message)
                self.behind = message.behind
                return message.result
        except OSError as error:
            raise Lost(f"{self._endpoint}: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _shake(self, secret: str | None, deadline: float) -> None:
        connector = Connector(ADMIN, {}, secret=secret, nonce=os.urandom(NONCE_BYTES))
        self._send(connector.first, deadline)
        while not connector.done:
            for frame in connector.receive(self._receive(deadline, MAX_HELLO_BYTES)):
                self._send(frame, deadline)

    def _send(self, frame: bytes, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(b"".join(frame_parts([frame])))

    def _receive(self, deadline: float, limit: int) -> bytes:
        self._reader.max_bytes = limit
        while not self._frames:
            self._socket.settimeout(_left(deadline))
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError(None, "the connection was closed")
            try:
                self._frames.extend(self._reader.feed(data))
            except FrameError as error:
                raise ProtocolError(str(error)) from None
        return self._frames.popleft()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(None, "no answer in time")
    return left


def _connected(endpoint: Endpoint, deadline: float) -> socket.socket:
    """A connection to one of the addresses of the host. Raises OSError."""
    addresses = _resolved(endpoint, deadline)
    problem: OSError = TimeoutError(None, "no answer in time")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            made = socket.socket(family, kind, protocol)
        except OSError as error:
            problem = error
            continue
        try:
            made.settimeout(_left(deadline) / (len(addresses) - number))
            made.connect(address)
        except OSError as error:
            made.close()
            problem = error
        else:
            return made
    raise problem


def _resolved(endpoint: Endpoint, deadline: float) -> list[Any]:
    """The addresses of the host. Raises OSError; whoever answers for names is not waited for any longer."""
    found: list[list[Any]] = []
    failed: list[OSError] = []

    def look() -> None:
        try:
            found.append(socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failed.append(error if isinstance(error, OSError) else OSError(None, str(error)))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(_left(deadline))
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(None, "the name of the host is not resolved in time")
    return found[0]


class Connect(Protocol):
    """How connections are made: `SocketConnection`, or a double in tests."""

    def __call__(self, endpoint: Endpoint, secret: str | None, timeout_s: float) -> Connection:
        """Connect. Raises Unreachable, AdminError."""
        ...


def _nothing(_sentence: str) -> None:
    """Nobody is told."""


@attrs.define
class ServerAdmin:
    """Calls to the replicas of one server."""

    config: Config
    server: Server
    connect: Connect = SocketConnection
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = uniform
    say: Callable[[str], None] = _nothing
    """Told in a sentence, once for a call, that there is no master yet; once, that answers may be behind."""
    _warned: set[str] = attrs.field(factory=set[str], init=False)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where its replicas listen, in the order of the configuration."""
        return [Endpoint(*address) for address in self.config.addresses(self.server.name)]

    def trusts(self, host: object) -> bool:
        """Whether to ask a replica that the file lacks: it will prove the secret, or its host is known."""
        return self._secret() is not None or host in [replica.host for replica in self.server.replicas]

    def ask(self, replica: int, body: wire.Body, expected: type[T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Ask one replica, once. Raises AdminError, and UnknownName for a replica that the file lacks."""
        self.config.replica(self.server.name, replica)
        endpoint = next((each for each in self.endpoints if each.replica == replica), None)
        if endpoint is None:
            raise Unreachable(f"{self.server.name}.{replica} declares no network to be asked on.")
        return self._once(endpoint, body, expected, timeout_s)

    def ask_at(self, endpoint: Endpoint, body: wire.Body, expected: type[T], timeout_s: float) -> T:
        """Ask whoever listens there, once. Raises AdminError."""
        return self._once(endpoint, body, expected, timeout_s)

    def ask_master(
        self,
        body: wire.Body,
        expected: type[T],
        *,
        repeatable: bool,
        timeout_s: float = CALL_TIMEOUT_S,
        patience_s: float = FAILOVER_TIMEOUT_S,
        within_s: float = math.inf,
    ) -> T:
        """Ask the master, wherever it is, and wait up to `patience_s` for one while a failover is under way.

        `timeout_s` bounds one call, `within_s` everything: connections, the wait for a master, its answer.
        `repeatable` says that the call may be made again when its effect is not known; otherwise `Lost` is
        raised then. Raises Unreachable when the server is down, AdminError when there is no master in time.
        """
        endpoints = self.endpoints
        if not endpoints:
            raise Unreachable(f"Server {self.server.name} declares no network to be asked on.")
        started = heard = self.seconds()
        ends = started + within_s
        hint: tuple[str, int] | None = None
        reasons: dict[Endpoint, str] = {}
        delay_s = RETRY_FIRST_S
        hops = 0
        told = taken = False
        while True:
            previous = hint
            for endpoint in sorted(endpoints, key=lambda each: (each.host, each.port) != previous):
                left_s = ends - self.seconds()
                if left_s < LEAST_S:
                    break
                try:
                    # One that does not answer leaves some time for the others.
                    return self._once(endpoint, body, expected, min(timeout_s, left_s), left_s / 2)
                except Unreachable as error:
                    reasons[endpoint] = str(error)
                except Lost as error:
                    if not repeatable:
                        raise _unknown_outcome(error) from None
                    reasons[endpoint] = str(error)
                    heard = self.seconds()
                except CallFailed as error:
                    reasons[endpoint] = f"{endpoint}: {error}"
                    heard = self.seconds()
                    taken = taken or error.failure.kind == "timeout"
                    hint = _next_hint(error, repeatable)
                    if hint is not None and hint != previous:
                        endpoints = self._with(endpoints, hint)
                        break
            now = self.seconds()
            if now - heard >= DOWN_TIMEOUT_S:
                raise Unreachable(f"Server {self.server.name} is down: {_listed(reasons.values())}.")
            left_s = min(started + patience_s, ends) - now
            if left_s < LEAST_S:
                what = "gave no answer in" if taken else "had no master for"
                raise AdminError(
                    f"Server {self.server.name} {what} {round(min(patience_s, within_s), 2):g} s: "
                    f"{_listed(reasons.values())}; see `quorate status`."
                )
            if hint is not None and hint != previous and hops < MAX_HOPS:
                hops += 1
                continue
            hops = 0
            # Where nobody answers at all it will be down before long.
            if not told and heard > started and now - started >= NOTICE_S and left_s >= 1:
                told = True
                self.say(
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
        """Say that the answer may be behind, and why; once for all pages of a list."""
        if not behind or behind in self._warned:
            return
        self._warned.add(behind)
        listed = endpoint.replica != NOT_IN_THE_FILE
        name = f"{self.server.name}.{endpoint.replica}" if listed else str(endpoint)
        self.say(f"What {name} shows may be behind: {bare(behind)}.")

    def _with(self, endpoints: list[Endpoint], address: tuple[str, int]) -> list[Endpoint]:
        """The endpoints, and that of a master which may not be in the file."""
        if address in [(each.host, each.port) for each in endpoints] or not self.trusts(address[0]):
            return endpoints
        return [*endpoints, Endpoint(NOT_IN_THE_FILE, *address)]

    def _secret(self, replica: int = NOT_IN_THE_FILE) -> str | None:
        known = replica if replica in self.server.replica_ids else self.server.replicas[0].id
        return self.config.setting("secret", server=self.server.name, replica=known)


def _within(body: wire.Body, left_s: float) -> wire.Body:
    """The call, with a wait for the reply that ends before its caller waits no more."""
    if not isinstance(body, wire.Request):
        return body
    reply_s = left_s - min(ANSWER_S, left_s / 4)
    return msgspec.structs.replace(body, timeout_s=min(body.timeout_s, reply_s))


def _listed(reasons: Iterable[str]) -> str:
    """What each replica said, as parts of one sentence."""
    return "; ".join(bare(reason) for reason in reasons)


def bare(sentence: str) -> str:
    """Without the end of the sentence, to go on with it."""
    return sentence.rstrip(". :;")


def _all_endpoints(admin: ServerAdmin) -> list[Endpoint]:
    """The endpoint of every replica; port 0 where it declares no network."""
    known = {endpoint.replica: endpoint for endpoint in admin.endpoints}
    return [known.get(each.id) or Endpoint(each.id, each.host, 0) for each in admin.server.replicas]


def nobody_there(error: AdminError) -> bool:
    """Whether the error says that nobody listens, rather than that somebody does not answer well."""
    return isinstance(error, Unreachable) and not isinstance(error, Silent)


def _next_hint(error: CallFailed, repeatable: bool) -> tuple[str, int] | None:
    """The master to try after a failure; raises when there is no point in trying."""
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


@attrs.frozen
class ReplicaStatus:
    """What one replica said, or why it said nothing."""

    endpoint: Endpoint
    status: dict[str, Any] | None
    reason: str = ""
    nobody_there: bool = False
    """Not even a connection could be made."""
    refused: bool = False
    """It answered, but would not be administered from here, or is another one."""

    @property
    def role(self) -> str:
        """ "down" when it does not answer, "refused" when it answers that it will not."""
        if self.status is None:
            return "refused" if self.refused else "down"
        return str(self.status.get("role", "unknown"))

    @property
    def in_charge(self) -> bool:
        """It is the master, and has a majority; or will know in a moment whether it has."""
        return self.role == "master" and not (self.status or {}).get("situation")


def gather(
    admins: Sequence[ServerAdmin], timeout_s: float = STATUS_TIMEOUT_S
) -> list[tuple[Server, list[ReplicaStatus]]]:
    """Ask every replica of every server how it is, all at the same time.

    Of a cluster, those too that it has and the file has not; they come last. One that nobody has heard of
    where the file has it is asked where the cluster has it.
    """

    def one(admin: ServerAdmin, endpoint: Endpoint) -> ReplicaStatus:
        try:
            if not endpoint.port:
                raise Unreachable(
                    f"{admin.server.name}.{endpoint.replica} declares no network to be asked on."
                )
            status = admin.ask_at(endpoint, wire.Status(), dict[str, Any], timeout_s)
            check_identity(admin, endpoint, status)
        except AdminError as error:
            refused = not isinstance(error, (Unreachable, Lost))
            return ReplicaStatus(endpoint, None, str(error), nobody_there(error), refused)
        return ReplicaStatus(endpoint, status)

    def every(pool: ThreadPoolExecutor, wanted: Sequence[list[Endpoint]]) -> list[list[ReplicaStatus]]:
        asked = [
            [pool.submit(one, admin, endpoint) for endpoint in endpoints]
            for admin, endpoints in zip(admins, wanted, strict=True)
        ]
        return [[future.result() for future in futures] for futures in asked]

    with ThreadPoolExecutor(max_workers=PARALLEL_STATUS) as pool:
        found = every(pool, [_all_endpoints(admin) for admin in admins])
        more = every(pool, [_beyond(admin, all) for admin, all in zip(admins, found, strict=True)])
        return [(admin.server, _merged(a, b)) for admin, a, b in zip(admins, found, more, strict=True)]


def _merged(first: list[ReplicaStatus], more: list[ReplicaStatus]) -> list[ReplicaStatus]:
    """The first, those of them that are elsewhere as they were found there; then those not among them."""
    elsewhere = {each.endpoint.replica: each for each in more if not each.nobody_there}
    known = {each.endpoint.replica for each in first}
    there = [elsewhere.get(each.endpoint.replica, each) for each in first]
    return [*there, *(each for each in more if each.endpoint.replica not in known)]


def check_identity(admin: ServerAdmin, endpoint: Endpoint, status: dict[str, Any]) -> None:
    """It is the replica that the file has there, if it has one there. Raises AdminError."""
    server, replica = admin.server, endpoint.replica
    said = status.get("server", server.name), status.get("replica", replica)
    if said[0] != server.name or (said[1] != replica and replica != NOT_IN_THE_FILE):
        named = server.name if replica == NOT_IN_THE_FILE else f"{server.name}.{replica}"
        raise AdminError(
            f"{endpoint} is {said[0]}.{said[1]}, not {named}: correct the ids and the ports in the file."
        )
    runs_as = status.get("server_id", server.id)
    if runs_as != server.id:
        raise AdminError(
            f"{endpoint} runs as {server.name} with id {runs_as}, and the file says id {server.id}: a server "
            "keeps its id; correct the file."
        )


def as_agreed(statuses: Sequence[ReplicaStatus]) -> dict[int, dict[str, Any]]:
    """The replicas that the cluster has, as the one of the latest view says; none if it is not known."""
    said = [each.status for each in statuses if each.status is not None and each.status.get("agreed")]
    if not said:
        return {}
    latest = max(said, key=lambda status: (status.get("role") == "master", status.get("view", 0)))
    return {int(id): seated for id, seated in latest.get("replicas", {}).items()}


def _beyond(admin: ServerAdmin, statuses: Sequence[ReplicaStatus]) -> list[Endpoint]:
    """The replicas of the cluster that the file has not, or not there, as far as they are trusted."""
    found: list[Endpoint] = []
    heard = {each.endpoint.replica for each in statuses if not each.nobody_there}
    asked = {(each.endpoint.replica, each.endpoint.host, each.endpoint.port) for each in statuses}
    for id, seated in sorted(as_agreed(statuses).items()):
        address = seated.get("address")
        if id in heard or not address or not admin.trusts(address[0]):
            continue
        if (id, *address) not in asked:
            found.append(Endpoint(id, str(address[0]), int(address[1])))
    return found
