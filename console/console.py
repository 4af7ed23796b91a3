"""The HTTP API and the console, on the HTTP port of a replica."""

import hashlib
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from ..hachannel.transport.addresses import is_loopback_host
from ..server.admin.audit import Act, AuditLog
from ..server.admin.protocol import AdminTarget
from ..server.config.digest import INSECURE_NETWORK_PROPERTY, TOKENS_FILE_PROPERTY
from ..server.context import ReplicaContext
from ..server.http.figures import DestinationFigures
from ..server.http.views import ViewRecord
from ..services.users import ADMINISTRATORS_PROPERTY, USERS_FILE_PROPERTY, Users
from ..tls.layer import proven_user
from .access import Access, Identity
from .api import agents, groups, mesh, messaging, replica, session
from .calls import Calls
from .host import Host
from .openapi import description
from .operations import Call, MethodProblem, Operation, Routes, parsed
from .problems import PROBLEM_TYPE, Problem

__all__ = ["BASE", "OPERATIONS", "Console", "make_console"]

BASE: Final = "/api/v1"
PAGE: Final = "/console/"
DESCRIPTION: Final = f"{BASE}/openapi.json"
JSON: Final = "application/json"
OPERATIONS: Final = (
    *session.OPERATIONS,
    *replica.OPERATIONS,
    *agents.OPERATIONS,
    *messaging.OPERATIONS,
    *groups.OPERATIONS,
    *mesh.OPERATIONS,
)
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
PLAIN: Final = (
    "Without TLS the API answers at the loopback address only; give the server certificates, with "
    "`quorate certs`, or use it on its own machine."
)

_log = Logger()


@attrs.frozen
class _Answer:
    code: int
    kind: str = JSON
    body: bytes = b""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])


class Console:
    """Answers the requests for ``/api/v1/`` and ``/console/``."""

    def __init__(self, context: ReplicaContext, target: AdminTarget, host: Host) -> None:
        """Raises ServiceError if the file of users cannot be read."""
        self._context = context
        self._target = target
        self._host = host
        self._audit = AuditLog(context.directory, context.wall_ns, context.log)
        self._routes = Routes(OPERATIONS)
        self._described = msgspec.json.encode(description(OPERATIONS, version("quorate"), BASE))
        self._access = Access(
            _users(context), self._setting(TOKENS_FILE_PROPERTY), self._now, self._wait, context.log
        )
        self._plain = self._setting(INSECURE_NETWORK_PROPERTY) == "true"
        self._files = _page_files()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._context.wall_ns() / 1e9, UTC)

    def _wait(self, seconds: float) -> "Deferred[Any]":
        later: Callable[..., Deferred[Any]] = cast("Any", deferLater)
        return later(self._context.reactor, seconds)

    def _setting(self, name: str) -> str:
        return _setting(self._context, name)

    def answers(self, path: str) -> bool:
        """Return whether the path is one of the API or of the console."""
        return path in (BASE, PAGE.rstrip("/")) or path.startswith((f"{BASE}/", PAGE))

    def render(self, request: Any) -> Any:
        """Answer a request of twisted.web, now or later."""
        path = request.path.decode(errors="replace")
        if path in (BASE, PAGE.rstrip("/")):
            where = DESCRIPTION if path == BASE else PAGE
            _write(request, _Answer(302, "text/plain", b"", {"location": where}))
        elif path.startswith(PAGE):
            _write(request, self._page(request, path.removeprefix(PAGE) or "index.html"))
        else:
            answering = Deferred.fromCoroutine(self._answer(request, path))
            gone: list[object] = []
            cast("Deferred[Any]", request.notifyFinish()).addErrback(gone.append)

            def done(answer: _Answer) -> None:
                if not gone:
                    _write(request, answer)

            answering.addErrback(_fault)
            answering.addCallback(done)
        return NOT_DONE_YET

    def _page(self, request: Any, name: str) -> _Answer:
        if request.method not in (b"GET", b"HEAD"):
            return _problem(MethodProblem(["GET", "HEAD"]))
        found = self._files.get(name)
        if found is None:
            return _problem(Problem(404, "not-found", "The console has no such page."))
        tag, kind, body = found
        if request.getHeader(b"if-none-match") == tag.encode():
            return _Answer(304, kind, b"", {"etag": tag})
        return _Answer(200, kind, body, {**_HEADERS, "etag": tag, "cache-control": "no-cache"})

    async def _answer(self, request: Any, path: str) -> _Answer:
        try:
            method = request.method.decode(errors="replace")
            if path == DESCRIPTION:
                if method not in ("GET", "HEAD"):
                    raise MethodProblem(["GET", "HEAD"])
                return _Answer(200, JSON, self._described)
            segments = [_unquoted(each) for each in path.removeprefix(f"{BASE}/").split("/")]
            operation, parts = self._routes.find(method, segments)
            self._check_encrypted(request)
            identity = self._identify(request, operation)
            call = self._call(request, operation, parts, identity)
            result = await operation.run(call)
            return _Answer(204) if result is None else _Answer(200, JSON, _encoded(result))
        except Problem as problem:
            return _problem(problem)

    def _check_encrypted(self, request: Any) -> None:
        encrypted = getattr(request.channel.transport, "getPeerCertificate", None) is not None
        if not (encrypted or self._plain or is_loopback_host(_origin(request))):
            raise Problem(403, "forbidden", PLAIN)

    def _identify(self, request: Any, operation: Operation) -> Identity | None:
        if operation.open:
            return None
        header: bytes = request.getHeader(b"authorization") or b""
        identity = self._access.identify(header.decode(errors="replace"))
        if identity.read_only and not operation.for_readers:
            raise Problem(403, "forbidden", f"{identity.name} may only read; use one with the scope all.")
        return identity

    def _call(
        self, request: Any, operation: Operation, parts: Mapping[str, str], identity: Identity | None
    ) -> Call:
        origin = _origin(request)
        user = identity.name if identity is not None else ""

        def audit(act: Act, outcome: str) -> None:
            self._audit.write(f"{origin} over HTTP", user, act, outcome)

        raw: bytes = request.uri.partition(b"?")[2]
        given = parse_qsl(raw.decode(errors="replace"), keep_blank_values=True)
        query = parsed(operation.query or _NoQuery, given)
        calls = Calls(self._target, audit, self._host.master_url)
        proven = proven_user(request.channel.transport)
        return Call(
            *(self._host, calls, self._access, origin, proven),
            *(identity, parts, query, _body(request, operation)),
        )


class _NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operation without parameters."""


def _users(context: ReplicaContext) -> Users:
    """Return the users of the server: they are those of clients."""
    pairs = context.config.users(context.server.id)
    args = " ".join([f"{user} {password}" for user, password in pairs.items()])
    administrators = _setting(context, ADMINISTRATORS_PROPERTY)
    return Users(args, administrators, _setting(context, USERS_FILE_PROPERTY), context.log)


def _setting(context: ReplicaContext, name: str) -> str:
    server, declared = context.server.id, context.replica.id
    return context.config.setting(name, server=server, replica=declared) or ""


def _page_files() -> dict[str, tuple[str, str, bytes]]:
    """Return tag, type and content of the files of the console by name."""
    found: dict[str, tuple[str, str, bytes]] = {}
    for each in files("quorate.console").joinpath("page").iterdir():
        kind = _KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            body = each.read_bytes()
            found[each.name] = (f'"{hashlib.sha256(body).hexdigest()[:32]}"', kind, body)
    return found


def _origin(request: Any) -> str:
    """Return the numeric address that a request comes from."""
    host = str(getattr(request.getClientAddress(), "host", ""))
    try:
        mapped = ipaddress.IPv6Address(host).ipv4_mapped
    except ValueError:
        return host
    return host if mapped is None else str(mapped)


def _unquoted(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "bad-request", "The path is not UTF-8.") from None


def _body(request: Any, operation: Operation) -> Any:
    """Return what the body says. Raises Problem."""
    if operation.body is None:
        return None
    kind = (request.getHeader(b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != JSON.encode():
        raise Problem(415, "media-type", f"Send a body with the type {JSON}.")
    content: bytes = request.content.read()
    try:
        return _decoded(content, operation.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Problem(400, "bad-request", f"The body is wrong: {str(error).rstrip('.')}.") from None


def _decoded(content: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """Decode JSON. As in JSON Schema, 5.0 is a whole number, too. Raises ValueError, RecursionError."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError:
        given: Any = msgspec.json.decode(content)
        if not isinstance(given, dict):
            raise
        fields = cast("dict[str, Any]", given)
        whole = {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in fields.items()
        }
        return msgspec.convert(whole, kind)


def _encoded(result: object) -> bytes:
    try:
        return msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise Problem(409, "refused", f"The answer cannot be shown: {str(error).rstrip('.')}.") from None


def _problem(problem: Problem) -> _Answer:
    headers: dict[str, str] = {}
    if isinstance(problem, MethodProblem):
        headers["allow"] = ", ".join(problem.allowed)
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    return _Answer(problem.status, PROBLEM_TYPE, msgspec.json.encode(problem.details), headers)


def _fault(failure: Failure) -> _Answer:
    _log.failure("a request over HTTP failed", failure)
    return _problem(Problem(500, "fault", "The request has met a fault of the server; its log has more."))


def _write(request: Any, answer: _Answer) -> None:
    request.setResponseCode(answer.code)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff", **answer.headers}
    if answer.code not in (204, 304):
        headers |= {"content-type": answer.kind, "content-length": str(len(answer.body))}
    for name, value in headers.items():
        request.setHeader(name.encode(), value.encode())
    if answer.body and request.method != b"HEAD":
        request.write(answer.body)
    request.finish()


def make_console(
    context: ReplicaContext,
    target: AdminTarget,
    status: Callable[[], Mapping[str, Any]],
    destinations: Callable[[], Sequence[DestinationFigures]],
    views: Callable[[], Sequence[ViewRecord]],
) -> Console:
    """Return the API and the console of a replica: see `Host`. Raises ServiceError."""
    return Console(context, target, Host(context, status, destinations, views))
