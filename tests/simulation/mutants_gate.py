"""Mutants of the gate: when a slave may propose."""

from quorate.hachannel.protocol import heartbeats, view_triggers
from quorate.testing.mutation import mutant, patched


@mutant("One EXIT opens the gate.", caught=("gate",), quick=True)
def one_exit_opens():
    def opened(self, view):
        return self.exit

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("One EXIT less than a majority opens the gate.", caught=("gate",))
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


@mutant("Voters that are suspected count as if they had said EXIT.", caught=("gate",))
def silence_counts_as_exit():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            exits += self.exit if voter == self._state.me else link is None or link.suspected or link.exit
        return exits >= view.quorum

    with patched(view_triggers.ViewTriggers, "_gate_open", opened):
        yield


@mutant("An EXIT counts for ever, also in later views.", caught=("gate",))
def old_exits_count():
    original = heartbeats.Heartbeats.on_heartbeat
    ever = set()

    def on_heartbeat(self, now, link, voter, message):
        if message.exit:
            ever.add((id(self._gate), voter))
        original(self, now, link, voter, message)

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
    "An EXIT that was said of an older view counts in the next one.",
    caught=("gate",),
    seeds=0,
    explore="gate",
    budget={"tick": 0, "apart": 1},
)
def late_exit_counts():
    with patched(heartbeats.Heartbeats, "_of_before", lambda *_: False):
        yield
