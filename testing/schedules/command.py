"""`quorate simulate`: random clusters and faults, checked after every step."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..channel.violation import Violation
from ..checks import CHECKERS
from ..faults import FAULTS
from .parallel import spread
from .random_schedules import PROFILES, administered, draw
from .schedule import Schedule, ScheduleError, read
from .shrink import shrink
from .simulation import Result, simulate

__all__ = ["command"]

WENT_WRONG = 1
BATCH = 10
"""Seeds that a process of `--jobs` gets at a time."""
MAX_TRACES = 10
"""Violations that are printed in full; the others are counted."""


Counts = Counter[str]
Outcomes = Generator["Counts | Failure", None, None]


@attrs.frozen
class Failure:
    """A violation in a form that travels between processes."""

    seed: int
    invariant: str
    at: float
    reason: str
    trace: list[str]
    counts: Counts
    """The counts of the run until the violation."""


def seed_range(_: click.Context, __: click.Parameter, value: str) -> range:
    """`17` or `0:1000`."""
    first, colon, last = value.partition(":")
    try:
        seeds = range(int(first), int(last) if colon else int(first) + 1)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no range of seeds; write it as 17 or 0:1000.") from None
    if seeds and seeds[0] < 0:
        raise click.BadParameter(f"{value!r} begins below 0: seeds are whole numbers from 0.")
    if not seeds:
        raise click.BadParameter(f"{value!r} contains no seed: the second number is the first one left out.")
    return seeds


def fault_names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names of faults, separated by commas."""
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(","))
    random = [name for name, fault in FAULTS.items() if fault.weight or fault.apart]
    if not any(names):
        raise click.BadParameter(f"name at least one. There are: {', '.join(random)}.")
    if "" in names:
        raise click.BadParameter(f"a name is missing in {value!r}. There are: {', '.join(random)}.")
    unknown = [name for name in names if name not in random]
    if unknown:
        raise click.BadParameter(f"there is no fault {', '.join(unknown)}. There are: {', '.join(random)}.")
    return names


def place_of(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a file that could not be written when the run is over."""
    if value is not None:
        folder = value.absolute().parent
        if not folder.is_dir():
            raise click.BadParameter(f"there is no directory {folder}.")
        if not value.exists() and not os.access(folder, os.W_OK):
            raise click.BadParameter(f"nothing can be written in {folder}.")
    return value


@click.command(
    epilog="Exit status: 0 if no invariant is violated, 1 if one is, 2 for wrong usage. "
    "The last line of the output is one JSON object."
)
@click.option(
    "--seeds", callback=seed_range, default="0:100", show_default=True, help="17, or 0:1000 for 0 to 999."
)
@click.option(
    "--faults",
    callback=fault_names,
    metavar="NAME,...",
    help="Only these kinds of faults (see docs/simulation-reference.md).",
)
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="All clusters and faults of one kind (see docs/simulation-reference.md); by default by seed.",
)
@click.option("--disk", "with_disk", is_flag=True, help="All replicas have disks; by default by seed.")
@click.option("--memory", is_flag=True, help="No replica has a disk.")
@click.option(
    "--administrator",
    "with_administrator",
    is_flag=True,
    help="Replicas are added, removed and moved during the run.",
)
@click.option(
    "--schedule",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Play this schedule instead; with --seeds, once for each seed.",
)
@click.option(
    "--drop",
    metavar="N,...",
    default="",
    help="Leave out the faults at these positions of the schedule, from 0.",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option("--keep-going", is_flag=True, help="Go on after a violation.")
@click.option("--minimise/--no-minimise", default=True, help="Shorten the schedule of a failure (default).")
@click.option(
    "--save",
    metavar="FILE",
    callback=place_of,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the shortened schedule of the first failure to this file.",
)
@click.option("--trace", is_flag=True, help="Print the trace.")
@click.option("--messages", is_flag=True, help="Print the trace with every message.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    seeds: range,
    faults: tuple[str, ...] | None,
    profile: str | None,
    with_disk: bool,
    memory: bool,
    with_administrator: bool,
    path: Path | None,
    drop: str,
    jobs: int,
    keep_going: bool,
    minimise: bool,
    save: Path | None,
    trace: bool,
    messages: bool,
    as_json: bool,
) -> None:
    """Simulate clusters of replicas on a virtual clock, network and disk, and check every step.

    A seed decides everything: cluster, settings, network, faults. The same seed is the same run.
    """
    if with_disk and memory:
        raise click.UsageError("--disk and --memory exclude each other.")
    if path is not None and (faults is not None or profile is not None or with_disk or memory):
        raise click.UsageError(
            "A schedule has its own faults and disks: leave out --faults, --profile, --disk and --memory."
        )
    disk = with_disk if with_disk or memory else None
    plan = Plan(faults, profile, disk, None, path, _positions(drop), with_administrator)
    if path is not None:
        try:
            schedule, seed = read(path)
        except ScheduleError as error:
            raise click.UsageError(str(error)) from None
        try:
            schedule.must_recover()
        except ScheduleError as error:
            raise click.UsageError(f"{path}: {error}") from None
        plan = attrs.evolve(plan, schedule=schedule)
        if ctx.get_parameter_source("seeds") is click.core.ParameterSource.DEFAULT:
            seeds = range(seed, seed + 1)
    if (trace or messages) and jobs > 1:
        raise click.UsageError("--trace and --messages go with --jobs 1 only.")
    _check_drop(plan, seeds)
    _check_disks(plan, seeds)
    prints = not as_json
    started = time.monotonic()
    counts: Counts = Counter()
    failures: list[Failure] = []
    outcomes = (
        _alone(plan, seeds, trace and prints, messages and prints) if jobs == 1 else _many(plan, seeds, jobs)
    )
    console = Console(stderr=True)
    with closing(outcomes), _progress(console, quiet=as_json or trace or messages) as progress:
        task = progress.add_task("seeds", total=len(seeds), violations=0)
        for outcome in outcomes:
            counts["runs"] += 1
            if isinstance(outcome, Failure):
                failures.append(outcome)
            counts.update(outcome.counts if isinstance(outcome, Failure) else outcome)
            progress.update(task, advance=1, violations=len(failures))
            if failures and not keep_going:
                break
    summaries = [
        _summary(plan, failure, minimise=minimise and number < MAX_TRACES)
        for number, failure in enumerate(failures)
    ]
    if failures and save is not None:
        first = failures[0].seed
        try:
            save.write_bytes(plan.whole(first).without(summaries[0]["drop"]).to_json(first))
        except OSError as error:
            click.echo(
                f"{save} cannot be written: {error.strerror}. Play it with: {summaries[0]['rerun']}", err=True
            )
    if prints:
        for failure, found in zip(failures[:MAX_TRACES], summaries, strict=False):
            _print_failure(failure, found, traced=trace or messages)
    summary = {
        **{name: counts[name] for name in ("runs", "steps", "messages", "views", "commits", "delivered")},
        "violations": len(failures),
        "seconds": round(time.monotonic() - started, 1),
        "invariants": [*sorted(CHECKERS, key=lambda name: (len(name), name)), "L1"],
        "faults": {name: counts[f"fault {name}"] for name in FAULTS if counts[f"fault {name}"]},
        "skipped": counts["skipped"],
        "lost": counts["lost"],
        "reached": {
            name.removeprefix("reached "): count
            for name, count in sorted(counts.items())
            if name.startswith("reached ")
        },
        "failures": summaries,
    }
    click.echo(json.dumps(summary))
    if failures:
        ctx.exit(WENT_WRONG)


def _positions(drop: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in drop.split(",") if each.strip())
    except ValueError:
        raise click.UsageError(f"--drop takes numbers separated by commas, not {drop!r}.") from None


def _check_drop(plan: "Plan", seeds: range) -> None:
    """Refuse positions that a schedule does not have."""
    if not plan.drop:
        return
    for seed in seeds if plan.schedule is None else seeds[:1]:
        count = len(plan.whole(seed).faults)
        absent = [each for each in plan.drop if not 0 <= each < count]
        if absent:
            raise click.UsageError(
                f"--drop: there is no fault {', '.join(map(str, absent))} in the schedule of seed {seed}, "
                + (f"which has those from 0 to {count - 1}." if count else "which has none.")
            )


def _check_disks(plan: "Plan", seeds: range) -> None:
    """Refuse faults of disks where there are no disks."""
    if plan.faults is None or plan.disk or not all(FAULTS[name].disk for name in plan.faults):
        return
    reason = f"{', '.join(plan.faults)} can happen only with disks"
    if plan.disk is False:
        raise click.UsageError(f"{reason}: leave out --memory, or name other faults.")
    if not any(plan.whole(seed).shape.disk for seed in seeds):
        click.echo(
            f"No fault happens: {reason}, and no cluster of these seeds has any; add --disk.", err=True
        )


@attrs.frozen
class Plan:
    """The options that decide the schedule of every seed."""

    faults: tuple[str, ...] | None
    profile: str | None
    disk: bool | None
    schedule: Schedule | None
    path: Path | None
    """The file that `schedule` was read from."""
    drop: tuple[int, ...]
    with_administrator: bool = False

    def whole(self, seed: int) -> Schedule:
        """Return the schedule of a seed with all faults."""
        schedule = self.schedule or draw(seed, self.faults, disk=self.disk, profile=self.profile)
        return administered(schedule) if self.with_administrator else schedule

    def of(self, seed: int) -> Schedule:
        """Return the schedule of a seed without the dropped faults."""
        return self.whole(seed).without(self.drop)

    def arguments(self, seed: int, drop: Iterable[int]) -> str:
        """Return the command that runs a seed again."""
        words = ["quorate simulate", f"--seeds {seed}"]
        if self.path is not None:
            words.append(f"--schedule {self.path}")
        if self.faults is not None:
            words.append(f"--faults {','.join(self.faults)}")
        if self.profile is not None:
            words.append(f"--profile {self.profile}")
        if self.disk is not None:
            words.append("--disk" if self.disk else "--memory")
        if self.with_administrator:
            words.append("--administrator")
        left_out = ",".join(map(str, drop))
        return " ".join([*words, f"--drop {left_out}"] if left_out else words)


def _play(plan: Plan, seed: int, *, echo: bool = False, verbose: bool = False) -> Counts | Failure:
    try:
        result = simulate(plan.of(seed), seed=seed, echo=echo or verbose, verbose=verbose)
    except Violation as violation:
        counts = Counts() if violation.result is None else _counted(violation.result)
        return Failure(seed, violation.invariant, violation.at, str(violation), violation.trace, counts)
    return _counted(result)


def _counted(result: Result) -> Counts:
    counts: Counts = Counter({f"fault {name}": count for name, count in result.faults.items()})
    counts.update({f"reached {name}": count for name, count in result.reached.items()})
    for name in ("steps", "messages", "views", "commits", "delivered", "skipped", "lost"):
        counts[name] = getattr(result, name)
    return counts


def _alone(plan: Plan, seeds: Iterable[int], echo: bool, verbose: bool) -> Outcomes:
    for seed in seeds:
        yield _play(plan, seed, echo=echo, verbose=verbose)


def _batch(plan: Plan, seeds: range) -> list[Counts | Failure]:
    return [_play(plan, seed) for seed in seeds]


def _many(plan: Plan, seeds: range, jobs: int) -> Outcomes:
    batches = [(plan, seeds[start : start + BATCH]) for start in range(0, len(seeds), BATCH)]
    with closing(spread(jobs, _batch, batches)) as results:
        for batch in results:
            yield from batch


def _summary(plan: Plan, failure: Failure, *, minimise: bool) -> dict[str, Any]:
    """A failure for programs: what, where, and what plays it again."""
    summary: dict[str, Any] = {
        "seed": failure.seed,
        "invariant": failure.invariant,
        "at": round(failure.at, 6),
        "reason": failure.reason,
    }
    whole = plan.whole(failure.seed)
    dropped = set(plan.drop)
    if minimise:
        violation = Violation(failure.reason, invariant=failure.invariant, at=failure.at)
        violation.seed = failure.seed
        schedule = whole.without(plan.drop)
        positions = [number for number in range(len(whole.faults)) if number not in dropped]
        dropped.update(positions[number] for number in shrink(schedule, violation)[0])
    schedule = whole.without(dropped)
    summary["faults"] = [f"{fault.at:.4f} {fault}" for fault in schedule.faults]
    summary["drop"] = sorted(dropped)
    summary["rerun"] = plan.arguments(failure.seed, plan.drop)
    if dropped - set(plan.drop):
        summary["rerun_minimised"] = plan.arguments(failure.seed, sorted(dropped))
    return summary


def _print_failure(failure: Failure, summary: dict[str, Any], *, traced: bool) -> None:
    if not traced:
        for line in failure.trace:
            click.echo(line)
    click.echo(f"seed {failure.seed}, {failure.at:.4f} s: {failure.reason}")
    click.echo(f"run it again: {summary['rerun']} --trace")
    if "rerun_minimised" in summary:
        faults = summary["faults"]
        click.echo(f"the same invariant with {len(faults)} faults: {summary['rerun_minimised']} --trace")
        for fault in faults:
            click.echo(f"  {fault}")


def _progress(console: Console, *, quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[violations]} violations"),
        TimeElapsedColumn(),
        console=console,
        disable=quiet or not sys.stderr.isatty(),
    )
