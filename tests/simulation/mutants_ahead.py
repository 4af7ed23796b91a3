"""Mutants of what goes beside a state: which entries, how many, and when they count."""

from quorate.hachannel.transfer import donor, log_tail
from quorate.testing.mutation import mutant, rewritten


@mutant("Entries go beside the state that are not committed.", quick=True)
def uncommitted_ahead():
    with rewritten(donor.Donor, "_push_ahead", ("state.commit", "state.log.last.at")):
        yield


@mutant("The log is not kept for what is on its way beside the state.")
def ahead_not_kept():
    with rewritten(
        donor.Donor, "on_chunk_ack", ("session.hold = lead.acked", "session.hold = self._state.applied")
    ):
        yield


@mutant("A donor sends one message more beside the state than the window.", caught=("I18",))
def ahead_one_more():
    with rewritten(log_tail.Lead, "wants", ("< self._window", "<= self._window")):
        yield
