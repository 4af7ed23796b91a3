"""The dispatch of a node's outputs to the peers, the disk, the services and the trace."""

from typing import Protocol

from ...engine import Reaction
from ...hachannel import ViewEvent
from ..context import ReplicaContext
from ..local.local_replica import LocalReplica
from ..master.master import MasterSide
from ..node.outputs import Output
from . import gc_freeze
from .peer_connections import PeerConnections
from .view_history import ViewHistory

__all__ = ["DiskPort", "OutputDispatch", "TracePort"]


class DiskPort(Protocol):
    """Where the records of a node go: `ReplicaDisk`, or a disk in memory."""

    def write(self, out: Output) -> None:
        """Begin to make the records and the staged agents of an output durable."""
        ...


class TracePort(Protocol):
    """Where the reactions of a node go: `TraceLives`, or a checker."""

    def write(self, reactions: list[Reaction]) -> None:
        """Record reactions, which follow each other."""
        ...

    def view(self, event: ViewEvent) -> None:
        """Record that a view is active."""
        ...


class OutputDispatch:
    """Carries out the outputs of the node, except those that end it or change the role of the replica."""

    def __init__(
        self,
        context: ReplicaContext,
        peers: PeerConnections,
        disk: DiskPort,
        master: MasterSide,
        trace: TracePort,
        local: LocalReplica,
        views: ViewHistory,
    ) -> None:
        self._context = context
        self._peers = peers
        self._disk = disk
        self._master = master
        self._trace = trace
        self._local = local
        self._views = views

    def carry_out(self, out: Output) -> None:
        """Carry out an output, messages first: the receivers wait for their own disks meanwhile."""
        context = self._context
        if out.loaded:
            gc_freeze.freeze()
        if out.messages:
            self._peers.send(out.messages)
        if out.persist or out.staged or out.switched:
            self._disk.write(out)
        if out.seats is not None:
            self._peers.follow(out.seats)
        for effects in out.effects:
            try:
                self._master.carry_out(effects)
            except Exception as error:  # The outputs of other entries leave all the same.
                context.metrics.count("service_errors")
                context.log(f"defect: the outputs of entry {effects.index} did not all leave: {error!r}")
        if out.puts or out.state_after is not None:
            self._local.fill(out)
        if out.trace:
            self._trace.write(out.trace)
        for view in out.views:
            self._trace.view(view)
            self._views.view(view)
            self._master.view_changed(view)
        for line in out.lines:
            context.log(line)
        for sentence in out.divergences:
            context.metrics.count("divergences")
            context.announce(sentence)
        for token in out.committed:
            self._master.submissions.committed(token)
