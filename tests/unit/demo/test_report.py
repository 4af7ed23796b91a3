"""The report stands alone and says what was found."""

import re
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree as ET

import attrs
import pytest
from rich.console import Console

from quorate.demo import report
from quorate.demo.flights import HOURS, Numbers
from quorate.demo.result import Event, Result, Timeline, Verdict
from quorate.demo.screen import Screen
from quorate.demo.totals import Delivery, differences

pytest.importorskip("matplotlib")

AIRPORT: Numbers = {
    "count": 10,
    "cancelled": 1,
    "delay_sum": -27,
    **{f"flights_by_hour.{hour:02}": hour for hour in range(HOURS)},
    **{f"delay_by_hour.{hour:02}": hour * 3 for hour in range(HOURS)},
}
CARRIER: Numbers = {"count": 10, "delay_sum": 1234, "distance_sum": 56789}
TOTALS = {"EWR": AIRPORT, "LGA": AIRPORT, "UA": CARRIER}


def result(**changes: object) -> Result:
    timeline = Timeline(
        samples=[(at / 10, at * 40) for at in range(100)],
        probes=[(at / 50, 5.0 + at % 3) for at in range(500)],
        events=[
            Event(4.0, "killed", "s0.0, the master (pid 4711), killed by SIGKILL"),
            Event(4.6, "answered", "first answer"),
            Event(7.0, "back", "s0.0 is back as slave <1>"),
        ],
    )
    good = Result(
        rows=20,
        notifications=40,
        seconds=2.0,
        failover_ms=612.3,
        timeline=timeline,
        verdict=Verdict(TOTALS, TOTALS, TOTALS, (), Delivery(20, 0, 0), replicas_agree=True),
        airports=("EWR", "LGA"),
        carriers={"UA": "United & Co."},
        command_line="quorate demo --rows 20",
    )
    return attrs.evolve(good, **changes)  # type: ignore[arg-type]


def bad() -> Result:
    other = TOTALS | {"UA": CARRIER | {"count": 9}}
    found = tuple(differences([TOTALS, other, TOTALS]))
    verdict = Verdict(TOTALS, other, TOTALS, found, Delivery(20, 1, 2), False, ("s0: the replicas differ",))
    return result(verdict=verdict)


@pytest.mark.slow
def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = report.render(result())

    class Attributes(HTMLParser):
        found: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
            assert tag not in ("script", "link", "img", "iframe")

    parser = Attributes()
    parser.feed(page)
    assert all(value.startswith("#") for value in parser.found)
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}


def test_every_plot_is_well_formed_and_has_its_own_ids() -> None:
    page = report.render(result())

    plots = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(plots) == 3
    ids = [element.get("id") for plot in plots for element in ET.fromstring(plot).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for text in (
        "flights per second",
        "time, s",
        "wait for the answer, ms",
        "mean delay, min",
        "killed",
        "back",
    ):
        assert any(text in plot for plot in plots), text


def test_colours_of_the_plots_come_from_the_page() -> None:
    page = report.render(result())

    style, plots = page[: page.index("</style>")], page[page.index("<svg") :]
    assert "prefers-color-scheme: dark" in style
    assert set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", plots)) == set()
    assert {"--a", "--b", "--ink", "--line", "--bad", "--good"} <= set(re.findall(r"var\((--\w+)\)", plots))


def test_what_happened_and_names_are_escaped() -> None:
    page = report.render(result())

    assert "slave &lt;1&gt;" in page
    assert "UA United &amp; Co." in page


def test_a_good_run_says_so_and_a_bad_one_names_what_differs() -> None:
    assert "to the last digit" in report.render(result())
    page = report.render(bad())
    assert "Not equal: 1 totals differ; 1 notifications lost, 2 duplicated" in page
    assert "UA.count: 10 / 9 / 10" in page
    assert 'class="differ"' in page
    assert "s0: the replicas differ" in page


def test_a_run_without_a_kill_or_any_measurement_has_a_report_too() -> None:
    page = report.render(result(failover_ms=None, timeline=Timeline()))

    assert "lost its master" not in page
    assert page.count("<svg") == 3


def test_the_terminal_shows_the_three_ways_side_by_side() -> None:
    out = StringIO()
    Screen(Console(file=out, width=100)).tables(result())

    text = out.getvalue()
    assert re.search(r"UA\s+│\s+10 │\s+10 │\s+10 │\s+1,234 │\s+1,234 │\s+1,234", text)
    assert "0 lost, 0 duplicated, all 105 totals equal, the replicas agree" in text


def test_the_terminal_names_differences() -> None:
    out = StringIO()
    Screen(Console(file=out, width=100)).tables(bad())

    assert "differs: UA.count: 10 / 9 / 10" in out.getvalue()
    assert "1 lost, 2 duplicated, 1 totals DIFFER, the replicas do NOT agree" in out.getvalue()


def test_the_summary_has_the_keys_for_machines() -> None:
    assert result().summary("/tmp/r.html") == {
        "rows": 20,
        "notifications": 40,
        "seconds": 2.0,
        "notifications_per_s": 20.0,
        "failover_ms": 612.3,
        "lost": 0,
        "duplicated": 0,
        "totals_equal": True,
        "replicas_agree": True,
        "report": "/tmp/r.html",
    }
