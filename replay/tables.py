"""The results of the jobs as pages for people and as JSON for programs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from .exactly_once import ExactlyOnceReport
from .failovers import FailoverReport
from .hot import HotReport
from .page import Bad, Good, Grid, Page, Plot, seconds
from .reports import Report, RerunReport, ServerReport, Span, Totals, spans

__all__ = ["as_json", "exactly_once_page", "failovers_page", "hot_page", "totals_page", "verify_page"]


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


def verify_page(
    report: Report, again: RerunReport | None, problems: Sequence[str], notes: Sequence[str]
) -> Page:
    """Return the page of `verify`, with the rerun if there was one."""
    grids = [sources_grid(report)]
    if again is not None:
        grids.append(rerun_grid(again))
    rows: Counter[str] = Counter()
    for server in report.servers:
        for source in server.sources:
            rows[f"{server.server} replica {source.replica}"] += source.rows
    plot = Plot("Rows of each replica", list(rows), {"rows": list(rows.values())}, y_label="rows", bars=True)
    return Page(
        "Verification of traces",
        grids,
        [plot],
        problems,
        notes,
        [] if problems else agreement(report, again),
        report.program,
    )


def sources_grid(report: Report) -> Grid:
    """Return a table with one row per incarnation of a replica."""
    rows: list[tuple[object, ...]] = []
    for server in report.servers:
        for source in server.sources:
            faults: list[str] = []
            if source.holes:
                faults.append(f"hole {spans(source.holes, 2)}")
            if source.duplicates:
                faults.append(f"twice {spans(source.duplicates, 2)}")
            found = Bad(", ".join(faults)) if faults else Good("whole")
            span = source.span
            number = str(source.incarnation)
            rows.append(
                (server.server, str(source.replica), number, span.first, span.last, source.rows, found)
            )
        rows.append((server.server, "all", "", 1, server.last, "", together(server)))
    caption = f"{report.rows:,} rows, {report.files} files, {report.seconds:.1f} s"
    columns = ("server", "replica", "incarnation", "first", "last", "rows", "found")
    return Grid(columns, rows, caption=caption)


def together(server: ServerReport) -> Good | Bad | str:
    """Return the faults of one server's replicas taken together."""
    faults: list[str] = []
    if server.divergence is not None:
        faults.append(f"they differ at {server.divergence.position}")
    if server.uncovered:
        faults.append(f"not covered: {spans(server.uncovered, 2)}")
    if faults:
        return Bad(", ".join(faults))
    if not server.compared:
        return "covered; nothing compared"
    return Good(f"covered; {server.compared:,} positions compared")


def agreement(report: Report, again: RerunReport | None) -> list[str]:
    """Return what was compared and found equal, and nothing else."""
    lines = [f"{server.agreement}." for server in report.servers if server.agreement]
    if again is not None and again.reactions:
        lines.append(
            f"{again.reactions:,} reactions of {len(again.agents):,} agents, run again, did as traced."
        )
    return lines


def rerun_grid(report: RerunReport) -> Grid:
    """Return a table with one row per class of agents."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for agent in report.agents:
        count = counts.setdefault((agent.server, agent.cls), Counter())
        outcome = "not run" if agent.skipped else "different" if agent.diverged is not None else "as traced"
        count.update({"agents": 1, "reactions": agent.reactions, "raised": agent.errors, outcome: 1})
    rows = [
        (
            server,
            cls,
            *(count[name] for name in ("agents", "reactions", "raised", "as traced")),
            Bad(f"{count['different']:,}") if count["different"] else 0,
            count["not run"],
        )
        for (server, cls), count in sorted(counts.items())
    ]
    caption = f"{report.reactions:,} reactions run again in {report.seconds:.1f} s"
    titles = ("server", "class", "agents", "reactions", "raised", "as traced", "different", "not run")
    return Grid(titles, rows, caption=caption)


def exactly_once_page(audit: ExactlyOnceReport) -> Page:
    """Return the page of `exactly_once`."""
    rows = [
        (each.server, each.target, each.sent, each.arrived, each.under_way, each.waiting)
        for each in audit.accounts
    ]
    columns = ("from agents of", "to agents of", "sent", "arrived", "under way", "waiting")
    arrived = sum(each.arrived for each in audit.accounts)
    ways = [f"{each.server} to {each.target}" for each in audit.accounts]
    lines = {
        "sent": [float(each.sent) for each in audit.accounts],
        "arrived": [float(each.arrived) for each in audit.accounts],
    }
    return Page(
        "Exactly once",
        [Grid(columns, rows, caption=f"{arrived:,} notifications, {audit.seconds:.1f} s")],
        [Plot("Notifications", ways, lines, y_label="notifications", bars=True)],
        audit.problems,
        audit.notes,
    )


def failovers_page(found: FailoverReport) -> Page:
    """Return the page of `failovers`."""
    rows = [
        (
            each.server,
            each.view,
            each.index,
            f"{each.former} -> {each.master}",
            seconds(each.silence_s),
            seconds(each.takeover_s),
            each.reason,
        )
        for each in found.failovers
    ]
    columns = ("server", "view", "after entry", "master", "silent for", "served after", "reason")
    caption = f"changes of the master: {len(found.failovers):,}, {found.seconds:.1f} s"
    timed = [each for each in found.failovers if each.silence_s is not None]
    plot = Plot(
        "Seconds without a reaction",
        [f"{each.server}, view {each.view}" for each in timed],
        {"silent for": [each.silence_s or 0.0 for each in timed]},
        y_label="seconds",
        bars=True,
    )
    return Page("Failovers", [Grid(columns, rows, caption=caption)], [plot], found.problems, found.notes)


def hot_page(found: HotReport) -> Page:
    """Return the page of `hot`."""
    agents = [
        (
            each.server,
            each.agent,
            each.cls,
            each.reactions,
            each.errors,
            seconds(each.busy_ns / 1e9 if each.busy_ns else None),
            f"{each.longest_ns / 1e3:,.0f} us" if each.longest_ns else "-",
            each.payload_bytes,
            each.caused,
        )
        for each in found.agents
    ]
    columns = (
        "server",
        "agent",
        "class",
        "reactions",
        "raised",
        "time",
        "longest",
        "payload bytes",
        "caused",
    )
    loads = [
        (
            each.server,
            each.reactions,
            seconds(each.busy_ns / 1e9 if each.busy_ns else None),
            each.most_reactions,
            None if each.headroom is None else f"{each.headroom:.0%}",
            each.largest_entry,
        )
        for each in found.loads
    ]
    titles = (
        "server",
        "reactions",
        "time",
        "most in a second",
        "room in the busiest second",
        "largest entry",
    )
    busiest = found.agents[:20]
    plot = Plot(
        "Time of the busiest agents",
        [f"{each.server} {each.agent}" for each in busiest],
        {"seconds": [each.busy_ns / 1e9 for each in busiest]},
        y_label="seconds",
        bars=True,
    )
    grids = [Grid(columns, agents), Grid(titles, loads, caption=f"{found.seconds:.1f} s")]
    return Page("Hot agents", grids, [plot])


def totals_page(found: Totals) -> Page:
    """Return the page of `totals`."""
    rows = [
        (
            row.server,
            row.cls or None,
            row.kind,
            row.type,
            row.reactions,
            row.errors,
            row.agents,
            row.payload_bytes,
        )
        for row in found.rows
    ]
    columns = ("server", "class", "kind", "type", "reactions", "raised", "agents", "payload bytes")
    caption = f"{found.reactions:,} reactions, {found.errors:,} raised, {found.seconds:.1f} s"
    most = sorted(found.rows, key=lambda row: -row.reactions)[:20]
    plot = Plot(
        "Reactions by type of notification",
        [f"{row.server} {row.type}" for row in most],
        {"reactions": [float(row.reactions) for row in most]},
        y_label="reactions",
        bars=True,
    )
    return Page("Totals", [Grid(columns, rows, caption=caption)], [plot])
