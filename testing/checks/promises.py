"""I3: promises of views are kept, also over a restart (as in Paxos and Viewstamped Replication)."""

from ...hachannel import View
from ...hachannel.model.messages import Accept, Ack, Found, Founded, Message, Prepare, Promise, Recorded
from ...hachannel.model.view import Tag
from ..channel.host import Host
from ..channel.replica_disk import Disk
from .base import Checker, checker
from .history import Process, Step


@checker("I3", "No voter acknowledges, accepts or promises a view below one that it has promised.")
class PromiseMonotonicity(Checker):
    """No voter acknowledges, accepts or promises a view below one that it has promised.

    What a proposer chose would be wrong if its promises were broken.
    """

    skips_quiet_steps = True

    def started(self, host: Host, process: Process) -> None:
        """A process that recovers from its disk remembers every promise that it has sent."""
        if host.state.promised < process.highest_sent:
            self.fail(
                host, f"comes back with a promise of {process.promised}, has said {process.highest_sent}"
            )

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """Accepted views rise, and none is below a promise."""
        if view.number <= process.view:
            self.fail(host, f"accepted {view.number} after {process.view}")
        if view.number < process.promised:
            self.fail(host, f"accepted {view.number}, has promised {process.promised}")

    def stepped(self, step: Step) -> None:
        """Promises rise, and binding messages agree with them."""
        host, state = step.host, step.host.state
        if state.promised < step.process.promised:
            self.fail(host, f"promised {state.promised} after {step.process.promised}")
        for message in step.binding:
            # Also before the promise is durable: answers that waited for the disk are retracted.
            if isinstance(message, Ack) and message.view < state.promised:
                self.fail(host, f"acknowledges {message.view}, has promised {state.promised}")
            if isinstance(message, Accept | Recorded | Promise):
                if message.number < step.process.highest_sent:
                    self.fail(host, f"says {message}, has said {step.process.highest_sent}")
                if message.number > state.promised:
                    self.fail(host, f"says {message}, has promised {state.promised} only")


@checker("I3", "With a disk, nothing is promised, accepted, recorded or acknowledged before it is durable.")
class DurableAnswers(Checker):
    """With a disk, no promise, acceptance, record or acknowledgement is sent before it is durable.

    A crash at this moment must not make the replica forget what it has sent.
    """

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """Compare every binding message with the disk."""
        disk = step.host.disk
        if disk is None:
            return
        for message in step.binding:
            if not self._durable(disk, message):
                kept = disk.remembered
                self.fail(
                    step.host,
                    f"says {message}; on its disk: promised {kept.promised}, "
                    f"accepted {kept.accepted}, last {kept.last}",
                )

    @staticmethod
    def _durable(disk: Disk, message: Message) -> bool:
        kept = disk.remembered
        match message:
            case Promise() | Prepare():
                return kept.promised >= message.number
            case Accept() | Recorded():
                return kept.accepted is not None and kept.accepted.number >= message.number
            case Found() | Founded():
                return (
                    kept.accepted is not None
                    and kept.accepted.number == message.number
                    and (kept.foreseen or kept.active)
                )
            case Ack():
                entry = disk.entries.get(message.index)
                tag = kept.base if entry is None else Tag(entry.view, entry.index)
                return message.index <= kept.last and message.index == tag.at
            case _:
                return True
