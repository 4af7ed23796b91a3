"""What `quorate top` shows: figures of all servers, and how fast they change. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .terminal import short_bytes

__all__ = ["DestinationSample", "Order", "ReplicaSample", "Sample", "screen"]

GOOD: Final = ("master", "slave", "witness", "daemon")
MAX_PROBLEMS: Final = 6


class Order(StrEnum):
    """By what queues and topics are ordered, the greatest first."""

    MESSAGES = "messages"
    IN = "in/s"
    OUT = "out/s"
    DEAD = "dead"
    NAME = "name"


@attrs.frozen
class ReplicaSample:
    """One replica at one moment."""

    server: str
    replica: int
    role: str
    values: Mapping[str, Any]
    """What `quorate status --json` shows of it; empty if it does not answer."""


@attrs.frozen
class DestinationSample:
    """One queue or topic at one moment."""

    server: str
    kind: str
    name: str
    figures: Mapping[str, int]


@attrs.frozen
class Sample:
    """All servers at one moment."""

    at_s: float
    """On a clock that only goes on."""
    replicas: Sequence[ReplicaSample]
    destinations: Sequence[DestinationSample]
    problems: Sequence[str]


def _rate(now: Sample, before: Sample | None, value: Any, former: Any) -> float | None:
    """Return the change in a second of a number that only grows; None if it is not known."""
    passed_s = 0.0 if before is None else now.at_s - before.at_s
    if passed_s <= 0 or not isinstance(value, int) or not isinstance(former, int) or value < former:
        return None
    return (value - former) / passed_s


def _shown(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:.1f}" if 0 < rate < 10 else f"{rate:.0f}"


def screen(
    now: Sample, before: Sample | None, order: Order, rows: int, title: str, *, paused: bool
) -> RenderableType:
    """Return what is shown.

    rows: the lines that there are; queues and topics that do not fit are left out. title: the first line.
    """
    head = Text(title, style="bold")
    head.append("   q quit  o order  p pause", style="dim")
    if paused:
        head.append("   paused", style="yellow")
    problems = [Text(f"! {each}", style="red", no_wrap=True, overflow="ellipsis") for each in now.problems]
    more = len(problems) - MAX_PROBLEMS
    problems = problems[:MAX_PROBLEMS]
    if more > 0:
        problems.append(Text(f"! and {more} more: quorate status", style="red"))
    left = rows - len(now.replicas) - len(problems) - 5
    parts: list[RenderableType] = [head, *problems, Text(), _replicas(now, before), Text()]
    if now.destinations:
        parts.append(_destinations(now, before, order, max(1, left)))
    return Group(*parts)


def _replicas(now: Sample, before: Sample | None) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("replica")
    table.add_column("role")
    titles = (
        *("view", "lag", "clients", "reactions/s", "syncs/s", "agents", "queued", "backlog", "dead"),
        *("failed", "disk free", "up"),
    )
    for word in titles:
        table.add_column(word, justify="right")
    former = {} if before is None else {(each.server, each.replica): each.values for each in before.replicas}
    for each in now.replicas:
        values, known = each.values, former.get((each.server, each.replica), {})
        style = "bold green" if each.role == "master" else "" if each.role in GOOD else "bold red"
        if not values:
            table.add_row(f"{each.server}.{each.replica}", Text(each.role, style=style))
            continue
        same = known.get("pid") == values.get("pid")
        speeds = [
            _shown(_rate(now, before, values.get(key), known.get(key)) if same else None)
            for key in ("reactions", "syncs")
        ]
        counts = [
            _count(values.get(key))
            for key in ("agents", "queued", "backlog", "dead_letters", "failed_reactions")
        ]
        free = values.get("disk_free_bytes")
        table.add_row(
            f"{each.server}.{each.replica}",
            Text(each.role, style=style),
            *(_count(values.get(key)) for key in ("view", "lag", "connections")),
            *speeds,
            *counts,
            short_bytes(free) if isinstance(free, int) else "-",
            _duration(values.get("uptime_s")),
        )
    return table


def _count(value: Any) -> str:
    return "-" if value is None else str(value)


def _duration(seconds: Any) -> str:
    if not isinstance(seconds, int | float):
        return "-"
    whole = int(seconds)
    if whole >= 86400:
        return f"{whole // 86400}d{whole // 3600 % 24}h"
    return f"{whole // 3600}h{whole // 60 % 60:02}m" if whole >= 3600 else f"{whole // 60}m{whole % 60:02}s"


@attrs.frozen
class _Row:
    sample: DestinationSample
    in_s: float | None
    out_s: float | None

    def key(self, order: Order) -> tuple[float, str]:
        figures = self.sample.figures
        value = {
            Order.MESSAGES: float(figures.get("messages", 0)),
            Order.IN: self.in_s or 0.0,
            Order.OUT: self.out_s or 0.0,
            Order.DEAD: float(figures.get("dead", 0)),
            Order.NAME: 0.0,
        }[order]
        return -value, f"{self.sample.kind} {self.sample.name} {self.sample.server}"


def _destinations(now: Sample, before: Sample | None, order: Order, most: int) -> Table:
    former: dict[tuple[str, str, str], Mapping[str, int]] = {}
    for each in () if before is None else before.destinations:
        former[each.server, each.kind, each.name] = each.figures
    rows: list[_Row] = []
    for each in now.destinations:
        known = former.get((each.server, each.kind, each.name), {})
        speeds = [
            _rate(now, before, each.figures.get(key), known.get(key)) for key in ("received", "accepted")
        ]
        rows.append(_Row(each, *speeds))
    rows.sort(key=lambda row: row.key(order))
    table = Table(box=None, pad_edge=False)
    table.add_column("destination" + (" (by name)" if order is Order.NAME else ""))
    table.add_column("server")
    for title in ("messages", "size", "in/s", "out/s", "consumers", "producers", "blocked", "dead"):
        table.add_column(f"{title} v" if title == order.value else title, justify="right")
    for row in rows[:most]:
        figures = row.sample.figures
        table.add_row(
            Text(f"{row.sample.kind} {row.sample.name}", no_wrap=True, overflow="ellipsis"),
            row.sample.server,
            str(figures.get("messages", 0)),
            short_bytes(figures.get("bytes", 0)),
            _shown(row.in_s),
            _shown(row.out_s),
            *(str(figures.get(key, 0)) for key in ("consumers", "producers", "blocked_producers", "dead")),
        )
    if len(rows) > most:
        table.add_row(Text(f"and {len(rows) - most} more", style="dim"))
    return table
