"""Mutants of the gate, by which a slave may propose, and of how a master drops dead slaves."""

from quorate.hachannel.protocol import heartbeats, view_triggers
from quorate.hachannel.replication import peers
from quorate.testing import draw
from quorate.testing.mutation import mutant, patched, wrapped


@mutant("One EXIT opens the gate.", caught=("gate",), quick=True)
def one_exit_opens():
    def opened(self, view):
        return self.exit

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("The gate opens with one EXIT less than a majority.", caught=("gate",))
def gate_one_short():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            if voter == self._state.me:
                exits += self.exit
            elif link is not None and not link.suspected:
                exits += link.exit or link.leaving
        return exits >= view.quorum - 1

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("A suspected voter counts as if it had said EXIT.", caught=("gate",))
def silence_counts_as_exit():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            exits += self.exit if voter == self._state.me else link is None or link.suspected or link.exit
        return exits >= view.quorum

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("An EXIT counts in all later views.", caught=("gate",))
def old_exits_count():
    original = heartbeats.Heartbeats.on_heartbeat
    ever = set()

    def on_heartbeat(self, now, voter, message):
        if message.exit:
            ever.add((id(self._view_triggers), voter))
        original(self, now, voter, message)

    def opened(self, view):
        exits = 0
        for voter in view.config:
            exits += self.exit if voter == self._state.me else (id(self), voter) in ever
        return exits >= view.quorum

    with (
        patched(heartbeats.Heartbeats, "on_heartbeat", on_heartbeat),
        patched(view_triggers.ViewTriggers, "_gate_open", opened),
    ):
        yield


@mutant(
    "An EXIT of an earlier view that arrives late counts in the present one.",
    caught=("gate",),
    seeds=0,
    explore="gate",
    budget={"tick": 0, "apart": 1},
)
def late_exit_counts():
    with patched(heartbeats.Heartbeats, "_of_before", lambda *_: False):
        yield


def nothing_is_forgotten(seed):
    """The voters of the beginning are those of the end: who dies comes back, until some do not."""
    return draw(seed, ["crash", "pause", "isolate", "partition", "break"], disk=True)


@mutant(
    "The gate opens only when no voter follows the master.", schedule=nothing_is_forgotten, caught=("L1",)
)
def exits_of_all():
    def opened(self, view):
        links = [self._state.peers.link(voter) for voter in view.config if voter != self._state.me]
        return self.exit and all(link is not None and link.exit for link in links)

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant(
    "A master keeps suspected slaves as members of its view.", schedule=nothing_is_forgotten, caught=("L1",)
)
def dead_slaves_stay():
    def leaves(self, voter):
        link = self.links.get(voter.replica)
        return link is not None and link.leaving

    def consider(original, self, now, view):
        with patched(peers.Peers, "departs", leaves):
            original(self, now, view)

    with wrapped(view_triggers.ViewTriggers, "_consider_members", consider):
        yield
