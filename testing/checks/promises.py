"""I3: a promise is kept."""

from ...hachannel import View
from ...hachannel.messages import Accept, Ack, Promise, Recorded
from ..channel_world import Host
from .base import Checker, checker
from .history import Process, Step


@checker("I3", "No voter acknowledges, accepts or promises a view below one that it has promised.")
class PromisesKept(Checker):
    """What was chosen on the strength of a promise would be wrong."""

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """Accepted views rise, and none is below a promise."""
        if view.number <= process.view:
            self.fail(host, f"accepted {view.number} after {process.view}")
        if view.number < process.promised:
            self.fail(host, f"accepted {view.number}, has promised {process.promised}")

    def stepped(self, step: Step) -> None:
        """Promises rise, and what is said agrees with them."""
        host, state = step.host, step.host.state
        if state.promised < step.process.promised:
            self.fail(host, f"promised {state.promised} after {step.process.promised}")
        for _, message in step.messages:
            if isinstance(message, Ack) and message.view < state.promised:
                self.fail(host, f"acknowledges {message.view}, has promised {state.promised}")
            if isinstance(message, Accept | Recorded | Promise) and message.number > state.promised:
                self.fail(host, f"says {message}, has promised {state.promised} only")
