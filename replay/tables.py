"""Reports as tables for people and as JSON for programs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .exactly_once import ExactlyOnceReport
from .failovers import FailoverReport
from .hot import HotReport
from .reports import Report, RerunReport, ServerReport, Span, Totals, spans

__all__ = [
    "MAX_PROBLEMS",
    "accounts_table",
    "as_json",
    "failovers_table",
    "hot_table",
    "loads_table",
    "print_agreement",
    "print_notes",
    "print_problems",
    "rerun_table",
    "totals_table",
    "verify_table",
]

MAX_PROBLEMS = 20


def as_json(value: Any) -> str:
    """Return reports, or a dict of them, as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(plain(value)), indent=2).decode()


def plain(value: Any) -> Any:
    """Return a report as values that JSON has; a span becomes [first, last]."""
    if isinstance(value, Span):
        return [value.first, value.last]
    fields: Any = getattr(value, "__attrs_attrs__", None)
    if fields is not None:
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {key: plain(item) for key, item in pairs.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value


def verify_table(report: Report) -> Table:
    """Return a table with one row per incarnation of a replica."""
    table = new_table("server", "replica", "incarnation")
    for title in ("first", "last", "rows"):
        table.add_column(title, justify="right")
    table.add_column("found")
    for server in report.servers:
        for source in server.sources:
            faults: list[str] = []
            if source.holes:
                faults.append(f"hole {spans(source.holes, 2)}")
            if source.duplicates:
                faults.append(f"twice {spans(source.duplicates, 2)}")
            table.add_row(
                Text(server.server),
                str(source.replica),
                str(source.incarnation),
                f"{source.span.first:,}",
                f"{source.span.last:,}",
                f"{source.rows:,}",
                Text(", ".join(faults), style="bold red") if faults else Text("whole", style="green"),
            )
        table.add_row(Text(server.server), "all", "", "1", f"{server.last:,}", "", together(server))
    table.caption = f"{report.rows:,} rows, {report.files} files, {report.seconds:.1f} s"
    return table


def together(server: ServerReport) -> Text:
    """Return the faults of one server's replicas taken together."""
    faults: list[str] = []
    if server.divergence is not None:
        faults.append(f"they differ at {server.divergence.position}")
    if server.uncovered:
        faults.append(f"not covered: {spans(server.uncovered, 2)}")
    if faults:
        return Text(", ".join(faults), style="bold red")
    if not server.compared:
        return Text("covered; nothing compared", style="yellow")
    return Text(f"covered; {server.compared:,} positions compared", style="green")


def rerun_table(report: RerunReport) -> Table:
    """Return a table with one row per class of agents."""
    table = new_table("server", "class")
    for title in ("agents", "reactions", "raised", "as traced", "different", "not run"):
        table.add_column(title, justify="right")
    counts: dict[tuple[str, str], Counter[str]] = {}
    for agent in report.agents:
        count = counts.setdefault((agent.server, agent.cls), Counter())
        outcome = "not run" if agent.skipped else "different" if agent.diverged is not None else "as traced"
        count.update({"agents": 1, "reactions": agent.reactions, "raised": agent.errors, outcome: 1})
    for (server, cls), count in sorted(counts.items()):
        table.add_row(
            Text(server),
            Text(cls),
            f"{count['agents']:,}",
            f"{count['reactions']:,}",
            f"{count['raised']:,}",
            f"{count['as traced']:,}",
            Text(f"{count['different']:,}", style="bold red" if count["different"] else ""),
            Text(f"{count['not run']:,}", style="yellow" if count["not run"] else ""),
        )
    table.caption = f"{report.reactions:,} reactions run again in {report.seconds:.1f} s"
    return table


def accounts_table(audit: ExactlyOnceReport) -> Table:
    """Return a table with one row per pair of servers."""
    table = new_table("from agents of", "to agents of")
    for title in ("sent", "arrived", "under way", "waiting"):
        table.add_column(title, justify="right")
    for each in audit.accounts:
        counts = (each.sent, each.arrived, each.under_way, each.waiting)
        table.add_row(Text(each.server), Text(each.target), *(f"{number:,}" for number in counts))
    table.caption = f"{sum(each.arrived for each in audit.accounts):,} notifications, {audit.seconds:.1f} s"
    return table


def failovers_table(found: FailoverReport) -> Table:
    """Return a table with one row per change of the master."""
    table = new_table("server", "view", "after entry", "master", "silent for", "served after", "reason")
    for each in found.failovers:
        table.add_row(
            Text(each.server),
            each.view,
            f"{each.index:,}",
            f"{each.former} -> {each.master}",
            seconds(each.silence_s),
            seconds(each.takeover_s),
            Text(each.reason),
        )
    table.caption = f"changes of the master: {len(found.failovers):,}, {found.seconds:.1f} s"
    return table


def hot_table(found: HotReport) -> Table:
    """Return a table with one row per agent."""
    table = new_table("server", "agent", "class")
    for title in ("reactions", "raised", "time", "longest", "payload bytes", "caused"):
        table.add_column(title, justify="right")
    for each in found.agents:
        table.add_row(
            Text(each.server),
            each.agent,
            Text(each.cls),
            f"{each.reactions:,}",
            f"{each.errors:,}",
            seconds(each.busy_ns / 1e9 if each.busy_ns else None),
            f"{each.longest_ns / 1e3:,.0f} us" if each.longest_ns else "-",
            f"{each.payload_bytes:,}",
            f"{each.caused:,}",
        )
    return table


def loads_table(found: HotReport) -> Table:
    """Return a table with one row per server."""
    table = new_table("server")
    for title in ("reactions", "time", "most in a second", "room in the busiest second", "largest entry"):
        table.add_column(title, justify="right")
    for each in found.loads:
        room = each.headroom
        table.add_row(
            Text(each.server),
            f"{each.reactions:,}",
            seconds(each.busy_ns / 1e9 if each.busy_ns else None),
            f"{each.most_reactions:,}",
            "-" if room is None else f"{room:.0%}",
            f"{each.largest_entry:,}",
        )
    table.caption = f"{found.seconds:.1f} s"
    return table


def seconds(value: float | None) -> str:
    """Return seconds as text."""
    return "-" if value is None else f"{value:.3f} s"


def totals_table(found: Totals) -> Table:
    """Return a table with one row per server, class, kind and type."""
    table = new_table("server", "class", "kind", "type")
    for title in ("reactions", "raised", "agents", "payload bytes"):
        table.add_column(title, justify="right")
    for row in found.rows:
        table.add_row(
            Text(row.server),
            Text(row.cls or "-"),
            row.kind,
            Text(row.type),
            f"{row.reactions:,}",
            f"{row.errors:,}",
            f"{row.agents:,}",
            f"{row.payload_bytes:,}",
        )
    table.caption = f"{found.reactions:,} reactions, {found.errors:,} raised, {found.seconds:.1f} s"
    return table


def print_problems(screen: Console, problems: Sequence[str]) -> None:
    """Print the first problems, one a line."""
    for problem in problems[:MAX_PROBLEMS]:
        screen.print(Text(problem, style="bold red"), soft_wrap=True)
    if len(problems) > MAX_PROBLEMS:
        screen.print(f"and {len(problems) - MAX_PROBLEMS} more; --json lists them all.")


def print_notes(screen: Console, notes: Sequence[str]) -> None:
    """Print the first notes, one a line."""
    for note in notes[:MAX_PROBLEMS]:
        screen.print(Text(f"Note: {note}", style="yellow"), soft_wrap=True)
    if len(notes) > MAX_PROBLEMS:
        screen.print(f"and {len(notes) - MAX_PROBLEMS} more notes; --json lists them all.")


def print_agreement(screen: Console, report: Report, again: RerunReport | None) -> None:
    """Print what was compared and found equal, and nothing else."""
    lines = [f"{server.agreement}." for server in report.servers if server.agreement]
    if again is not None and again.reactions:
        lines.append(
            f"{again.reactions:,} reactions of {len(again.agents):,} agents, run again, did as traced."
        )
    for line in lines:
        screen.print(Text(line, style="green"), soft_wrap=True)


def new_table(*titles: str) -> Table:
    """Return a table without frames."""
    table = Table(box=None, pad_edge=False, caption_justify="left")
    for title in titles:
        table.add_column(title)
    return table
