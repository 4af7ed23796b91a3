"""The disk of a replica: what it keeps there, and the watch over its directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed

from ...engine import Engine
from ..context import ReplicaContext
from ..node.outputs import Output
from ..storage.directory_watch import DirectoryWatch
from ..storage.durability import Durability, identity_of
from ..storage.recovery import Recovery
from .driver import Driver
from .trace import TraceLives

__all__ = ["ReplicaDisk"]


class ReplicaDisk:
    """Writes the records of the node, and reports a disk that fails or a directory that is gone.

    With durability "memory" nothing is kept, and all methods do nothing. Implements `DurabilityHost`.
    """

    def __init__(
        self,
        context: ReplicaContext,
        driver: Driver,
        trace: TraceLives,
        failed: Callable[[str], None],
        *,
        guest: bool,
    ) -> None:
        """`failed` is called with the sentence when nothing more can be kept. `guest`: see `Durability`."""
        self.interrupted = False
        """True after `Replica.interrupt`: a recovery that is under way is abandoned."""
        self.problem = ""
        """Why the disk can no longer be written; "" while it can."""
        self.durability: Durability | None = None
        """The journal; None with durability "memory"."""
        self._context = context
        self._driver = driver
        self._trace = trace
        self._failed = failed
        self._watch = DirectoryWatch(context.directory, context.reactor, self._directory_lost)
        server = context.server
        if server.durability == "disk":
            self.durability = Durability(
                context.directory,
                identity_of(server, context.replica.id),
                server.clustered,
                context.reactor,
                self,
                context.settings.durability,
                guest=guest,
                accept_code_change=context.accept_code_change,
            )

    @property
    def saved(self) -> int:
        """The state on the disk is the one after this entry; 0 if nothing is kept."""
        return 0 if self.durability is None else self.durability.saved

    def recover(self, life: int, engine: Engine) -> Recovery | None:
        """Bring `engine` to the state on the disk. Raises StartError. See `Durability.open`."""
        return None if self.durability is None else self.durability.open(life, engine)

    def watch(self) -> None:
        """Watch from now on that the directory is not removed, moved or replaced."""
        if self.durability is not None:
            self._watch.start()

    def end_watch(self) -> None:
        """End the watch: the files are about to change."""
        self._watch.stop()

    def write(self, out: Output) -> None:
        """Write the records of the node, and the parts of an incoming state."""
        if self.durability is not None:
            for part in out.staged:
                self.durability.stage(part)
            if out.persist:
                self.durability.write(out.persist, out.token, out.installed)
            if out.switched:
                self.durability.snapshot()

    def close(self, *, save: bool) -> "Deferred[None]":
        """Close the files; `save`: write the state before."""
        return succeed(None) if self.durability is None else self.durability.close(save=save)

    def _directory_lost(self, path: Path) -> None:
        context = self._context
        if context.replica.witness:
            remedy = "start it again, it joins as a new one"
        elif context.server.clustered:
            remedy = (
                "start it again, it joins as a new one and gets the state from the others, if those go on"
            )
        else:
            remedy = "put the directory back before you start it, without it the server begins with nothing"
        self._fail(
            f"{path.absolute()} was removed, moved or replaced while {context.server.name}."
            f"{context.replica.id} ran; it has stopped, because it can keep nothing there: {remedy}."
        )

    def _fail(self, sentence: str) -> None:
        self.log(sentence)
        self.problem = sentence
        self._failed(sentence)

    # The interface DurabilityHost

    def persisted(self, token: int) -> None:
        """Report to the node that the records up to this token are durable."""
        self._driver.call(self._driver.node.persisted, token)

    def disk_failed(self, sentence: str) -> None:
        """Report that nothing more can be made durable."""
        missing = self._watch.missing()
        if missing is not None:
            self._directory_lost(missing)
        else:
            self._fail(f"{sentence} The replica has stopped; free or mend the disk and start it.")

    def flush_trace(self) -> "Deferred[Any]":
        """Write the reactions so far to the trace's files; the result fires after that, or its failure."""
        return self._trace.flushed()

    def log(self, line: str) -> None:
        """Write a line to the log."""
        self._context.log(line)

    def announce(self, line: str) -> None:
        """Write a line to the log, and show it to the user who started the replica."""
        self._context.announce(line)
