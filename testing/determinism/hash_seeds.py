"""A log applied again in processes with different hash seeds, and the first line that ends otherwise.

The order of a set of text, `hash` of text and addresses differ between processes. Two processes that apply
the same entries and come to different results show that reactions depend on them.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ...agents import Agent
from .findings import Finding, NondeterministicReaction
from .rerun_log import Job, JobResult, ReactionResult, Step

__all__ = ["HASH_SEEDS", "HashSeedError", "check_hash_seeds", "modules_of"]

HASH_SEEDS: Final = (0, 1, 2, 3)
"""The hash seeds of the processes, unless a test gives others."""
TIMEOUT_S: Final = 120.0


class HashSeedError(Exception):
    """The log could not be applied in another process. The text is one sentence."""


def modules_of(classes: Iterable[type[Agent]]) -> dict[str, str]:
    """Return the modules of agent classes and their files.

    Raises HashSeedError for a class that another process cannot import.
    """
    modules: dict[str, str] = {}
    for cls in classes:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__ or file is None:
            raise HashSeedError(
                f"{cls.__module__}:{cls.__qualname__} cannot be imported in another process; define it in "
                "a module, outside of functions"
            )
        if not cls.__module__.startswith("quorate."):
            modules[cls.__module__] = file
    return modules


def check_hash_seeds(job: Job, seeds: Sequence[int] = HASH_SEEDS) -> None:
    """Apply the entries of a job in one process for each seed, and compare them.

    Raises NondeterministicReaction for the first reaction that ends otherwise in one of them, HashSeedError
    if the entries cannot be applied there.
    """
    results = _run(job, seeds)
    for seed, result in zip(seeds[1:], results[1:], strict=True):
        found = _first_difference(results[0], result)
        if found is not None:
            pair = (seeds[0], seed)
            one, other = _run(msgspec.structs.replace(job, traced=found.position), pair)
            raise NondeterministicReaction([_finding(found, pair, _place(one.steps, other.steps))])


def _run(job: Job, seeds: Sequence[int]) -> list[JobResult]:
    """Apply a job in several processes at the same time."""
    command = [sys.executable, "-m", "quorate.testing.determinism.replica_process"]
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
        )
        for seed in seeds
    ]
    data = msgspec.msgpack.encode(job)
    results: list[JobResult] = []
    try:
        # A process reads all of its input before it writes, so they can be fed one after the other.
        for process in processes:
            answer, errors = process.communicate(data, TIMEOUT_S)
            results.append(_read(answer, errors))
    except subprocess.TimeoutExpired:
        raise HashSeedError(
            f"the log was not applied again within {TIMEOUT_S:g} s; check a shorter one"
        ) from None
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return results


def _read(answer: bytes, errors: bytes) -> JobResult:
    try:
        result = msgspec.msgpack.decode(answer, type=JobResult)
    except msgspec.DecodeError:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise HashSeedError(f"the process with another hash seed failed: {''.join(last)}") from None
    if result.failure:
        raise HashSeedError(f"the log cannot be applied in another process: {result.failure}")
    return result


def _first_difference(one: JobResult, other: JobResult) -> ReactionResult | None:
    for entry, again in zip(one.entries, other.entries, strict=True):
        for reaction, repeated in zip(entry.reactions, again.reactions, strict=False):
            if (reaction.outputs, reaction.error) != (repeated.outputs, repeated.error):
                return reaction
        if (entry.digest, len(entry.reactions)) != (again.digest, len(again.reactions)) and entry.reactions:
            # The state differs, not what was sent: the last reaction of an agent is the likeliest.
            return next((each for each in reversed(entry.reactions) if each.method[0]), entry.reactions[-1])
    return None


def _place(one: Sequence[Step], other: Sequence[Step]) -> Step | None:
    """Return the step after which two runs of a reaction differ."""
    for at, (step, again) in enumerate(zip(one, other, strict=False)):
        if step != again:
            before = [each for each in one[:at] if each.function == step.function]
            return before[-1] if before else one[at - 1] if at else step
    return None


def _finding(reaction: ReactionResult, seeds: tuple[int, int], place: Step | None) -> Finding:
    file, line, function = reaction.method
    if place is not None:
        file, line, function = place.file, place.line, place.function
    used = f"an order or a value that differs between processes (hash seeds {seeds[0]} and {seeds[1]})"
    return Finding(file, line, function, "order", used, reaction.cls, reaction.type)
