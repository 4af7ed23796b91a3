"""Recovery: a replica's engine and log, brought back from its journal when it starts.

The journal has the state of the engine after some entry, and the entries of the ordered log. The state is
loaded, the committed entries after it are applied once more, and the channel continues with the log.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import attrs

from ...agents import AgentError
from ...agents.thread_queue import Put
from ...engine import (
    ClassMissing,
    Effects,
    Engine,
    EngineStopped,
    Nondeterministic,
    Reaction,
    SnapshotError,
    Unloadable,
    UpgradePending,
)
from ...hachannel.journal.durable_log import DurableLog
from ...hachannel.journal.journal import Damaged, Journal, database_error
from ...hachannel.model.log import Applied
from ...hachannel.model.messages import PAYLOAD, Entry
from ..errors import StartError
from .recovery_progress import ProgressHost, RecoveryProgress
from .state_store import StateStore

__all__ = ["Recovery", "recover"]


@attrs.frozen
class Recovery:
    """The result of a recovery, with which a replica starts."""

    log: DurableLog
    incarnation: int
    """The voter that this replica is: the one it was before, or a new one."""
    saved: int
    """The state on the disk is the one after this entry."""
    unsaved: Sequence[Entry]
    """Entries of the log after that state."""
    trace: list[Reaction]
    """Reactions of the entries that were applied again: the trace's files may lack them."""
    lines: list[str]
    """For the log file."""
    puts: list[tuple[int, list[Put]]]
    """What the entries that were applied again have put into queues for threads: (entry, what it put)."""
    accepted: str = ""
    """The first entry that ended otherwise than before, and how, if that was accepted; "" if none did."""


def recover(
    journal: Journal,
    store: StateStore,
    engine: Engine,
    host: ProgressHost,
    *,
    clustered: bool,
    accept_code_change: bool = False,
) -> Recovery:
    """Load the stored state into `engine`, apply the committed entries after it, and return the result.

    Every entry has to end as the journal says that it ended before; accept_code_change: if one does not,
    that is written to the log, and its new outcome to the journal.
    Raises Damaged, StartError if the engine refuses the state or an entry, or an entry ends otherwise than
    before, and StartInterrupted if the host is interrupted.
    """
    saved = _load_state(journal, store, engine)
    remembered = journal.remembered
    if not remembered.base.at <= saved <= remembered.commit <= remembered.last:
        raise Damaged(
            f"The journal {journal.path} is damaged: it has a state after entry {saved}, entries "
            f"{remembered.base.at + 1} to {remembered.last}, and {remembered.commit} is committed."
        )
    unsaved = [entry for entry in journal.recovered if entry.index > saved]
    committed = [entry for entry in unsaved if entry.index <= remembered.commit and entry.kind == PAYLOAD]
    trace: list[Reaction] = []
    lines: list[str] = []
    puts: list[tuple[int, list[Put]]] = []
    accepted = ""
    changed: list[Applied] = []
    with RecoveryProgress(committed, host) as progress:
        for entry in progress:
            # What these reactions send was sent before the stop, or is sent by the channel after this.
            try:
                effects = _apply_again(entry, engine, journal, lines, clustered)
            except UpgradePending as error:
                if remembered.unfit:
                    # The state will be replaced by that of another replica.
                    break
                raise StartError(_too_early(entry.index, error, journal, clustered)) from None
            trace += effects.trace
            if effects.puts:
                puts.append((entry.index, effects.puts))
            recorded = journal.outcomes.get(entry.index)
            different = "" if recorded is None or changed else effects.differs(recorded)
            if different and remembered.unfit:
                # The state will be replaced by that of another replica.
                continue
            if different and not accept_code_change:
                raise StartError(_refusal(entry.index, different, journal, clustered))
            if different:
                accepted = f"entry {entry.index} {different}"
                host.announce(f"accepted, as asked: {accepted}")
            if different or changed:
                # All later outcomes depend on this one.
                changed.append(Applied(entry.index, effects.outcome))
    if changed:
        journal.write(changed)
    if remembered.accepted is not None:
        lines.append(
            f"recovered: the state after entry {saved}, {len(committed)} entries applied again, "
            f"{remembered.last - remembered.commit} not known to be committed"
        )
    log = DurableLog(remembered, journal.recovered)
    journal.recovered = ()
    return Recovery(log, journal.incarnation, saved, unsaved, trace, lines, puts, accepted)


def _load_state(journal: Journal, store: StateStore, engine: Engine) -> int:
    """Load the stored state into the engine; return the index of its last entry, 0 if there is none."""
    try:
        if store.unfinished(journal.connection):
            journal.write([], also=store.recover)
        stored = store.read(journal.connection)
        if stored is None:
            return 0
        with closing(stored.agents):
            engine.load(stored.header, stored.agents)
    except sqlite3.Error as error:
        raise database_error(journal.path, error) from None
    except (SnapshotError, AgentError, ValueError) as error:
        raise StartError(f"The state in {journal.path} cannot be loaded: {error}.") from None
    return stored.index


def _refusal(index: int, different: str, journal: Journal, clustered: bool) -> str:
    """Return the sentences for an entry that ends otherwise than before."""
    others = (
        f"; or, if the other replicas go on, move {journal.path.stem}.* out of {journal.path.parent} "
        "and start this one: it gets the state from them"
    )
    return (
        f"Entry {index}, applied again, {different}. What was answered then would no longer hold, so this "
        "replica does not serve. Start it with the code that ran before, stop it in order, which saves its "
        f"state, and change the code then{others if clustered else ''}. Start it once with "
        "--accept-code-change if the new result is to count."
    )


def _too_early(index: int, error: UpgradePending, journal: Journal, clustered: bool) -> str:
    """Return the sentences for an entry that only a former version of a class may apply."""
    others = (
        f" Or, if the other replicas go on, move {journal.path.stem}.* out of {journal.path.parent} and "
        "start this one: it gets the state from them."
    )
    return (
        f"Entry {index} cannot be applied again: {error}. Or start the former code and stop it in order, "
        f"which saves the state, and start the new code then.{others if clustered else ''}"
    )


def _apply_again(
    entry: Entry, engine: Engine, journal: Journal, lines: list[str], clustered: bool
) -> Effects:
    try:
        return engine.apply(entry.index, entry.stamp_ns, entry.payload)
    except UpgradePending:
        raise
    except (EngineStopped, Unloadable, ClassMissing) as error:
        raise StartError(f"Entry {entry.index} cannot be applied again: {error}.") from None
    except Nondeterministic as error:
        others = (
            f"; or, if the other replicas go on, move {journal.path.stem}.* out of {journal.path.parent} "
            "and start this one: it gets the state from them"
        )
        raise StartError(
            f"Entry {entry.index} cannot be applied again: {error}. Mend the agent's class, for all "
            f"replicas alike, and start them{others if clustered else ''}."
        ) from None
    except Exception as error:  # the node, too, goes on after a defect
        lines.append(f"defect: entry {entry.index} was not applied as a whole: {error!r}")
        return Effects(entry.index)
