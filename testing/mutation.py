"""Breaking the channel on purpose, to see that a simulation notices.

A mutant is a context manager that removes or weakens one rule while it is entered::

    @mutant("one acknowledgement less commits an entry", caught=("I13",))
    def one_ack_short():
        with patched(Replication, "held", weaker):
            yield

A simulation that does not catch a mutant does not test its rule.
"""

import argparse
import contextlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import attrs

from .channel.violation import Violation
from .checks import CHECKERS
from .exploration.explorer import START_STATES, explore
from .schedules.parallel import spread
from .schedules.random_schedules import draw
from .schedules.schedule import Schedule
from .schedules.simulation import simulate

__all__ = [
    "MUTANTS",
    "Catch",
    "Mutant",
    "MutantError",
    "hunt",
    "hunt_in",
    "load",
    "mutant",
    "patched",
    "wrapped",
]

BESIDES = frozenset({"L1", "raised", "scenario"})
"""Names in `caught` that are not names of checkers."""
SEEDS = 300
"""The default number of seeds within which a mutant must be noticed."""


@attrs.frozen(kw_only=True)
class Mutant:
    """One way to break the channel."""

    name: str
    rule: str
    """The effect of the mutant, in one sentence."""
    area: str
    """The part of the channel, from the name of the file: `gate` for mutants_gate.py."""
    apply: Callable[[], contextlib.AbstractContextManager[None]]
    caught: tuple[str, ...] = ()
    """The invariants that must notice the mutant; random runs check no others. Empty for any."""
    seeds: int = SEEDS
    """The number of seeds, from 0 on, within which the mutant must be noticed."""
    scenario: Callable[[], None] | None = None
    """A written scenario that notices it where random runs seldom do. It passes without the mutant."""
    explore: str = ""
    """The name of the start state of the exploration that notices the mutant."""
    budget: Mapping[str, int] | None = None
    """Limits of the events of that exploration, in place of those of its start state."""
    states: int = 20_000
    """The number of explored states within which the mutant must be noticed."""
    schedule: Callable[[int], Schedule] = draw
    """Returns the schedule of a seed."""
    quick: bool = False
    """The test suite always hunts it: one mutant for each invariant, noticed within a few seeds."""


@attrs.frozen
class Catch:
    """The way in which a mutant was caught."""

    invariant: str
    """Its name; "scenario" when the written scenario failed by itself, "raised" when the code raised."""
    where: str
    """`seed 17`, or the name of the scenario or of the start of the exploration."""
    reason: str


PAGE = """# Mutants: which checker notices which broken rule

Each mutant breaks one rule of the channel, to test a checker: [mutation.md](mutation.md).
`make mutants MUTANTS_ARGS="--write docs/mutants.md"` writes this page. Noticed by: the invariant that failed
first. Where: the first seed from 0 on at which it failed, or the scenario, or the start of the exploration.
Limit: the seeds or states within which it must fail.

| mutant | area | what it does | noticed by | where | limit |
|---|---|---|---|---|---|
"""

MUTANTS: dict[str, Mutant] = {}
"""All mutants of the files loaded so far, by name."""


def mutant(rule: str, **options: Any) -> Callable[[Callable[[], Generator[None]]], Callable[[], Any]]:
    """Register a generator that breaks the rule, yields, and mends it. Options: fields of `Mutant`."""

    def register(function: Callable[[], Generator[None]]) -> Callable[[], Any]:
        name = function.__name__
        if name in MUTANTS:
            raise ValueError(f"there are two mutants named {name}: rename one")
        caught = options.get("caught", ())
        if isinstance(caught, str):
            raise ValueError(f"caught of {name} is {caught!r}: give a list of names, [{caught!r}]")
        unknown = sorted(set(caught) - CHECKERS.keys() - BESIDES)
        if unknown:
            raise ValueError(f"{name} is to be noticed by {', '.join(unknown)}: there is no such invariant")
        start = options.get("explore")
        if start and start not in START_STATES:
            raise ValueError(
                f"{name} is to be explored from {start!r}: there is no such start, but "
                f"{', '.join(START_STATES)}"
            )
        apply = contextlib.contextmanager(function)
        area = function.__module__.rpartition("mutants_")[2]
        MUTANTS[name] = Mutant(name=name, rule=rule, area=area, apply=apply, **options)
        return apply

    return register


@contextlib.contextmanager
def patched(target: Any, name: str, value: Any) -> Generator[None]:
    """Replace an attribute for a while."""
    original = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, original)


@contextlib.contextmanager
def wrapped(target: Any, name: str, around: Callable[..., Any]) -> Generator[None]:
    """Replace a function or method for a while by `around`, which gets the original before the arguments."""
    original = getattr(target, name)

    def call(*arguments: Any, **options: Any) -> Any:
        return around(original, *arguments, **options)

    with patched(target, name, call):
        yield


class MutantError(Exception):
    """A mutant, or a file of mutants, has an error. The text is a sentence that names the place."""


def _sentence(what: str, error: Exception) -> str:
    """Return a sentence with the error and the line of the file that raised it."""
    where = ""
    if isinstance(error, SyntaxError):
        where = f" (line {error.lineno})"
    elif frames := traceback.extract_tb(error.__traceback__):
        where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{what}: {type(error).__name__}: {text}{where}"


def load(paths: Sequence[Path]) -> None:
    """Import files of mutants, once each; their names begin with `mutants_`. Raises MutantError."""
    for path in paths:
        known = getattr(sys.modules.get(path.stem), "__file__", None)
        if path.stem in sys.modules:
            if known is None or Path(known).resolve() != path.resolve():
                raise MutantError(
                    f"{path} cannot be loaded: {known or 'a module of Python'} has the same name: rename one"
                )
            continue
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[path.stem]
            raise MutantError(_sentence(f"{path} cannot be loaded", error)) from error


def hunt(prey: Mutant, seeds: int | None = None) -> Catch | None:
    """Try to catch a mutant, within its own number of seeds or fewer; None when it escapes.

    Raises MutantError for one that cannot be applied, or uses a name that is not there.
    """
    try:
        return _hunt(prey, seeds)
    except Exception as error:
        raise MutantError(_sentence(f"mutant {prey.name} is wrong", error)) from error


def _hunt(prey: Mutant, seeds: int | None) -> Catch | None:
    if prey.scenario is not None:
        with prey.apply():
            try:
                prey.scenario()
            except Violation as violation:
                return Catch(violation.invariant, prey.scenario.__name__, str(violation))
            except AssertionError as error:
                return Catch("scenario", prey.scenario.__name__, str(error))
    limit = prey.seeds if seeds is None else min(seeds, prey.seeds)
    # The others are not asked: that a mutant leads to some other harm says nothing about those named.
    only = [name for name in prey.caught if name in CHECKERS] or None
    for seed in range(limit):
        with prey.apply():
            try:
                simulate(prey.schedule(seed), seed=seed, only=only)
            except Violation as violation:
                if isinstance(violation.__cause__, NameError):
                    # No rule is broken by a word that means nothing.
                    raise violation.__cause__ from None
                if not prey.caught or violation.invariant in prey.caught:
                    return Catch(violation.invariant, f"seed {seed}", str(violation))
    if prey.explore:
        with prey.apply():
            try:
                explore(prey.explore, states=prey.states, budget=prey.budget)
            except Violation as violation:
                return Catch(violation.invariant, f"explore {prey.explore}", str(violation))
    return None


def hunt_in(paths: Sequence[Path], name: str, seeds: int | None = None) -> tuple[Catch | None, float]:
    """Load files of mutants, and hunt one of them: how it was caught, and the seconds that took."""
    load(paths)
    started = time.monotonic()
    catch = hunt(MUTANTS[name], seeds)
    return catch, time.monotonic() - started


def row(prey: Mutant, catch: Catch | None) -> str:
    """The line of a mutant in docs/mutants.md."""
    limits = [f"{prey.seeds} seeds"] if prey.seeds and prey.scenario is None else []
    limits += ["a scenario"] if prey.scenario is not None else []
    limits += [f"{prey.states} states"] if prey.explore else []
    by, where = ("nobody", "") if catch is None else (catch.invariant, catch.where)
    rule = prey.rule.replace("|", "\\|")
    return f"| `{prey.name}` | {prey.area} | {rule} | {by} | {where} | {', '.join(limits)} |"


def write(page: Path, found: dict[str, str]) -> None:
    """Put rows into the page; those of mutants that are known and were not hunted stay."""
    before = page.read_text().splitlines() if page.exists() else []
    rows = {line.split("`")[1]: line for line in before if line.startswith("| `")}
    rows = {name: line for name, line in (rows | found).items() if name in MUTANTS}
    areas = {name: (MUTANTS[name].area, number) for number, name in enumerate(MUTANTS)}
    page.write_text(PAGE + "\n".join(rows[name] for name in sorted(rows, key=areas.__getitem__)) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt all mutants of some files, or those named, and print a table; returns 1 when one escapes.

    Ends with 2 and one sentence where it is used in a wrong way, or a mutant is wrong in itself.
    """
    parser = argparse.ArgumentParser(description="Break the channel on purpose, and see who notices.")
    parser.add_argument("files", nargs="+", type=Path, help="files named mutants_*.py")
    parser.add_argument("--only", nargs="*", action="extend", metavar="NAME", help="only these mutants")
    parser.add_argument("--area", help="only those of this file: gate for mutants_gate.py")
    parser.add_argument("--seeds", type=int, help="no more seeds than this for each")
    parser.add_argument("--jobs", type=int, choices=range(1, 65), metavar="N", default=1, help="processes")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put what was found into this page; its other rows stay"
    )
    options = parser.parse_args(arguments)
    for path in options.files:
        if path.suffix != ".py" or not path.is_file():
            parser.error(f"there is no Python file {path}")
    if options.write is not None and not options.write.absolute().parent.is_dir():
        parser.error(f"there is no directory for {options.write}")
    try:
        load(options.files)
    except MutantError as error:
        parser.error(str(error))
    areas = sorted({each.area for each in MUTANTS.values()})
    if options.area is not None and options.area not in areas:
        parser.error(f"there is no area {options.area}; there are: {', '.join(areas)}")
    unknown = sorted(set(options.only or ()) - MUTANTS.keys())
    if unknown:
        parser.error(f"no mutant is named {', '.join(unknown)}")
    escaped: list[str] = []
    prey = [
        each
        for each in MUTANTS.values()
        if (not options.only or each.name in options.only) and options.area in (None, each.area)
    ]
    if not prey:
        parser.error("no mutant is left to be hunted: check the files, --only and --area")
    print(f"{'mutant':36} {'caught by':11} {'where':28} {'limit':>6} {'s':>5}  rule broken")
    hunts = [(options.files, each.name, options.seeds) for each in prey]
    found = starmap(hunt_in, hunts) if options.jobs == 1 else spread(options.jobs, hunt_in, hunts)
    for each in prey:
        try:
            catch, took = next(found)
        except MutantError as error:
            parser.error(str(error))
        fits = catch is not None and (not each.caught or catch.invariant in each.caught)
        if not fits:
            escaped.append(each.name)
        by, where = ("ESCAPED", "") if catch is None else (catch.invariant, catch.where)
        if catch is not None and not fits:
            by += f" (not {'/'.join(each.caught)})"
        if options.write is not None:
            write(options.write, {each.name: row(each, catch)})
        print(f"{each.name:36} {by:11} {where:28} {each.seeds:6} {took:5.0f}  {each.rule}", flush=True)
    print(
        f"{len(prey) - len(escaped)} of {len(prey)} mutants caught" + "".join(f"; not {x}" for x in escaped)
    )
    return 1 if escaped else 0


if __name__ == "__main__":
    from . import mutation

    # The files import this module under its name: the table is there.
    sys.exit(mutation.main())
