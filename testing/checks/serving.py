"""I20: which replicas serve in a view, and from when on."""

from ...hachannel import View, Voter
from .base import Checker, checker
from .history import Step


@checker(
    "I20", "Who serves is a member of the view accepted last, and has promised and knows of none above it."
)
class ServingView(Checker):
    """A serving replica is a member of the view that it accepted last, and knows and promised no higher one.

    A view that replaces this one would miss what it acknowledges or commits.
    """

    def stepped(self, step: Step) -> None:
        """Check a serving replica, also when it only learned of another view."""
        host, state = step.host, step.host.state
        if not state.serving:
            return
        view = state.accepted
        if view is None or state.me not in view.members:
            self.fail(host, f"serves, and is no member of {view}")
        elif state.promised != view.number:
            self.fail(host, f"serves in {view}, has promised {state.promised}")
        elif state.newer > view.number:
            self.fail(host, f"serves in {view}, knows that {state.newer} is active")


@checker("I20", "A member begins a view once all its members have accepted it, with disks on them.")
class ViewBeginning(Checker):
    """A member begins a view once all members have accepted it, on their disks where there are some.

    Otherwise the view could be replaced by one that lacks what the member has begun to do.
    """

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """Check every view that a process announces, also if another process has announced it before."""
        for view, _ in step.views:
            lacking = [voter for voter in view.members if not self._has(voter, view)]
            if lacking:
                self.fail(step.host, f"begins {view}, which {lacking} have not accepted")

    def _has(self, voter: Voter, view: View) -> bool:
        if voter not in self.past.accepted[view.number]:
            return False
        for host in self.past.world.hosts:
            disk = host.disk
            if disk is not None and not disk.spoiled and (host.replica, disk.incarnation) == voter:
                accepted = disk.remembered.accepted
                return accepted is not None and accepted.number >= view.number
        # It has no disk, or has lost the one with the accepted view.
        return True
