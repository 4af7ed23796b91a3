"""The terminal output of the demo."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from .flights import Number
from .result import Result
from .totals import TotalsByAgent, overall

TERMINAL = (("flights", "count"), ("delay, min", "delay_sum"))
"""The numbers shown in the tables, heading and name; all numbers are compared."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="cyan")


class Screen:
    """Lines, a progress bar and the tables of a run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = time.monotonic()

    def show(self, text: str, style: str = "") -> None:
        """Print a line after the seconds since the start. May be called from any thread."""
        passed_s = time.monotonic() - self._began_s
        self._console.print(Text.assemble((f"{passed_s:6.1f} ", "dim"), (text, style)), soft_wrap=True)

    @contextmanager
    def progress(self, total: int) -> Generator[Callable[[int], None]]:
        """Show a bar for acknowledged flights; call the yielded function with their number so far."""
        bar = Progress(
            TextColumn("flights"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
        )
        task = bar.add_task("flights", total=total)
        with bar:
            yield lambda done: bar.update(task, completed=done)

    def tables(self, result: Result) -> None:
        """Print the totals side by side, then the verdict."""
        self._console.print(_table("Airports, agents of cluster s0", "airport", result.airports, result))
        self._console.print(
            _table("Carriers, agents of server s1", "carrier", tuple(result.carriers), result)
        )
        verdict = result.verdict
        for difference in verdict.differences[:20]:
            self.show(f"differs: {difference} (agents / traces / CSV)", "red")
        for remark in verdict.remarks[:20]:
            self.show(remark, "red")
        delivery = verdict.delivery
        failover = "" if result.failover_ms is None else f", failover {result.failover_ms:,.0f} ms"
        self.show(
            f"{result.notifications:,} notifications in {result.seconds:.1f} s "
            f"({result.notifications_per_s:,.0f}/s){failover}"
        )
        numbers = sum(len(each) for each in verdict.from_csv.values())
        agree = "agree" if verdict.replicas_agree else "do NOT agree"
        equal = (
            f"all {numbers} totals equal"
            if verdict.totals_equal
            else f"{len(verdict.differences)} totals DIFFER"
        )
        self.show(
            f"{delivery.lost} lost, {delivery.duplicated} duplicated, {equal}, the replicas {agree}",
            "bold green" if verdict.good else "bold red",
        )


def _table(title: str, kind: str, agents: tuple[str, ...], result: Result) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="", padding=(0, 1))
    table.add_column(kind)
    ways: tuple[tuple[str, TotalsByAgent], ...] = (
        ("agents", result.verdict.from_agents),
        ("traces", result.verdict.from_traces),
        ("CSV", result.verdict.from_csv),
    )
    for heading, _ in TERMINAL:
        for way, _ in ways:
            table.add_column(f"{heading}\n{way}", justify="right")
    for agent in agents:
        _row(table, agent, [[totals.get(agent, {}).get(name) for _, totals in ways] for _, name in TERMINAL])
    table.add_section()
    _row(table, "all", [[overall(totals, agents, name) for _, totals in ways] for _, name in TERMINAL])
    return table


def _row(table: Table, label: str, numbers: list[list[Number]]) -> None:
    cells = [
        Text("-" if value is None else f"{value:,}", style="" if len(set(same)) == 1 else "red")
        for same in numbers
        for value in same
    ]
    table.add_row(label, *cells)
