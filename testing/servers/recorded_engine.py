"""Engines of a simulation that keep the entries they apply, to be applied again under other hash seeds."""

from collections.abc import Callable

import attrs

from ...agents import AgentSpec
from ...engine import Effects, Engine
from ...server.config import Config, Server
from ...server.settings import ReplicaSettings
from ..determinism.guard import Guard
from ..determinism.hash_seeds import HashSeedError, modules_of
from ..determinism.rerun_log import Job
from .memory_server import MemoryServer

__all__ = ["RecordedEngines"]

MAX_ENTRIES = 100_000
"""Entries of a server that are kept to be applied again under other hash seeds."""


class _RecordedEngine(Engine):
    """An engine that keeps the entries it applies."""

    entries: dict[int, tuple[int, int, bytes]]

    def apply(self, index: int, now_ns: int, payload: bytes) -> Effects:
        """Run the reactions to one entry."""
        if len(self.entries) < MAX_ENTRIES:
            self.entries.setdefault(index, (index, now_ns, payload))
        return super().apply(index, now_ns, payload)


class RecordedEngines:
    """The engines of all replicas of a simulation, and the entries of each server."""

    def __init__(self, load: Callable[[str], AgentSpec], guard: Guard | None) -> None:
        """load: finds agent classes. guard: watches the reactions of all replicas; None: nothing does."""
        self._load = load
        self._guard = guard
        self._entries: dict[int, dict[int, tuple[int, int, bytes]]] = {}
        """The first entries of each server by index: index, time stamp in nanoseconds, payload."""

    def new_engine(self, config: Config, server: Server) -> Engine:
        """Return an engine of a server, without agents."""
        engine = _RecordedEngine(
            server.id,
            config.names,
            ReplicaSettings.read(config, server, server.replicas[0]).engine,
            self._load,
            config.routes(server.id),
            causal=config.causal_domains(server.id),
        )
        engine.entries = self._entries.setdefault(server.id, {})
        if self._guard is not None:
            engine.current = self._guard.reaction_of()
        return engine

    def job(self, server: MemoryServer) -> Job:
        """Return the entries for another process. Raises HashSeedError for a class that it cannot import."""
        config, entries = server.config, self._entries[server.server.id]
        if len(entries) >= MAX_ENTRIES:
            raise HashSeedError(f"more than {MAX_ENTRIES} entries are not applied again; check a shorter run")
        engine = max((each.engine for each in server.replicas.values()), key=lambda each: each.applied)
        return Job(
            server.server.id,
            dict(config.names),
            config.routes(server.server.id),
            attrs.asdict(engine.settings),
            modules_of({cell.spec.cls for cell in engine.cells()}),
            [entries[index] for index in sorted(entries)],
        )
