"""Mutants that wait for the dead: all is well as soon as they are back, the voters that they were."""

from quorate.hachannel.protocol import view_triggers
from quorate.testing import draw
from quorate.testing.mutation import mutant, patched, rewritten


def nothing_is_forgotten(seed):
    """The voters of the beginning are those of the end: who dies comes back, until some do not."""
    return draw(seed, ["crash", "pause", "isolate", "partition", "break"], disk=True)


@mutant(
    "The gate opens when no voter at all follows the master.",
    schedule=nothing_is_forgotten,
    caught=("L1",),
    quick=True,
)
def exits_of_all():
    def opened(self, view):
        links = [self._state.peers.link(voter) for voter in view.config if voter != self._state.me]
        return self.exit and all(link is not None and link.exit for link in links)

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant(
    "A master keeps slaves that are dead as members of its view.",
    schedule=nothing_is_forgotten,
    caught=("L1",),
)
def dead_slaves_stay():
    leaves = ("if state.peers.departs(voter):", "if link is not None and link.leaving:")
    with rewritten(view_triggers.ViewTriggers, "_consider_members", leaves):
        yield
