"""The view triggers: suspicion alone starts no view change."""

from ...hachannel.model.messages import Prepare
from .base import Checker, checker
from .history import Step, count, majority


@checker("gate", "A slave proposes a view only when most voters said that they do not follow its master.")
class ViewTriggerMajority(Checker):
    """A slave proposes a view only after a majority of voters sent EXIT, or leaves.

    One replica that receives nothing must not disturb the others (compare PreVote in Raft).
    """

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """A slave has begun to propose."""
        view, me = step.process.follows, step.host.state.me
        if view is None or view.members[0] == me:
            return
        for message in step.binding:
            if isinstance(message, Prepare) and message.number[1:] == me:
                since = self.past.since.get(view.number, 0.0)
                exits = {me, *(voter for voter, at in self.past.exits.items() if at >= since)}
                exits |= self.past.leaving
                if count(exits, view.config) < majority(view.config):
                    self.fail(step.host, f"proposes {message.number}, in {view} only {sorted(exits)} want it")
