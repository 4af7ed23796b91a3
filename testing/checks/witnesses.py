"""I19 and copies: the replicas that hold the log, and their least number."""

from ...hachannel import Deliver, View
from ...hachannel.model.messages import PAYLOAD
from ..channel.host import Host
from .base import Checker, checker
from .history import Process, Step


@checker("I19", "A witness is never master nor member, and never the only copy: it holds nothing.")
class StatelessWitness(Checker):
    """A witness votes, and holds neither log nor state."""

    skips_quiet_steps = True

    def accepting(self, host: Host, process: Process, view: View) -> None:
        """A view lists its witnesses, and has none among its members."""
        del process
        witness_ids = self.past.world.witness_ids
        if not view.members or any(voter.replica in witness_ids for voter in view.members):
            self.fail(host, f"the members of {view} are no replicas that hold the log")
        if {voter for voter in view.config if voter.replica in witness_ids} != set(view.witnesses):
            self.fail(host, f"{view} does not say who its witnesses are")

    def stepped(self, step: Step) -> None:
        """A witness has no entries and delivers nothing."""
        host = step.host
        state = host.state
        if host.is_witness and (
            state.serving or state.log.last.at or state.replicated.commit or state.replicated.applied
        ):
            self.fail(host, f"a witness serves or holds entries up to {state.log.last}")
        if host.is_witness and any(isinstance(event, Deliver) for event in step.output.events):
            self.fail(host, "a witness delivers")


@checker(
    "copies", "No entry is taken in a view with fewer members than min_copies, nor with fewer to hold it."
)
class CopyMinimum(Checker):
    """A master appends a payload only in a view with `min_copies` members, of which that many must hold it.

    Entries in flight when a view shrinks are committed with the new view.
    """

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """A master has appended entries."""
        least = self.past.world.shape.settings.min_copies
        for tag, _, entry in step.added:
            view = self.past.views.get(tag.view)
            if entry.kind == PAYLOAD and view is not None and min(len(view.members), view.k) < least:
                self.fail(step.host, f"takes {tag} in a view of {len(view.members)}, k {view.k}")
