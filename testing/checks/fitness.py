"""I21: a replica whose application has a wrong state does not serve, and is taken into no view."""

from ...hachannel import Event, InstallPart, View, Voter
from ...hachannel.model.messages import Heartbeat
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("I21", "An unfit replica is no member of a view that it has promised as an unfit one.")
class FitMembers(Checker):
    """No member of a new view has answered its proposer that the state of its application is wrong."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Compare the members with the promises for the view."""
        promises = self.past.promises.get(view.number, {})
        unfit = [voter for voter in view.members if voter in promises and promises[voter].unfit]
        if unfit:
            self.fail(host, f"accepts {view}, whose members {unfit} are unfit")


@checker("I21", "An unfit replica accepts no payload, holds no lease, proposes no view, and gives no state.")
class UnfitService(Checker):
    """An unfit replica does nothing that only a master may do, from the step in which it learns of it.

    The application that would act, or give its state, has a wrong one.
    """

    def stepped(self, step: Step) -> None:
        """Check an unfit replica."""
        host, state = step.host, step.host.state
        if not state.unfit or state.stopped:
            return
        channel = host.channel
        if channel.lease.held or channel.can_submit:
            self.fail(host, "is unfit, and serves")
        if channel.proposing:
            self.fail(host, "is unfit, and proposes a view")
        if channel.phases.giving != "nobody":
            self.fail(host, "is unfit, and gives its state")
        for _, message in step.messages:
            if isinstance(message, Heartbeat) and not message.unfit:
                self.fail(host, "is unfit, and its heartbeat does not say so")


@checker("I21", "An unfit replica is fit again only with the whole state of another one.")
class FitAgain(Checker):
    """A process that was unfit after a step stays so until it has installed the last part of a state.

    With a disk, the next process of the same voter is unfit, too, if that is on the disk.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._unfit: set[Voter] = set()
        """The voters that were unfit after their last step, and have installed no state since."""

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """A process knows what is on its disk; what was not durable is lost."""
        self._unfit.discard(host.state.me)
        if host.disk is not None and host.disk.remembered.unfit:
            self._unfit.add(host.state.me)

    def stepped(self, step: Step) -> None:
        """Compare with the last step."""
        state = step.host.state
        if state.unfit:
            self._unfit.add(state.me)
        elif state.me in self._unfit:
            self.fail(step.host, "is fit without a new state")

    def delivered(self, host: Host, event: Event) -> None:
        """The application has installed a part."""
        if isinstance(event, InstallPart) and event.index is not None:
            self._unfit.discard(host.state.me)
