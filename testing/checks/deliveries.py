"""I7, I8, I9, I15: atomic broadcast as applications see it (Cachin, Guerraoui and Rodrigues, 2011)."""

from ...hachannel import Deliver, DirectReceived, Event, InstallPart
from ..channel.host import Host
from .base import Checker, checker
from .history import Process


@checker("I7", "Each payload is delivered once.")
class NoDuplication(Checker):
    """Each payload is delivered at one index. Payloads of a simulation are unique."""

    def delivered(self, host: Host, event: Event) -> None:
        """The payload was not delivered at another index."""
        if isinstance(event, Deliver):
            index = self.past.delivered_once.setdefault(event.payload, event.index)
            if index != event.index:
                self.fail(host, f"delivers {event.payload!r} at {event.index}, and at {index}")


@checker("I8", "There is one sequence of deliveries.")
class TotalOrder(Checker):
    """All applications deliver one sequence.

    They are compared by a hash chain over the index, stamp and payload of everything delivered.
    """

    def started(self, host: Host, process: Process) -> None:
        """The state from a disk is that of the committed sequence."""
        app = host.app
        if app.index > process.commit or self.past.chains.get(app.index) != app.chain:
            self.fail(host, f"comes back with another state after {app.index}, committed {process.commit}")

    def delivered(self, host: Host, event: Event) -> None:
        """The chain is that of the first replica that delivered this index."""
        if isinstance(event, Deliver) and self.past.chains.get(event.index) != host.app.chain:
            self.fail(host, f"its sequence differs at {event.index}")


@checker("I9", "Nothing is invented.")
class NoCreation(Checker):
    """Every delivered payload was submitted by a client."""

    def delivered(self, host: Host, event: Event) -> None:
        """The payload was submitted; a DirectReceived event has what its peer sent."""
        if isinstance(event, DirectReceived) and event.data != b"%d %d" % (event.peer, host.replica):
            self.fail(host, f"hears {event.data!r} of {event.peer}, which did not say that")
        if isinstance(event, Deliver) and event.payload not in self.past.submitted:
            self.fail(host, f"delivers {event.payload!r} at {event.index}, which nobody submitted")


@checker("I15", "The state that a joiner receives is that of the sequence at the index it is said to have.")
class SnapshotConsistency(Checker):
    """An installed state is that of the sequence at its index."""

    def delivered(self, host: Host, event: Event) -> None:
        """The application has replaced its state."""
        if isinstance(event, InstallPart) and event.index is not None:
            self.past.counts["snapshots"] += 1
            app = host.app
            if app.index > event.index or self.past.chains.get(app.index) != app.chain:
                self.fail(host, f"installs a snapshot of {event.index} that ends at {app.index}")
                return
            between = range(app.index + 1, event.index + 1)
            if any(index in self.past.chains for index in between):
                self.fail(host, f"installs a snapshot of {event.index} that lacks what follows {app.index}")
