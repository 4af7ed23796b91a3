"""The results of the jobs as pages for people and as JSON for programs."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import attrs
import msgspec

from .chains import Chain, SlowestReport
from .exactly_once import ExactlyOnceReport
from .failovers import FailoverReport
from .garbage import GarbageReport
from .hot import HotReport, Moment
from .mesh_audit import MeshAudit
from .order import OrderReport
from .page import Bad, Good, Grid, Page, Plot, seconds
from .regression import BisectReport, RegressionReport
from .reports import AgentResult, Report, RerunReport, ServerReport, Span, Totals, spans
from .workload import WorkloadReport

__all__ = [
    "as_json",
    "bisect_page",
    "chain_page",
    "exactly_once_page",
    "failovers_page",
    "garbage_page",
    "hot_page",
    "order_page",
    "regress_page",
    "show_page",
    "slowest_page",
    "totals_page",
    "verify_page",
    "workload_page",
]

MAX_VALUE = 120
"""Characters of the value of an attribute that are shown."""


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
    clients = [
        (each.server, each.connections, each.accepted, each.arrived, each.again, each.early)
        for each in audit.clients
    ]
    titles = ("clients of", "connections", "sent", "arrived", "came again", "came too early")
    return Page(
        "Exactly once",
        [
            Grid(columns, rows, caption=f"{arrived:,} notifications, {audit.seconds:.1f} s"),
            Grid(titles, clients),
        ],
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
    return Page("Hot agents", grids, [plot, *timelines(found.timeline)])


def timelines(moments: Sequence[Moment]) -> list[Plot]:
    """Return how much each server did, and how much waited at most, over the time."""
    plots: list[Plot] = []
    for server in dict.fromkeys(each.server for each in moments):
        own = [each for each in moments if each.server == server]
        times = [(each.at_ns - moments[0].at_ns) / 1e9 for each in own]
        rates = {"reactions a second": [each.reactions / each.width_ns * 1e9 for each in own]}
        waiting = {"reactions of the largest entry": [float(each.largest_entry) for each in own]}
        label = "seconds from the beginning"
        plots.append(Plot(f"{server}: reactions a second", times, rates, label, "reactions a second"))
        plots.append(Plot(f"{server}: waiting at once", times, waiting, label, "reactions of an entry"))
    return plots


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


def mesh_page(found: MeshAudit) -> Page:
    """Return the page of `audit_mesh`."""
    topics = [
        (each.topic, each.messages, each.publishers, each.deliveries, each.again, each.waiting)
        for each in found.topics
    ]
    daemons = [
        (f"{each.server}/{each.daemon}", each.lives, each.killed, each.taken, each.delivered)
        for each in found.daemons
    ]
    names = ("topic", "messages", "publishers", "deliveries", "again", "waiting")
    grids = [
        Grid(names, topics, caption="deliveries to persistent subscriptions"),
        Grid(("daemon", "lives", "without end", "taken", "delivered"), daemons),
    ]
    agreed = ["Order, deliveries and what was removed are as they have to be."] if found.ok else []
    problems = [*found.doubts, *found.problems]
    return Page("Mesh", grids, problems=problems, notes=found.notes, agreement=agreed)


def order_page(found: OrderReport) -> Page:
    """Return the page of `order`."""
    rows = [(each.server, each.position, each.rule, Bad(each.text)) for each in found.disorders]
    pairs = f"between {found.pairs:,} pairs of agents"
    caption = f"{found.notifications:,} notifications {pairs}, {found.seconds:.1f} s"
    agreed = [] if found.problems else ["All notifications came in the order in which they were sent."]
    grid = Grid(("server", "position", "rule", "found"), rows, caption=caption)
    return Page("Order", [grid], problems=found.doubts, agreement=agreed)


def chain_page(found: Chain) -> Page:
    """Return the page of `chain`: a tree, by indentation."""
    top = min((hop.depth for hop in found.hops), default=0)
    rows = [
        (
            "  " * (hop.depth - top) + hop.type,
            hop.server,
            hop.position,
            hop.agent,
            hop.cls or hop.kind,
            None if hop.latency_ns is None else milliseconds(hop.latency_ns),
            milliseconds(hop.at_ns - found.hops[0].at_ns),
            f"{hop.duration_ns / 1e3:,.0f} us" if hop.duration_ns else None,
            "timer" if hop.timer else hop.error or "",
        )
        for hop in found.hops
    ]
    columns = ("notification", "server", "position", "agent", "class", "after its cause", "at", "took", "")
    caption = f"{len(found.hops):,} reactions in {milliseconds(found.span_ns)}, {found.seconds:.1f} s"
    times = sorted((hop.at_ns - found.hops[0].at_ns) / 1e6 for hop in found.hops)
    counted = {"reactions": list(range(1, len(times) + 1))}
    plot = Plot("When the reactions came", times, counted, "milliseconds", "reactions so far")
    notes = [f"only the first {len(found.hops):,} reactions are listed"] if found.more else []
    return Page("Causes and effects", [Grid(columns, rows, caption=caption)], [plot], notes=notes)


def slowest_page(found: SlowestReport) -> Page:
    """Return the page of `slowest`."""
    paths = [
        (
            each.server,
            each.position,
            each.type,
            each.agent,
            milliseconds(each.span_ns),
            each.hops,
            each.reactions,
        )
        for each in found.paths
    ]
    types = [
        (
            each.type,
            each.chains,
            each.hops,
            milliseconds(each.median_ns),
            milliseconds(each.p99_ns),
            milliseconds(each.longest_ns),
        )
        for each in found.types
    ]
    columns = ("server", "position", "notification", "agent", "until the last", "hops", "reactions")
    titles = ("chains that begin with", "chains", "hops", "median", "99 of 100", "longest")
    plot = Plot(
        "Time until the last reaction",
        [each.type for each in found.types],
        {
            "median": [each.median_ns / 1e6 for each in found.types],
            "99 of 100": [each.p99_ns / 1e6 for each in found.types],
            "longest": [each.longest_ns / 1e6 for each in found.types],
        },
        y_label="milliseconds",
        bars=True,
    )
    grids = [Grid(columns, paths), Grid(titles, types, caption=f"{found.seconds:.1f} s")]
    return Page("Slowest chains", grids, [plot])


def workload_page(found: WorkloadReport, target: Path) -> Page:
    """Return the page of `workload`."""
    rows = [
        ("notifications from clients and timers", found.chains),
        ("notifications to agents", found.reactions),
        ("the most that one of them caused", found.largest - 1),
        ("agents", found.agents),
        ("clients", found.connections),
        ("types of notifications", found.types),
        ("servers", found.servers),
        ("bytes of payloads", found.bytes),
        ("seconds", f"{found.span_s:,.3f}"),
    ]
    notes = [f"{found.left_out:,} later notifications are left out: see --rows"] if found.left_out else []
    caption = f"{target}, {found.seconds:.1f} s"
    return Page("Workload", [Grid(("", "in the load"), rows, caption=caption)], notes=notes)


def show_page(result: AgentResult, doubts: Sequence[str]) -> Page:
    """Return the page of `show`: the attributes of one agent."""
    rows = [(name, shown(value)) for name, value in (result.state or {}).items()]
    caption = f"{result.cls}, {result.reactions:,} reactions" + (", deleted" if result.deleted else "")
    problems = [*doubts, *([result.skipped] if result.skipped else ())]
    if result.diverged is not None:
        problems.append(f"at position {result.diverged}: {result.difference}")
    title = f"{result.server}: {result.agent} after position {result.last:,}"
    return Page(title, [Grid(("attribute", "value"), rows, caption=caption)], problems=problems)


def regress_page(found: RegressionReport) -> Page:
    """Return the page of `regress`."""
    rows = [
        (
            each.server,
            each.agent,
            each.cls,
            each.reactions,
            Bad(f"{each.different:,}") if each.different else 0,
            each.position,
            each.difference,
            ", ".join(f"{name}: {before!r} -> {after!r}" for name, (before, after) in each.state.items())[
                :200
            ],
        )
        for each in found.changes
    ]
    columns = (
        *("server", "agent", "class", "reactions", "different", "first at"),
        *("difference", "final state, before and after"),
    )
    caption = (
        f"{found.agents:,} agents, {found.reactions:,} reactions, {found.different:,} of them different, "
        f"{found.seconds:.1f} s"
    )
    agreed = (
        [] if found.problems else [f"{found.agents:,} agents did as traced, and ended in the same states."]
    )
    changed = Counter(each.cls for each in found.changes)
    plot = Plot(
        "Agents that do something else",
        list(changed),
        {"agents": list(changed.values())},
        y_label="agents",
        bars=True,
    )
    problems = [*found.doubts, *found.not_run]
    return Page(
        "New code on old traffic",
        [Grid(columns, rows, caption=caption)],
        [plot],
        problems,
        found.notes,
        agreed,
    )


def bisect_page(found: BisectReport) -> Page:
    """Return the page of `bisect`."""
    grids: list[Grid] = []
    for each in found.breaches:
        before, after = each.before or {}, each.after or {}
        rows = [
            (
                name,
                shown(before.get(name)),
                shown(after.get(name), changed=before.get(name) != after.get(name)),
            )
            for name in [*before, *(name for name in after if name not in before)]
        ]
        title = (
            f"{each.server}: position {each.position:,}, agent {each.agent} ({each.cls}), {each.type} from "
            f"{each.sender}" + (f", sent at position {each.cause:,}" if each.cause > 0 else "")
        )
        grids.append(Grid(("attribute", "before", "after"), rows, title))
    if grids:
        held = f"it held for {found.breached:,} of {found.agents:,} agents, {found.seconds:.1f} s"
        grids[-1] = attrs.evolve(grids[-1], caption=held)
    never = [] if grids or found.problems else [f"It never held for any of {found.agents:,} agents."]
    return Page("First time a condition held", grids, problems=found.problems, agreement=never)


def garbage_page(found: GarbageReport) -> Page:
    """Return the page of `garbage`."""
    idle = [
        (each.server, each.agent, each.cls, f"{each.idle_s:,.0f} s", each.reactions, each.state_bytes)
        for each in found.idle
    ]
    dead = [
        (each.server, each.type, each.reason, each.letters, each.agents, each.position) for each in found.dead
    ]
    kept = [
        (each.server, time_text(each.first_ns), time_text(each.end_ns), each.removed or None)
        for each in found.kept
    ]
    by_class = Counter(each.cls for each in found.idle)
    plot = Plot(
        "Idle agents by class",
        list(by_class),
        {"agents": list(by_class.values())},
        y_label="agents",
        bars=True,
    )
    more = f", and {found.more:,} more" if found.more else ""
    caption = f"{len(idle):,} idle agents{more}, of {found.live:,} with {found.live_bytes:,} bytes of state"
    grids = [
        Grid(("server", "agent", "class", "idle for", "reactions", "state bytes"), idle, caption=caption),
        Grid(("server", "sent", "reason", "dead letters", "addresses", "last at"), dead),
        Grid(("server", "trace from", "to", "removed up to"), kept, caption=f"{found.seconds:.1f} s"),
    ]
    return Page("What is left over", grids, [plot], notes=found.notes)


def shown(value: Any, *, changed: bool = False) -> object:
    """Return the value of an attribute as it can be shown."""
    text = str(value)[:MAX_VALUE]
    return Bad(text) if changed else text


def milliseconds(value: int) -> str:
    """Return nanoseconds as text."""
    return f"{value / 1e6:,.3f} ms"


def time_text(value: int) -> str:
    """Return a time in nanoseconds since 1970 as text."""
    return datetime.fromtimestamp(value // 1_000_000_000, UTC).isoformat(sep=" ")
