"""I7, I8, I9, I15: what applications see."""

from ...hachannel import Deliver, Event, InstallPart, Told
from ..channel.host import Host
from .base import Checker, checker
from .history import Process


@checker("I7", "Each payload is delivered once.")
class NoDuplication(Checker):
    """Payloads of a simulation are unique."""

    def delivered(self, host: Host, event: Event) -> None:
        """At one index only."""
        if isinstance(event, Deliver):
            index = self.past.delivered_once.setdefault(event.payload, event.index)
            if index != event.index:
                self.fail(host, f"delivers {event.payload!r} at {event.index}, and at {index}")


@checker("I8", "There is one sequence of deliveries.")
class TotalOrder(Checker):
    """Compared by a hash chain over index, stamp and payload of everything delivered."""

    def started(self, host: Host, process: Process) -> None:
        """An application that comes back from its disk stands in the sequence, where it is committed."""
        app = host.app
        if app.index > process.commit or self.past.chains.get(app.index) != app.chain:
            self.fail(host, f"comes back with another state after {app.index}, committed {process.commit}")

    def delivered(self, host: Host, event: Event) -> None:
        """The chain of this replica is that of whoever came here first."""
        if isinstance(event, Deliver) and self.past.chains.get(event.index) != host.app.chain:
            self.fail(host, f"its sequence differs at {event.index}")


@checker("I9", "Nothing is invented.")
class NoCreation(Checker):
    """See the rule."""

    def delivered(self, host: Host, event: Event) -> None:
        """It was submitted, or said by the replica that is said to have said it."""
        if isinstance(event, Told) and event.data != b"%d %d" % (event.peer, host.replica):
            self.fail(host, f"hears {event.data!r} of {event.peer}, which did not say that")
        if isinstance(event, Deliver) and event.payload not in self.past.submitted:
            self.fail(host, f"delivers {event.payload!r} at {event.index}, which nobody submitted")


@checker("I15", "The state that a joiner receives is that of the sequence at the index it is said to have.")
class SnapshotConsistency(Checker):
    """See the rule."""

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
