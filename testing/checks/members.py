"""I12, I15: who takes part was let in by an administrator, and had the state before it counted."""

from ...hachannel import View
from ...hachannel.model.messages import RECONFIG, Reconfig, decode_reconfig
from ..channel.host import Host
from .base import Checker, checker
from .history import Process, Step

MIN_LAG = 64
"""A replica that becomes a voter may lack so many entries, or a window."""


@checker("I12", "Whoever votes or holds the log belongs to the cluster.")
class SeatedVoters(Checker):
    """A replica that was removed must not come back unless it is added again."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Of every view that anybody accepts."""
        listed = {seat.replica for seat in view.seats}
        for voter in {*view.config, *view.members}:
            if voter.replica not in listed:
                self.fail(host, f"{view} has {voter}, which is not one of {sorted(listed)}")


@checker("I15", "A replica becomes a voter once it has caught up, and is alive then.")
class LearnerProgress(Checker):
    """A voter without the state cannot take over, and one that is dead only weakens the majorities."""

    alone = True

    def stepped(self, step: Step) -> None:
        """The master appends the change."""
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
