"""Detection of a replica whose state differs from the others of its view. Pure.

The slaves report to the master: often the chain of their reactions, which costs nothing, and sometimes the
digest of their state. The master judges both. A replica that differs is disqualified: it serves no longer,
and its channel gets it the state of another replica. The outcomes of the entries in question show which one
was the first that ended otherwise.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ...engine import Effects, Engine, IncrementalDigest
from ...hachannel import Channel, DirectReceived, ViewEvent
from ...hachannel.model.settings import ANNOUNCE_AFTER_S
from .answered_outcomes import AnsweredOutcomes
from .digests import (
    Answered,
    Chain,
    Classes,
    Difference,
    DigestBook,
    DirectMessage,
    Diverged,
    Report,
    Verdict,
    decode_direct,
    encode_direct,
    verdict_sentence,
)
from .held_outputs import HeldOutputs
from .outcome_history import OutcomeHistory

__all__ = ["DivergenceDetector"]

SLICE_AGENTS: Final = 400
SLICE_BYTES: Final = 1024 * 1024
"""Agents, and bytes of them, that one step of a digest reads: a few milliseconds."""
SHARES: Final = 128
"""A digest is complete after this many entries at the latest, whatever else there is to do."""
CHAIN_EVERY: Final = 16
"""A slave reports its chain when the index of an entry passes a multiple of this."""
CHAIN_AFTER_S: Final = 0.1
"""When nothing follows, a slave reports the chain of its last entry after this time."""
FIRST_PAUSE_S: Final = 1.0
LAST_PAUSE_S: Final = 60.0
"""Pauses before a replica that differs again gets another state, doubled from the first to the last."""
CALM_S: Final = 600.0
"""After this time without a difference the pauses begin anew."""


class DivergenceDetector:
    """Reports chains and digests to the master, and judges those of the slaves as master.

    The digest after an entry is computed while later entries are applied: one share with each of them, the
    rest when there is nothing else to do.
    """

    def __init__(
        self,
        me: int,
        engine: Engine,
        channel: Channel,
        report: Callable[[str], None],
        held: HeldOutputs | None = None,
    ) -> None:
        """`report` takes a sentence for people about a replica that differs.

        held: the outputs that leave once all members have reported their chain. Then they report it at once.
        """
        self._held = held
        self.on_classes: Callable[[int, Classes], None] | None = None
        """Takes the classes of a member of the view of which this replica is the master."""
        self._me = me
        self._engine = engine
        self._channel = channel
        self._report_difference = report
        self._digests = DigestBook(me)
        self._chains = DigestBook(me)
        self._view: ViewEvent | None = None
        self._judged: dict[int, str] = {}
        """The replicas of the view that were found to differ; with a sentence until a better one comes."""
        self.running: IncrementalDigest | None = None
        """The digest that is being computed, if any: call `step` when there is nothing else to do."""
        self._index = 0
        """The entry after which the state has that digest."""
        self._share = 0
        self._history = OutcomeHistory(engine.applied, engine.chain)
        self._answered = AnsweredOutcomes(me, self._history, self._agreed)
        self._chained = 0
        """The last entry whose chain was reported."""
        self._chained_at = 0.0
        self.due: float | None = None
        """When to report with `tick`; None if there is nothing to report."""
        self._pause_s = 0.0
        self._diverged_at = float("-inf")

    def begin_view(self, now: float, view: ViewEvent) -> None:
        """Begin a view: drop what was reported in an earlier view."""
        self._view = view
        self._digests.clear()
        self._chains.clear()
        for sentence in filter(None, self._judged.values()):
            self._report_difference(sentence)
        self._judged.clear()
        self._chained = 0
        self.due = now if self._is_slave() else None
        if self._held is not None:
            slaves = [each for each in view.members if each != self._me] if view.master == self._me else []
            self._held.begin_view(slaves, self._engine.applied, self._engine.chain)
        self._answered.begin_view()
        if self.running is not None:
            self.running.close()
            self.running = None
        self._act_on_contradiction(now)

    def state_installed(self) -> None:
        """Begin a new history: the state of the engine has come from another replica."""
        self._history.restart(self._engine.applied, self._engine.chain)
        self._answered.state_installed()
        self._chained = 0

    def _is_slave(self) -> bool:
        view = self._view
        return view is not None and view.master != self._me and self._me in view.members

    @property
    def compared(self) -> bool:
        """Whether this replica is the master of a view with slaves."""
        view = self._view
        return view is not None and view.master == self._me and len(view.members) > 1

    @property
    def may_serve(self) -> bool:
        """Whether this replica, as master, may begin to serve: nothing that was answered contradicts it."""
        held = self._held
        return self._answered.contradiction is None and (held is None or held.may_begin)

    # Reports

    def start_digest(self, now: float, index: int) -> None:
        """Start the digest of the state after the entry `index`, which has just been applied."""
        view = self._view
        if view is None or len(view.members) < 2:
            return
        if self.running is not None:
            # Finish the earlier one at once: with positions this close together little of it is left.
            self._advance(now, None, None)
        self.running = self._engine.incremental_digest()
        self._index = index
        self._share = -(-self.running.left // SHARES)

    def applied(self, now: float, effects: Effects) -> None:
        """Note the outcome of an entry, report the chain if it is time, and compute a share of the digest."""
        before = self._history.applied
        self._history.add(effects, self._engine.chain)
        if self._is_slave():
            if effects.index // CHAIN_EVERY != before // CHAIN_EVERY:
                self._report_chain(now)
            elif self.due is None:
                pause_s = CHAIN_AFTER_S if self._held is None else 0.0
                self.due = max(now, self._chained_at + pause_s)
        else:
            self._compare_chains(now)
        if self._answered.applied():
            self._act_on_contradiction(now)
        if self.running is not None:
            self._advance(now, self._share, None)

    def answered(self, now: float, index: int, outcome: bytes) -> None:
        """Note the outcome of an entry whose outputs leave this master before the slaves confirm them."""
        self._answered.add(index, outcome)
        if self.due is None:
            # The next entry may follow soon.
            self.due = now + ANNOUNCE_AFTER_S

    def send_outcomes(self) -> None:
        """Send the slaves the outcomes that they do not know: before the next entry, or soon."""
        if not self._answered.pending:
            return
        self.due = None
        message, view = self._answered.take(), self._view
        assert view is not None
        for member in view.members:
            if member != self._me:
                self._send(member, message)

    def tick(self, now: float, *, announced: bool = False) -> None:
        """Report the last entries, if that is due. Call when all that is there is applied.

        announced: the master sends its slaves a message anyway.
        """
        if self.due is None or not (now >= self.due or announced):
            return
        if self._answered.pending:
            self.send_outcomes()
        else:
            self._report_chain(now)

    def step(self, now: float) -> None:
        """Compute the digest of some more agents."""
        if self.running is not None:
            self._advance(now, SLICE_AGENTS, SLICE_BYTES)

    def _report_chain(self, now: float) -> None:
        self.due, self._chained_at = None, now
        history, view = self._history, self._view
        if view is not None and self._is_slave() and history.applied != self._chained:
            self._chained = history.applied
            self._send(view.master, Chain(history.applied, history.chain))

    def _advance(self, now: float, limit: int | None, max_bytes: int | None) -> None:
        digest = self.running
        assert digest is not None
        if digest.step(limit, max_bytes):
            self.running = None
            self._report(now, self._index, digest.digest)

    def _report(self, now: float, index: int, digest: bytes) -> None:
        view = self._view
        assert view is not None
        if view.master == self._me:
            self._judge(now, self._digests.report(self._me, index, digest, view.members))
        else:
            self._send(view.master, Report(index, digest))

    def _send(self, replica: int, message: DirectMessage) -> None:
        self._channel.send_direct(replica, encode_direct(message))

    def received(self, now: float, event: DirectReceived, *, early: bool = False) -> bool:
        """Handle a message of another replica; unknown ones are ignored.

        early: entries or views that came before the message are not applied yet. Returns False if the message
        has to come again after them. A replica that differs learns of that at once: it may be master soon.
        """
        message = decode_direct(event.data)
        view = self._view
        if isinstance(message, Diverged):
            if event.peer == self._channel.standing.master or (view and event.peer == view.master):
                self._on_diverged(now, event.peer, message)
        elif isinstance(message, Answered):
            # Of the present master, or of the next one, whose view is not followed yet.
            if self._answered.received(event.peer, message):
                self._act_on_contradiction(now)
        elif early:
            return False
        elif view is None:
            pass
        elif view.master == self._me and event.peer in view.members:
            match message:
                case Report():
                    self._judge(
                        now, self._digests.report(event.peer, message.index, message.digest, view.members)
                    )
                case Chain():
                    if self._held is not None:
                        self._held.reported(event.peer, message.index, message.chain)
                    if message.chain == self._history.chain_after(message.index):
                        self._agreed(event.peer, message.index)
                    self._judge_chain(now, view, event.peer, message.index, message.chain)
                    self._compare_chains(now)
                case Difference():
                    self._judged[message.replica] = ""
                    self._report_difference(message.sentence)
                case Classes() if self.on_classes is not None:
                    self.on_classes(event.peer, message)
                case _:
                    pass
        return True

    # Judgement

    def _compare_chains(self, now: float) -> None:
        """Report the own chain, as the master, at the positions that slaves have reported."""
        view, history = self._view, self._history
        if view is None or view.master != self._me:
            return
        if self._held is not None:
            self._chains.agree(self._held.confirmed, view.members)
        for index in self._chains.lacking(history.applied):
            chain = history.chain_after(index)
            if chain is not None:
                self._judge_chain(now, view, self._me, index, chain)

    def _judge_chain(self, now: float, view: ViewEvent, replica: int, index: int, chain: bytes) -> None:
        contradicted = self._answered.contradiction is not None
        self._judge(now, self._chains.report(replica, index, chain, view.members, contradicted=contradicted))

    def _act_on_contradiction(self, now: float) -> None:
        """Find out who is right, because the outcomes here are not those of a present or former master.

        Two replicas that agree are right. Until there are two, the answers of that master count.
        """
        found, view = self._answered.contradiction, self._view
        if found is None or view is None or self._channel.standing.unfit:
            return
        if {*view.members, found.master} == {self._me, found.master}:
            sentence = self._sentence(self._me, 0, found.index, found.first)
            self._report_difference(sentence)
            if view.master != self._me:
                self._send(view.master, Difference(self._me, sentence))
            self._disqualify(now)
        elif self._is_slave():
            self.due = now

    def _agreed(self, peer: int, index: int) -> None:
        found = self._answered.agreed(index)
        if found is not None:
            first = f": {found.first}" if found.first else ""
            self._report_difference(
                f"replica {found.master}, a former master, was in another state than replicas {self._me} and "
                f"{peer}, and may have answered with it{first}; agents must be deterministic"
            )

    def _judge(self, now: float, verdicts: Sequence[Verdict]) -> None:
        if self._channel.standing.unfit:
            # The other replicas are compared by the next master.
            return
        for verdict in verdicts:
            if verdict.replica in self._judged:
                continue
            self._judged[verdict.replica] = verdict.sentence
            outcomes = self._history.outcomes(verdict.after, verdict.index)
            message = Diverged(verdict.replica, verdict.after, verdict.index, outcomes)
            if verdict.replica == self._me:
                self._disqualify(now)
                self._send(verdict.right, message)
            else:
                self._send(verdict.replica, message)

    def _on_diverged(self, now: float, master: int, message: Diverged) -> None:
        """Find the first entry that ended otherwise than on the master, and report it."""
        if message.replica == self._me and self._channel.standing.unfit:
            # It has noticed that by itself.
            return
        first = self._history.first_difference(self._me, master, message.outcomes)
        sentence = self._sentence(message.replica, message.after, message.index, first)
        self._report_difference(sentence)
        self._send(master, Difference(message.replica, sentence))
        if message.replica == self._me:
            self._disqualify(now)

    @staticmethod
    def _sentence(replica: int, after: int, index: int, first: str) -> str:
        verdict = verdict_sentence(replica, after, index, first)
        return (
            f"{verdict}; it does not serve until it has the state of another one; "
            "agents must be deterministic"
        )

    def _disqualify(self, now: float) -> None:
        pause_s = self._pause_s if now < self._diverged_at + CALM_S else 0.0
        self._diverged_at = now
        self._pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LAST_PAUSE_S)
        self._channel.disqualify(now, "its state is not that of the other replicas", pause_s)
