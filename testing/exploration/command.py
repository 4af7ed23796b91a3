"""`quorate explore`: every order of events in small clusters."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs
import click

from ...hachannel import Channel
from ..channel.violation import Violation
from .explorer import START_STATES, Budget, explore

__all__ = ["command"]

WENT_WRONG = 1


def budget_of(_: click.Context, __: click.Parameter, value: str) -> dict[str, int]:
    """Parse a budget such as `crash=1,cut=0`."""
    budget: dict[str, int] = {}
    for item in filter(None, (each.strip() for each in value.split(","))):
        kind, _equals, number = item.partition("=")
        if kind not in attrs.fields_dict(Budget):
            known = ", ".join(attrs.fields_dict(Budget))
            raise click.BadParameter(f"there is no event {kind!r} to be counted. There are: {known}.")
        if not number.isdecimal():
            raise click.BadParameter(f"{item!r} is no number of events; write it as {kind}=1.")
        budget[kind] = int(number)
    return budget


def start_names(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of start states; none stands for all."""
    unknown = [name for name in value if name not in START_STATES]
    if unknown:
        raise click.BadParameter(
            f"there is no start {', '.join(unknown)}. There are: {', '.join(START_STATES)}."
        )
    return value or tuple(START_STATES)


@click.command(
    epilog="Exit status: 0 if no invariant is violated, 1 if one is, 2 for wrong usage. "
    "The last line of the output is one JSON object."
)
@click.argument("names", metavar="[START]...", nargs=-1, callback=start_names)
@click.option(
    "--states",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    help="So many states of each at most.",
)
@click.option(
    "--budget",
    callback=budget_of,
    default="",
    metavar="KIND=N,...",
    help="How often events may happen, where it is to differ from that of the start: crash=2,cut=0.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Shuffles the order in which it goes.")
@click.option("--list", "listing", is_flag=True, help="Print the starts and their budgets.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    states: int,
    budget: dict[str, int],
    seed: int,
    listing: bool,
    as_json: bool,
) -> None:
    """Execute every order of events from difficult states of small clusters, and check every step.

    START: the states to begin with, by default all. Complete means that all orders of all events within the
    budget were tried.
    """
    if listing:
        for name in names:
            start = START_STATES[name]
            allowed = attrs.asdict(attrs.evolve(start(Channel).budget, **budget))
            counts = ", ".join(f"{kind}={number}" for kind, number in allowed.items() if number)
            click.echo(f"{name:16} {(start.__doc__ or '').strip()} Budget: {counts or 'none'}.")
        return
    started = time.monotonic()
    found: list[dict[str, Any]] = []
    violations: list[dict[str, Any]] = []
    for name in names:
        try:
            explored = explore(
                name, states=states, budget=budget, seed=seed, progress=_progress(name, as_json)
            )
        except Violation as violation:
            violations.append(
                {
                    "start": name,
                    "invariant": violation.invariant,
                    "reason": str(violation),
                    "way": [line for line in violation.trace if not line.startswith(" ")],
                }
            )
            if not as_json:
                click.echo("\n".join(violation.trace))
                click.echo(f"{name}: {violation}")
            continue
        said = attrs.asdict(explored)
        said["budget"] = {kind: number for kind, number in said["budget"].items() if number}
        found.append(said)
        if not as_json:
            end = "complete" if explored.complete else f"cut at {explored.states}"
            click.echo(
                f"{name}: {explored.states} states, {explored.steps} steps, depth {explored.depth}, {end}"
            )
    summary = {
        "states": sum(said["states"] for said in found),
        "complete": not violations and all(said["complete"] for said in found),
        "violations": len(violations),
        "seconds": round(time.monotonic() - started, 1),
        "explored": found,
        "failures": violations,
    }
    click.echo(json.dumps(summary))
    if violations:
        ctx.exit(WENT_WRONG)


def _progress(name: str, quiet: bool) -> Callable[[int], None] | None:
    """Return a function that prints the number of states, if a terminal is there."""
    if quiet or not sys.stderr.isatty():
        return None
    return lambda states: click.echo(f"\r{name}: {states} states ", nl=False, err=True)
