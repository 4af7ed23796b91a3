"""The interface of an observer of a simulation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...hachannel import Event, Output, Source
from .application import Saved
from .disk import Write

if TYPE_CHECKING:
    from .host import Host

__all__ = ["Observer"]


class Observer:
    """Gets every step of every replica. A method that finds an invariant broken raises `Violation`.

    This class ignores everything; `quorate.testing.checks.Checks` checks the invariants.
    """

    def started(self, host: "Host") -> None:
        """Get a process that has just started."""

    def stepped(self, host: "Host", output: Output) -> None:
        """Get the output of one step of a process, before anything of it leaves the process."""

    def synced(self, host: "Host", writes: Sequence[Write[Saved]]) -> None:
        """Get the writes that one sync has made durable."""

    def delivered(self, host: "Host", event: Event) -> None:
        """Get an event that the application has handled."""

    def forwarded(self, source: Source, payload: bytes) -> None:
        """Get a payload that a replica has accepted for forwarding to the master."""

    def ended(self, hosts: "Sequence[Host]") -> None:
        """Get the members of the recovered cluster, each of which has delivered everything."""
