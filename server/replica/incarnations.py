"""The incarnation of a process, and its node."""

import time

from ...agents import AgentError
from ...agents.thread_queue import Put
from ...engine import Engine, Reaction, import_modules
from ...hachannel import Channel
from ...hachannel.journal.durable_log import DurableLog
from ..context import ReplicaContext
from ..errors import StartError
from ..network.addresses import Addresses
from ..node.node import Node
from . import gc_freeze
from .disk import ReplicaDisk
from .watchdog import Watchdog

__all__ = ["Incarnations"]


class Incarnations:
    """Makes the node of this process, as the incarnation that the disk remembers, or as a new one."""

    def __init__(
        self,
        context: ReplicaContext,
        disk: ReplicaDisk,
        addresses: Addresses,
        watchdog: Watchdog,
        expected: int,
        *,
        join: bool,
    ) -> None:
        """`expected`: the replicas that found the cluster. `join`: this replica never founds one."""
        self.current = context.incarnation
        """The incarnation of the voter: unchanged by a restart if the journal survived it."""
        self.life = context.incarnation
        """Number of the present node: never the same twice, whatever the journal holds."""
        self.replayed: list[Reaction] = []
        """The reactions that the recovery of the present node has run again."""
        self.saved = 0
        """The present node has begun with the state after this entry; 0 if it has begun with none."""
        self.puts: list[tuple[int, list[Put]]] = []
        """What `replayed` has put into queues for threads: see `Recovery`."""
        self.accepted = ""
        """The first entry that ended otherwise in that recovery, and how; "" if none did."""
        self._context = context
        self._disk = disk
        self._addresses = addresses
        self._watchdog = watchdog
        self._expected = expected
        self._join = join

    def new_node(self) -> Node:
        """Make the node of this incarnation. Raises StartError."""
        context, server = self._context, self._context.server
        try:
            import_modules(context.settings.agent_modules)
        except AgentError as error:
            raise StartError(f"The property agent_modules: {error}.") from None
        engine = Engine(
            server.id,
            context.config.names,
            context.settings.engine,
            routes=context.config.routes(server.id),
            causal=context.config.causal_domains(server.id),
        )
        if context.settings.trace:
            engine.clock_ns = time.perf_counter_ns
            engine.traces_requests = context.settings.trace_outputs
        self._watchdog.watch(engine)
        log = self._recover(engine)
        try:
            channel = Channel(
                context.replica.id,
                server.replica_ids,
                incarnation=self.current,
                cluster=context.config.digest,
                expected=self._expected + len(server.witness_ids),
                settings=context.settings.channel,
                log=log,
                data=self._addresses.data,
                witnesses=server.witness_ids,
            )
        except ValueError as error:
            raise StartError(str(error)) from None
        if self._join:
            channel.bar_founding()
        return Node(channel, engine, context.settings.node)

    def _recover(self, engine: Engine) -> DurableLog | None:
        """Bring the engine to the state on the disk; return the log that is there."""
        recovery = self._disk.recover(self.life, engine)
        self.replayed, self.accepted = [], ""
        if recovery is None:
            return None
        self.current, self.replayed = recovery.incarnation, recovery.trace
        self.accepted = recovery.accepted
        self.saved, self.puts = recovery.saved, recovery.puts
        for line in recovery.lines:
            self._context.log(line)
        gc_freeze.freeze()
        return recovery.log
