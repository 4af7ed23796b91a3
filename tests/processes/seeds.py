"""Campaigns of many plans, one after the other, by seed: of groups and of whole servers."""

import argparse
import contextlib
import itertools
import math
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from quorate.testing.servers.namespaces import Namespaces, NamespacesUnavailable

from .plans import Plan, draw
from .running import ROOT

if TYPE_CHECKING:
    from .campaign import Campaign

Kind: TypeAlias = "type[Campaign]"


@attrs.define
class Total:
    """Of many runs."""

    runs: int = 0
    counts: Counter[str] = attrs.field(factory=Counter[str])
    failed: list[str] = attrs.field(factory=list[str])

    def add(self, campaign: "Campaign") -> None:
        """Count a run that has ended, in whatever way."""
        self.runs += 1
        self.counts += campaign.figures()

    def __str__(self) -> str:
        what = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        return f"{self.runs} runs: {what}; {len(self.failed)} violations"


def cuts_allowed() -> bool:
    """Whether connections can be cut here, and why not on the standard error."""
    try:
        with Namespaces(1):
            return True
    except NamespacesUnavailable as error:
        print(f"without cuts: {error}", file=sys.stderr)
        return False


def run_plan(
    kind: Kind,
    plan: Plan,
    total: Total,
    *,
    broken: str = "",
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run a plan; returns what was wrong, or nothing. The files of a run that failed are kept."""
    place = Path(tempfile.mkdtemp(prefix=f"{kind.__name__.lower()}-{plan.seed}-"))
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Namespaces(plan.members)) if plan.net else None
        campaign = kind(plan, place, net, broken, say)
        wrong = ""
        try:
            campaign.run()
        except kind.failures as error:
            wrong = str(error)
        total.add(campaign)
    if wrong and not broken:
        return f"{wrong}\n  the files are in {place}"
    shutil.rmtree(place)
    return wrong


def run_many(
    kind: Kind,
    seeds: Iterable[int],
    seconds: float,
    *,
    until: float = math.inf,
    keep_going: bool = False,
    broken: str = "",
    module: str = "",
    say: Callable[[str], None] = print,
    **shape: Any,
) -> Total:
    """Run seeds one after the other, until that time of the monotonic clock or the first that fails.

    module: what runs a seed again; unless given, that of `kind`. shape: as for `draw`.
    """
    total = Total()
    for seed in seeds:
        if time.monotonic() >= until:
            break
        plan = draw(seed, seconds, **shape)
        say(str(plan))
        wrong = run_plan(kind, plan, total, broken=broken, say=say)
        if wrong:
            options = {"seed": seed, "seconds": seconds, **shape, "broken": broken or None}
            again = _again(module or kind.__module__, options)
            total.failed.append(f"seed {seed}: {wrong}\n  again: {again}")
            say(f"  WRONG: {total.failed[-1]}")
            if not keep_going:
                break
    return total


def _again(module: str, options: Mapping[str, object]) -> str:
    words = [f"python -m {module}"]
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif value is not None:
            words.append(f"--{name} {value}")
    return " ".join(words)


def _say_brief(line: str) -> None:
    if not line.startswith("  ") or "WRONG" in line:
        print(line, flush=True)


def main(
    kind: Kind, module: str, description: str, *, seconds: float = 12.0, members: int | None = None
) -> int:
    """Run seeds one after the other, as the command line says; the status is 1 when one of them failed.

    seconds, members: where the command line says nothing.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="seeds until so much time has passed")
    parser.add_argument("--seconds", type=float, default=seconds, help="of faults for each seed")
    parser.add_argument("--members", type=int, default=members, help="how many, not what the seed says")
    parser.add_argument("--mode", choices=["ALL", "MAJORITY"])
    parser.add_argument("--disk", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--net", action=argparse.BooleanOptionalAction, default=None, help="with namespaces")
    parser.add_argument("--broken", default="", help="what all are to break: see the class")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the first that fails")
    parser.add_argument("--brief", action="store_true", help="do not tell what happens")
    options = parser.parse_args()
    os.chdir(ROOT)
    seeds = itertools.count(options.seed)
    total = run_many(
        kind,
        seeds if options.minutes else itertools.islice(seeds, options.runs),
        options.seconds,
        until=time.monotonic() + 60 * options.minutes if options.minutes else math.inf,
        keep_going=options.keep_going,
        broken=options.broken,
        module=module,
        say=_say_brief if options.brief else print,
        members=options.members,
        mode=options.mode,
        disk=options.disk,
        net=options.net if options.net is False or cuts_allowed() else False,
    )
    print(total)
    return 1 if total.failed else 0
