"""The node of a replica, as the master's side reaches it."""

from typing import Protocol

from ..node.node import Node

__all__ = ["NodePort"]


class NodePort(Protocol):
    """Gives the present node, and has it called."""

    @property
    def node(self) -> Node:
        """The node of the replica's present incarnation."""
        ...

    def flush_soon(self) -> None:
        """Submit, at the end of this turn of the reactor, what was posted to the node."""
        ...
