"""The plots of the report, as SVG that takes its colours from the page.

Text stays text, and colours are written as CSS variables, so that a plot follows the light or dark mode of
the page it stands in.
"""

import io
import re
from typing import Any

from .flights import HOURS
from .result import Result

SERIES = ("--a", "--b", "--c")
"""CSS variables of the series, in order."""

_INK, _FAINT = "#010203", "#040506"
_PLACEHOLDERS = {_INK: "var(--ink)", _FAINT: "var(--line)", "#0a0b0c": "var(--bad)", "#0d0e0f": "var(--good)"}
_COLOURS = ("#111213", "#141516", "#171819")
_KILL, _BACK = "#0a0b0c", "#0d0e0f"
_WIDTH_IN, _HEIGHT_IN = 5.0, 3.0
_BIN_S = 0.5
_BEFORE_S, _AFTER_S = 4, 8
"""The time around the kill that the plot of the failover shows."""
_LABEL_WIDTH, _LABEL_LINES = 0.15, 3
"""The room for the label of an event: a share of the plot's width, and the number of label rows."""


def throughput(result: Result) -> str:
    """Plot the flights acknowledged per second, with the kill and the return of the replica."""
    figure, axes = _figure()
    times, rates = _rates(result.timeline.samples)
    axes.fill_between(times, rates, step="mid", color=_COLOURS[0], alpha=0.18, linewidth=0)
    axes.step(times, rates, where="mid", color=_COLOURS[0], linewidth=1.6)
    axes.set_xlim(0, max(times, default=1) or 1)
    axes.set_ylim(0, max(rates, default=1) * 1.22 or 1)
    axes.yaxis.set_major_formatter(_plain)
    _mark(axes, result)
    axes.set_xlabel("time, s")
    axes.set_ylabel("flights per second")
    return _svg(figure, "throughput")


def answers(result: Result) -> str:
    """Plot the time that each probe waited for its acknowledgement, on a logarithmic scale."""
    figure, axes = _figure()
    probes = result.timeline.probes
    axes.plot([at for at, _ in probes], [wait for _, wait in probes], ".", color=_COLOURS[0], markersize=4)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(_plain)
    axes.yaxis.set_minor_formatter(_nothing)
    end_s = max((at for at, _ in probes), default=1) or 1
    if result.killed_s is None:
        axes.set_xlim(0, end_s)
    else:
        axes.set_xlim(max(0, result.killed_s - _BEFORE_S), min(end_s, result.killed_s + _AFTER_S))
    if result.killed_s is not None and result.failover_ms is not None:
        axes.plot([result.killed_s], [result.failover_ms], "o", color=_KILL, markersize=7)
    waits = [wait for _, wait in probes] or [1.0]
    axes.set_ylim(min(waits) * 0.6, max(waits) * 5)
    _mark(axes, result)
    axes.set_xlabel("time of sending, s")
    axes.set_ylabel("wait for the answer, ms")
    return _svg(figure, "answers")


def delays(result: Result) -> str:
    """Plot the mean departure delay by scheduled hour, a line per airport, from the agents' totals."""
    figure, axes = _figure()
    for place, airport in enumerate(result.airports):
        numbers = result.verdict.from_agents.get(airport, {})
        flown = [numbers.get(f"flights_by_hour.{hour:02}") or 0 for hour in range(HOURS)]
        sums = [numbers.get(f"delay_by_hour.{hour:02}") or 0 for hour in range(HOURS)]
        hours = [hour for hour in range(HOURS) if flown[hour]]
        means = [sums[hour] / flown[hour] for hour in hours]
        colour = _COLOURS[place % len(_COLOURS)]
        marker = "os^"[place % 3]
        axes.plot(hours, means, color=colour, linewidth=1.8, marker=marker, markersize=4.5, label=airport)
    axes.axhline(0, color=_FAINT, linewidth=1)
    axes.set_xticks(range(4, HOURS + 1, 2))
    axes.set_xlabel("scheduled hour of departure")
    axes.set_ylabel("mean delay, min")
    if result.airports:
        axes.legend(frameon=False, loc="upper left", labelcolor=_INK)
    return _svg(figure, "delays")


def _plain(value: float, _place: int) -> str:
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"


def _nothing(_value: float, _place: int) -> str:
    return ""


def _rates(samples: list[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """Return the mean rates of a counter over bins of half a second: (middle, per second)."""
    times: list[float] = []
    rates: list[float] = []
    if not samples:
        return times, rates
    begin_s, begin_count = samples[0]
    for at_s, count in samples[1:]:
        if at_s - begin_s >= _BIN_S:
            times.append((begin_s + at_s) / 2)
            rates.append((count - begin_count) / (at_s - begin_s))
            begin_s, begin_count = at_s, count
    return times, rates


def _mark(axes: Any, result: Result) -> None:
    """Draw a vertical line for each event, with a label at the top, below that of a close earlier one."""
    looks = {"killed": (_KILL, "-"), "back": (_BACK, "--"), "gone": (_KILL, ":")}
    left, right = axes.get_xlim()
    taken = [left - right] * _LABEL_LINES
    for event in result.timeline.events:
        if event.kind not in looks or not left <= event.at_s <= right:
            continue
        colour, style = looks[event.kind]
        axes.axvline(event.at_s, color=colour, linestyle=style, linewidth=1.4)
        width = _LABEL_WIDTH * (right - left)
        line = next((line for line, end in enumerate(taken) if end <= event.at_s), None)
        if line is None:
            continue
        taken[line] = event.at_s + width
        before = event.at_s > right - width
        axes.annotate(
            event.kind,
            (event.at_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-4 if before else 4, -4 - 14 * line),
            textcoords="offset points",
            ha="right" if before else "left",
            va="top",
            color=colour,
            fontweight="bold",
        )


def _figure() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
    axes: Any = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_FAINT)
    axes.tick_params(which="both", colors=_INK, labelsize=11)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    axes.xaxis.label.set_size(12)
    axes.yaxis.label.set_size(12)
    axes.grid(axis="y", color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Any, name: str) -> str:
    import matplotlib

    mpl: Any = matplotlib

    text = io.StringIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 11}
    with mpl.rc_context(settings):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r'font: ([^;"]*?)px [^;"]*', r"font-size: \1px", drawing)
    # Ids are unique in a page, and three plots stand in one.
    drawing = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', _opening(name), drawing, count=1)
    for number, colour in enumerate(_COLOURS):
        drawing = drawing.replace(colour, f"var({SERIES[number]})")
    for colour, variable in _PLACEHOLDERS.items():
        drawing = drawing.replace(colour, variable)
    return drawing


def _opening(name: str) -> str:
    return (
        rf'<svg class="plot" role="img" aria-labelledby="{name}-title" viewBox="\1" '
        r'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
