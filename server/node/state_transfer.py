"""Transfer of a replica's state to another one, at both ends, between the channel and the engine. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from ...engine import Capture, Engine, SnapshotError, SnapshotTooEarly, Source, StagedPart, Staging
from ...hachannel import Channel, InstallPart, ProvidePart, ProvideSnapshot

__all__ = ["StateTransfer", "Unusable"]

SLICE_AGENTS: Final = 400
SLICE_BYTES: Final = 1024 * 1024
"""Agents, and bytes of them, prepared for the disk at a time: a few milliseconds."""
MAX_REFUSALS: Final = 5
"""States in a row that cannot be used here, after which the replica gives up."""


class Unusable(Exception):
    """The states of the other replicas cannot be used here. The text is one sentence."""


class StateTransfer:
    """Provides and installs whole states as the channel asks, a few milliseconds at a time."""

    def __init__(
        self,
        engine: Engine,
        channel: Channel,
        log: Callable[[str], None],
        stage: Callable[[StagedPart], None] | None = None,
    ) -> None:
        """`log` writes a line to the log; `stage` stores an incoming part on the disk, None without one."""
        self.installed = 0
        """Number of states that have replaced the present one."""
        self._engine = engine
        self._channel = channel
        self._log = log
        self._stage = stage
        self._staged = False
        """True if the disk holds parts of an incoming state beside the present state."""
        self._token = 0
        self._source: Source | None = None
        self._index: int | None = None
        """The source provides the state after this entry, as reported to the channel; None before that."""
        self._staging: Staging | None = None
        self._installing: Iterator[None] | None = None
        """The replacement of the state by the incoming one, while it is under way."""
        self._capture: Capture | None = None
        self._refusals = 0

    def begin_view(self, *, master: bool) -> None:
        """Drop transfers under way, because a view begins with this replica; only its master is a donor."""
        self._staging = self._installing = self._capture = None
        self._unstage()
        if not master and self._source is not None:
            self._source.close()
            self._source = None

    # The master's side

    @property
    def giving(self) -> bool:
        """Whether another replica is being given the state."""
        return self._source is not None and not self._source.over

    def provide(self, now: float, event: ProvideSnapshot | ProvidePart) -> ProvidePart | None:
        """Pass the next part to the channel. Return an event to call this with again, or None."""
        if isinstance(event, ProvideSnapshot):
            self._token = event.token
            self._source = self._engine.source(event.marker, event.have)
            self._index = None
        source = self._source
        if source is None or event.token != self._token or source.over:
            self._channel.part_failed(now, event.token, "the master has begun something else meanwhile")
            return None
        part = source.next()
        if part is None:
            return ProvidePart(event.token, event.index)
        if part.index is not None and self._index is None:
            # Later entries up to the one of the event hold nothing for the engine.
            self._index = max(part.index, event.index)
        self._channel.part_ready(now, event.token, part.data, self._index, last=part.last)
        if part.last:
            self._source = None
            self._log(
                f"the state after entry {self._index} was given, "
                f"{source.rounds} times what had changed meanwhile"
            )
            for flaw in source.flaws:
                self._log(f"{flaw}; the reactions since then were given instead")
        return None

    # The learner's side

    def install(self, now: float, event: InstallPart) -> Capture | None:
        """Accept a part; with the last one, replace the state of the engine.

        Returns the capture to be written together with the records of the channel, or None. The parts of a
        complete state are staged on the disk as they arrive; of a state that is based on the present one,
        the differences are captured at the end. While `busy`, call this with the same event again.
        Raises AgentError, Unusable.
        """
        if self._capture is None:
            try:
                if self._installing is None:
                    staging = self._accept(event)
                    if event.index is None:
                        self._channel.part_installed(now, event.token, staging.marker)
                        return None
                    self._installing = self._engine.installing(staging)
                for _ in self._installing:
                    return None
            except SnapshotError as error:
                self._installing = None
                self._refuse(now, event, error)
                return None
            return self._installed(now, event)
        capture = self._capture
        if not capture.step(SLICE_AGENTS, SLICE_BYTES):
            return None
        self._capture = None
        self._channel.part_installed(now, event.token)
        return capture

    def _installed(self, now: float, event: InstallPart) -> Capture | None:
        """Finish a transfer: the incoming state has replaced the old one."""
        staging, index = self._staging, event.index
        assert staging is not None
        assert index is not None
        self._staging = self._installing = None
        self._refusals = 0
        self.installed += 1
        self._log(f"the state after entry {index} was installed, {len(staging.hashes)} agents came")
        if self._stage is not None and not self._staged:
            self._capture = self._engine.capture(index)
            return None
        self._channel.part_installed(now, event.token)
        if self._stage is None:
            return None
        self._staged = False
        return self._engine.adopted(index, staging.gone)

    @property
    def busy(self) -> bool:
        """True while a new state replaces the old one, or is prepared for the disk."""
        return self._installing is not None or self._capture is not None

    def _accept(self, event: InstallPart) -> Staging:
        staging = self._staging
        if staging is None:
            staging = self._staging = self._engine.staging()
        part = staging.accept(event.data)
        if staging.based:
            self._unstage()
        elif self._stage is not None:
            self._stage(part if self._staged else attrs.evolve(part, anew=True))
            self._staged = True
        if (staging.end is None) != (event.index is None):
            raise SnapshotError("the parts of the state end where they should not")
        return staging

    def _unstage(self) -> None:
        if self._staged and self._stage is not None:
            self._stage(StagedPart((), True))
        self._staged = False

    def _refuse(self, now: float, event: InstallPart, error: SnapshotError) -> None:
        self._staging = None
        if isinstance(error, SnapshotTooEarly):
            # The other replicas switch once all of them can: the channel asks again, after growing pauses.
            self._channel.part_refused(now, event.token, str(error))
            return
        self._refusals += 1
        if self._refusals >= MAX_REFUSALS:
            raise Unusable(f"the state of the other replicas cannot be used here: {error}") from error
        self._channel.part_refused(now, event.token, str(error))
