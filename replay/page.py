"""What a job shows: tables, plots and sentences, for a terminal and as one HTML file."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import ReplayError

__all__ = ["MAX_PROBLEMS", "Bad", "Good", "Grid", "Page", "Plot", "print_page", "seconds", "write_html"]

MAX_PROBLEMS = 20
"""Problems, notes and the like that a terminal shows; JSON and HTML have all of them."""
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid #ddd }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.bad { color: #b00020; font-weight: 600 } .good { color: #1b6e2e } .note { color: #7a5b00 }
caption { caption-side: bottom; text-align: left; color: #666 } svg { max-width: 100%; height: auto }
"""


@attrs.frozen
class Bad:
    """A value that is a fault."""

    text: str


@attrs.frozen
class Good:
    """A value that says that all is well."""

    text: str


@attrs.frozen
class Grid:
    """A table. Numbers are shown with separators, and None as a dash."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    title: str = ""
    caption: str = ""


@attrs.frozen
class Plot:
    """A picture of numbers over others, or over names."""

    title: str
    x: Sequence[Any]
    lines: Mapping[str, Sequence[float]]
    """The numbers by their name."""
    x_label: str = ""
    y_label: str = ""
    bars: bool = False
    """Whether `x` are names."""


@attrs.frozen
class Page:
    """The result of a job as people see it."""

    title: str
    grids: Sequence[Grid] = ()
    plots: Sequence[Plot] = ()
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    agreement: Sequence[str] = ()
    """What was found equal, if there is no problem."""
    program: str = ""
    """What has read the traces."""


def seconds(value: float | None) -> str:
    """Return seconds as text."""
    return "-" if value is None else f"{value:.3f} s"


def print_page(screen: Console, page: Page) -> None:
    """Print tables, and the first problems and notes."""
    for grid in page.grids:
        if grid.rows:
            screen.print(rich_table(grid))
        elif grid.caption:
            screen.print(grid.caption, highlight=False)
    sentences(screen, page.problems, "bold red", "", "")
    sentences(screen, page.notes, "yellow", "Note: ", " notes")
    for line in page.agreement:
        screen.print(Text(line, style="green"), soft_wrap=True)
    if page.program:
        screen.print(Text(f"The traces were read by {page.program}.", style="dim"), soft_wrap=True)


def sentences(screen: Console, found: Sequence[str], style: str, prefix: str, noun: str) -> None:
    """Print some sentences, one a line."""
    for sentence in found[:MAX_PROBLEMS]:
        screen.print(Text(prefix + sentence, style=style), soft_wrap=True)
    if len(found) > MAX_PROBLEMS:
        screen.print(f"and {len(found) - MAX_PROBLEMS} more{noun}; --json lists them all.")


def rich_table(grid: Grid) -> Table:
    """Return a table without frames."""
    table = Table(
        box=None, pad_edge=False, caption_justify="left", title=grid.title or None, title_justify="left"
    )
    for at, title in enumerate(grid.columns):
        right = any(is_number(row[at]) for row in grid.rows)
        table.add_column(title, justify="right" if right else "left")
    for row in grid.rows:
        table.add_row(*(rich_text(value) for value in row))
    table.caption = grid.caption or None
    return table


def is_number(value: object) -> bool:
    """Return whether a value stands at the right of its column."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def rich_text(value: object) -> Text:
    """Return a value for the terminal."""
    style = "bold red" if isinstance(value, Bad) else "green" if isinstance(value, Good) else ""
    return Text(shown(value), style=style)


def shown(value: object) -> str:
    """Return a value as text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return value.text if isinstance(value, Bad | Good) else str(value)


def write_html(path: Path, page: Page) -> None:
    """Write a page as one HTML file that needs no other one. Raises ReplayError."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(page.title)}</h1>",
    ]
    parts += [f"<p class='bad'>{escape(each)}</p>" for each in page.problems]
    parts += [f"<p class='good'>{escape(each)}</p>" for each in page.agreement]
    parts += [f"<p class='note'>Note: {escape(each)}</p>" for each in page.notes]
    parts += [picture(plot) for plot in page.plots if len(plot.x)]
    parts += [html_table(grid) for grid in page.grids if grid.rows or grid.caption]
    if page.program:
        parts.append(f"<p>The traces were read by {escape(page.program)}.</p>")
    try:
        path.write_text("\n".join([*parts, "</body></html>"]), encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"the report cannot be written: {error}.") from error


def html_table(grid: Grid) -> str:
    """Return a table as HTML."""
    head = "".join(f"<th>{escape(title)}</th>" for title in grid.columns)
    lines = [f"<h2>{escape(grid.title)}</h2>" if grid.title else "", "<table>"]
    lines += [f"<caption>{escape(grid.caption)}</caption>" if grid.caption else "", f"<tr>{head}</tr>"]
    lines += [f"<tr>{''.join(html_cell(value) for value in row)}</tr>" for row in grid.rows]
    return "\n".join([*lines, "</table>"])


def html_cell(value: object) -> str:
    """Return a value as a cell."""
    kind = "bad" if isinstance(value, Bad) else "good" if isinstance(value, Good) else ""
    kind = "number" if is_number(value) else kind
    return f"<td class='{kind}'>{escape(shown(value))}</td>" if kind else f"<td>{escape(shown(value))}</td>"


def picture(plot: Plot) -> str:
    """Return a plot as SVG."""
    figures: Any = import_module("matplotlib.figure")
    figure = figures.Figure(
        figsize=(10, max(3.2, 0.3 * len(plot.x)) if plot.bars else 3.2), layout="constrained"
    )
    axes = figure.subplots()
    if plot.bars:
        height = 0.8 / len(plot.lines)
        for at, (name, numbers) in enumerate(plot.lines.items()):
            axes.barh([place + at * height for place in range(len(plot.x))], numbers, height, label=name)
        axes.set_yticks(range(len(plot.x)), [str(each) for each in plot.x])
        axes.invert_yaxis()
        axes.set_xlabel(plot.y_label)
    else:
        for name, numbers in plot.lines.items():
            axes.plot(plot.x, numbers, label=name, linewidth=1.2)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
    if len(plot.lines) > 1:
        axes.legend()
    axes.set_title(plot.title, loc="left")
    axes.grid(visible=True, alpha=0.3)
    written = StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]
