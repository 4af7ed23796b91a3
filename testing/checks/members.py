"""I12, I15: the replicas that may vote and hold the log."""

from ...hachannel import View
from ...hachannel.model.messages import RECONFIG, Reconfig, decode_reconfig
from ..channel.host import Host
from .base import Checker, checker
from .history import Process, Step

MIN_LAG = 64
"""The number of entries that a new voter may lack, if it is more than the window."""


@checker("I12", "Whoever votes or holds the log belongs to the cluster.")
class SeatedVoters(Checker):
    """Voters and members have a seat: an administrator has added them and not removed them."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Check the seats of an accepted view."""
        listed = {seat.replica for seat in view.seats}
        for voter in {*view.config, *view.members}:
            if voter.replica not in listed:
                self.fail(host, f"{view} has {voter}, which is not one of {sorted(listed)}")


@checker("I15", "A replica becomes a voter once it has caught up, and is alive then.")
class LearnerProgress(Checker):
    """A replica becomes a voter once its log is near the end of the master's.

    A voter that lacks the log could not take over; a dead one would only weaken the majorities.
    """

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """A master has appended the RECONFIG that adds a voter."""
        host = step.host
        if not host.state.leading:
            return
        for tag, _, entry in step.added:
            if entry.kind != RECONFIG or entry.view != host.state.promised:
                continue
            change = decode_reconfig(entry.payload)
            if not isinstance(change, Reconfig) or not change.add:
                continue
            learner = self.past.world.hosts[change.replica]
            most = max(host.state.settings.window, MIN_LAG)
            if learner.is_witness:
                continue
            if learner.incarnation == change.incarnation and learner.channel.last < tag.at - 1 - most:
                self.fail(host, f"adds {learner}, whose log ends at {learner.channel.last}, at {tag.at}")
