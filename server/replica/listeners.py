"""The listeners of a replica, one for each of its networks."""

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from ...hachannel.transport.addresses import listening_interface
from ..context import ReplicaContext
from ..network.listener import InboundHandler, Listener
from ..network.source_check import SourceCheck

__all__ = ["Listeners"]


class Listeners:
    """Accept the connections of peers, other servers and administrators: `open`, then `close`."""

    def __init__(self, context: ReplicaContext) -> None:
        self.handlers: dict[str, InboundHandler] = {}
        """Handlers of the connections, by the purpose in the hello."""
        self.source_check: SourceCheck | None = None
        """The check of the hosts from which connections come, set before `open`."""
        self._context = context
        self._open: list[Listener] = []

    @property
    def connections(self) -> int:
        """Open connections on all networks."""
        return sum(listener.connections for listener in self._open)

    def open(self) -> None:
        """Listen on all networks. Raises StartError; the networks before the failed one stay open then."""
        context = self._context
        check = self.source_check
        tls = context.tls
        proven = context.settings.secret is not None or (tls is not None and tls.mode == "required")
        if check is not None:
            check.prepare()
        for network in context.replica.networks:
            listener = Listener(
                context.peer_reactor,
                self.handlers,
                secret=context.settings.secret,
                log=context.log,
                count=context.metrics.count,
                settings=context.settings.link,
                client_port=context.replica.client_port,
                check_source=None if check is None or proven else check.check,
                check_certificate=None
                if check is None or tls is None
                else partial(check.check_certificate, plain_allowed=tls.mode != "required"),
                is_known=None if check is None else check.is_known,
            )
            listener.listen(network.port, listening_interface(network.host))
            self._open.append(listener)

    def close(self) -> "list[Deferred[Any]]":
        """Close all listeners and connections. Each deferred fires when one of them is closed."""
        listeners, self._open = self._open, []
        return [listener.stop() for listener in listeners]
