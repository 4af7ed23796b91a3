"""The machine of one simulated replica: what its server runs while the replica is master."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...engine import Effects
from ...server.config import Config, Replica, Server
from ...server.context import ReplicaContext
from ...server.master.master import MasterSide
from ...server.metrics import Metrics
from ...server.network.addresses import Addresses
from ...server.network.hello import NETWORK
from ...server.network.listener import Listener
from ...server.node.node import Node
from ...server.replica.replica import role_of
from ...server.replica.role_hooks import RoleHooks
from ...server.settings import ReplicaSettings
from ...services.base import Role
from .memory_network import MemoryNet

__all__ = ["ReplicaMachine"]


class ReplicaMachine:
    """Services and networks of one life of a replica, as `quorate start` runs them, on a network in memory.

    Implements `NodePort`.
    """

    def __init__(
        self,
        config: Config,
        server: Server,
        declared: Replica,
        net: MemoryNet,
        node: Callable[[], Node],
        flush: Callable[[], None],
        *,
        life: int,
        log: Callable[[str], None],
        jitter: random.Random,
    ) -> None:
        """node: returns the present node. flush: has it submit what was posted.

        It has as many arguments as a replica has surroundings: each comes from another part of the cluster.
        """
        self._node = node
        self._flush = flush
        reactor: Any = net.machine(declared.host)
        self.context = ReplicaContext(
            config,
            server,
            declared,
            ReplicaSettings.read(config, server, declared),
            Path(),
            life,
            reactor,
            Metrics(),
            log,
            log,
            clock=reactor.seconds,
        )
        self.master = MasterSide(self.context, self, Addresses(server, declared), jitter)
        self._hooks = RoleHooks(self.context)
        self._hooks.open()
        self._hooks.follow(Role.JOINING)
        handlers = {NETWORK: self.master.networks.incoming}
        for network in declared.networks:
            count = self.context.metrics.count
            Listener(reactor, handlers, secret=None, log=log, count=count).listen(network.port)

    @property
    def node(self) -> Node:
        """The node of the replica."""
        return self._node()

    def flush_soon(self) -> None:
        """Submit, after the present call, what was posted to the node."""
        self._flush()

    def settled(self) -> None:
        """Let services and networks that wait go on, and tell the services the role of the replica."""
        self.master.resume()
        if self._hooks.any:
            self._hooks.follow(role_of(self.node))

    def carry_out(self, effects: Effects) -> None:
        """Act on the effects of a committed entry, as master."""
        self.master.carry_out(effects)
