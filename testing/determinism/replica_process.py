"""A process that applies the entries of a log again, started by its name with ``python -m``.

It reads a `Job` from its standard input, and writes a `JobResult` to its standard output.
"""

import importlib
import importlib.util
import os
import sys
from types import FrameType
from typing import Any

import msgspec

from ...agents import Note
from ...engine import CurrentReaction, Engine, EngineSettings, Reaction
from ...engine.current_reaction import RunningAgent
from ...engine.error_text import described
from .rerun_log import MAX_STEPS, EntryResult, Job, JobResult, ReactionResult, Step, stable_text

__all__ = ["apply_job"]


class _TracedReaction(CurrentReaction):
    """Traces the lines of one reaction."""

    __slots__ = ("_running", "_traced", "steps")

    def __init__(self, traced: int) -> None:
        self._traced = traced
        self._running: tuple[int, Note, RunningAgent | None] | None = None
        self.steps: list[Step] = []
        super().__init__()

    @property
    def running(self) -> tuple[int, Note, RunningAgent | None] | None:
        """Position, notification and agent of the reaction; None between reactions."""
        return self._running

    @running.setter
    def running(self, value: tuple[int, Note, RunningAgent | None] | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._running = value
        wanted = value is not None and value[0] == self._traced and value[2] is not None
        sys.settrace(self._trace if wanted else None)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        name = str(frame.f_globals.get("__name__", ""))
        top = name.partition(".")[0]
        file = frame.f_code.co_filename
        if top in sys.stdlib_module_names or top == "quorate" or "site-packages" in file or file[:1] == "<":
            return None
        if event in ("line", "return") and len(self.steps) < MAX_STEPS:
            variables = ", ".join(f"{key}={stable_text(each)}" for key, each in frame.f_locals.items())
            self.steps.append(Step(file, frame.f_lineno, frame.f_code.co_qualname, variables))
        return self._trace


def apply_job(job: Job) -> JobResult:
    """Apply the entries of a job, in this process."""
    for name, file in job.modules.items():
        _import(name, file)
    settings = msgspec.convert(job.settings, EngineSettings)
    engine = Engine(job.server, job.names, settings, routes=job.routes)
    traced = _TracedReaction(job.traced)
    engine.current = traced
    found: list[EntryResult] = []
    for index, now_ns, payload in job.entries:
        effects = engine.apply(index, now_ns, payload)
        reactions = [_result(engine, reaction) for reaction in effects.trace]
        found.append(EntryResult(index, reactions, effects.chain + engine.digest()))
    return JobResult(found, traced.steps)


def _result(engine: Engine, reaction: Reaction) -> ReactionResult:
    method: tuple[str, int, str] = ("", 0, "")
    cell = engine.find(reaction.agent)
    handler = None if cell is None else cell.spec.handlers.get(reaction.type)
    code = getattr(None if handler is None else handler[0], "__code__", None)
    if code is not None:
        method = (code.co_filename, code.co_firstlineno, code.co_qualname)
    return ReactionResult(
        reaction.position, reaction.cls, reaction.type, reaction.outputs, reaction.error, method
    )


def _import(name: str, file: str) -> None:
    """Import a module by its name, or else from its file."""
    try:
        importlib.import_module(name)
    except ImportError:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def main() -> None:
    """Apply the job on standard input. What agents print goes to the standard errors."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    try:
        result = apply_job(job)
    except Exception as error:
        result = JobResult([], [], ": ".join(described(error)))
    answers.write(msgspec.msgpack.encode(result))
    answers.close()


if __name__ == "__main__":
    main()
