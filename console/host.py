"""The replica whose HTTP port it is, as the operations of the API see it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from ..server.admin.client import ServerAdmin
from ..server.admin.health import statuses_object
from ..server.admin.replica_status import gather
from ..server.config import HTTP_SERVICE
from ..server.context import ReplicaContext
from ..server.http.figures import DestinationFigures
from ..server.http.views import ViewRecord

__all__ = ["Host"]

GATHERED_S: Final = 1.0
"""Statuses of all replicas are gathered at most so often."""


class Host:
    """A replica, and what it knows of the others."""

    def __init__(
        self,
        context: ReplicaContext,
        status: Callable[[], Mapping[str, Any]],
        destinations: Callable[[], Sequence[DestinationFigures]],
        views: Callable[[], Sequence[ViewRecord]],
    ) -> None:
        """status: returns the map of `AdminTarget.status`. views: returns the views so far."""
        self._context = context
        self.status = status
        self.destinations = destinations
        self.views = views
        self._gathered: tuple[float, dict[str, Any]] | None = None
        self._waiting: list[Deferred[dict[str, Any]]] | None = None
        """Those who wait for statuses that are being gathered; None: nobody gathers."""

    @property
    def server_id(self) -> int:
        """Identifier of the server."""
        return self._context.server.id

    @property
    def server_name(self) -> str:
        """Name of the server."""
        return self._context.server.name

    @property
    def servers(self) -> Sequence[str]:
        """The names of all servers of the configuration."""
        return [each.name for each in self._context.config.servers]

    @property
    def server_mode(self) -> str:
        """The mode of the server, ``group`` for one with groups of clients."""
        return self._context.server.mode

    @property
    def local_context(self) -> bool:
        """Whether members of groups stay at their replica."""
        return self._context.server.context == "local"

    @property
    def replica_ids(self) -> Sequence[int]:
        """The replicas of the server that hold agents, as the configuration has them."""
        server = self._context.server
        return [each for each in server.replica_ids if each not in server.witness_ids]

    @property
    def directory(self) -> Path:
        """The directory of the replica."""
        return self._context.directory

    def in_thread(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":
        """Run a function in a thread; fires with its result."""
        reactor = self._context.reactor
        defer: Callable[..., Deferred[Any]] = cast("Any", deferToThreadPool)
        return defer(reactor, reactor.getThreadPool(), function, *args)

    def master_url(self) -> str:
        """Return the address of the HTTP port of the master, "" if it is not known or has none."""
        master = self.status().get("master")
        declared = next((each for each in self._context.server.replicas if each.id == master), None)
        service = declared.service(HTTP_SERVICE) if declared is not None else None
        if declared is None or service is None:
            return ""
        scheme = "https" if self._context.tls is not None else "http"
        host = f"[{declared.host}]" if ":" in declared.host else declared.host
        return f"{scheme}://{host}:{service.args.split()[0]}"

    async def all_statuses(self) -> dict[str, Any]:
        """Ask every replica of every server for its status, as `quorate status --json` does.

        Those who ask at the same time get the same answer, which may be a second old.
        """
        now = self._context.reactor.seconds()
        if self._gathered is not None and now - self._gathered[0] < GATHERED_S:
            return self._gathered[1]
        if self._waiting is not None:
            answer: Deferred[dict[str, Any]] = Deferred()
            self._waiting.append(answer)
            return await answer
        self._waiting = []
        try:
            found: dict[str, Any] = await self.in_thread(self._gather)
            self._gathered = self._context.reactor.seconds(), found
        except BaseException as error:
            waiting, self._waiting = self._waiting, None
            for each in waiting:
                each.errback(error)
            raise
        waiting, self._waiting = self._waiting, None
        for each in waiting:
            each.callback(found)
        return found

    def _gather(self) -> dict[str, Any]:
        config = self._context.config
        return statuses_object(gather([ServerAdmin(config, each) for each in config.servers]))
