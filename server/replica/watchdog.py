"""The watchdog: a thread that names an entry that takes long, and carries out orders to skip a reaction.

While a reaction runs, the reactor does nothing else: no heartbeat, no answer to `quorate status`, no line in
the log. Only another thread can do that, and not even that can while a reaction is in code that keeps the
interpreter's lock, such as a regular expression. A signal handler can, in the thread of the reaction.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from ...engine import Engine
from ..context import ReplicaContext
from ..storage.running_file import INTERRUPT_SIGNAL, RunningReport, remove_running, write_running
from ..storage.skip_orders import SkipOrder, SkipOrders
from .stall import Sample, StallDetector

__all__ = ["Watchdog"]

PERIOD_S: Final = 0.25


class Watchdog:
    """Watches the engine of the present incarnation: `start`, `watch` each engine, `stop` at the end."""

    def __init__(self, context: ReplicaContext, saved: Callable[[], int]) -> None:
        """`saved` returns the entry of the state on the disk, 0 if nothing is kept there."""
        self._context = context
        self._saved = saved
        self._engine: Engine | None = None
        self._orders = SkipOrders(context.directory)
        self._known: frozenset[SkipOrder] = frozenset()
        """Orders that the engine has."""
        self._doubtful: frozenset[SkipOrder] = frozenset()
        """Orders that came when their reaction seemed to be over."""
        self._skipped = 0
        """The position of the last skipped reaction that was reported."""
        self._detector = StallDetector()
        self._reported: RunningReport | None = None
        self._interrupts = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    # Calls from the thread of the engine

    def watch(self, engine: Engine) -> None:
        """Watch this engine, which has applied nothing yet, and give it the orders."""
        with self._lock:
            self._engine = engine
            self._skipped = 0
            self._known, self._doubtful = self._orders.read(), frozenset()
            self._give_orders(engine, self._known)

    def start(self) -> None:
        """Start the thread. It runs until `stop`, over all incarnations."""
        remove_running(self._context.directory)
        self._thread = threading.Thread(target=self._run, name="quorate-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        self._over.set()
        if thread is not None:
            thread.join()
            remove_running(self._context.directory)

    def handle_interrupts(self) -> None:
        """Let INTERRUPT_SIGNAL report a reaction, and interrupt it if it is to be skipped.

        Called in the main thread, which is the one that runs the reactions.
        """

        def handle(_number: int, _frame: FrameType | None) -> None:
            engine = self._engine
            if engine is not None and engine.current.running is not None:
                # The stack of the reaction may be nearly full: its outcome must not depend on this.
                with contextlib.suppress(RecursionError):
                    self._give_orders(engine, self._orders.read())
                engine.current.interrupt()
                with contextlib.suppress(RecursionError):
                    self._report_from_within(engine)

        signal.signal(INTERRUPT_SIGNAL, handle)
        self._interrupts = True

    def _report_from_within(self, engine: Engine) -> None:
        """Report the reaction from its own thread: the other one may not be able to run."""
        if self._reported is None:
            report = _report_of(engine, None)
            write_running(self._context.directory, report)
            self._reported = report

    # The thread

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Compare what runs with the last look, and report and do what is due."""
        with self._lock:
            engine = self._engine
            if engine is None:
                return
            self._read_orders(engine)
            self._interrupt(engine)
            current = engine.current
            if current.skipped != self._skipped:
                self._skipped = current.skipped
                self._context.announce(f"reaction {self._skipped} was skipped, as the administrator ordered")
            if self._detector.observe(now, Sample(current.entry, current.birth)):
                self._report(engine)
            elif self._reported is not None and not self._detector.reports:
                reported, self._reported = self._reported, None
                remove_running(self._context.directory)
                self._context.announce(f"entry {reported.entry} is over; this replica goes on")

    def _report(self, engine: Engine) -> None:
        context = self._context
        self._reported = report = _report_of(engine, self._detector.seconds)
        write_running(context.directory, report)
        line = (
            f"{report.sentence}; meanwhile this replica answers nobody: long work belongs outside of agents"
        )
        if report.position and self._detector.reports > 1:
            line += (
                ". To skip this reaction, on all replicas: "
                f"quorate skip {context.config.path} --server {context.server.name} {report.entry}"
            )
        context.announce(line)

    # Orders to skip

    def _give_orders(self, engine: Engine, orders: frozenset[SkipOrder]) -> None:
        engine.current.skips = {each.position: (each.entry, each.birth) for each in orders}

    def _read_orders(self, engine: Engine) -> None:
        orders = self._orders.read()
        if orders == self._known and not self._doubtful:
            self._prune()
            return
        fresh, doubtful = orders - self._known, self._doubtful
        self._known = orders
        # The engine has the orders before it is asked what runs: what it runs then ends as an order says.
        self._give_orders(engine, orders)
        self._doubtful = frozenset(each for each in fresh if _is_over(engine, each))
        for order in fresh:
            self._context.log(f"order of the administrator: skip reaction {order}")
        for order in doubtful:
            if engine.current.skipped != order.position:
                self._context.announce(
                    f"the order to skip reaction {order} came too late: this replica had passed it already"
                )
                self._orders.remove(order)

    def _prune(self) -> None:
        """Remove the orders that no start needs any more."""
        saved = self._saved()
        for order in self._known:
            if order.entry <= saved:
                self._orders.remove(order)

    def _interrupt(self, engine: Engine) -> None:
        """Interrupt the running reaction if it is to be skipped; again at each look, as it may go on."""
        if self._interrupts and engine.current.to_skip:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, INTERRUPT_SIGNAL)


def _is_over(engine: Engine, order: SkipOrder) -> bool:
    running = engine.current.running
    return order.position <= engine.position and (running is None or running[0] != order.position)


def _report_of(engine: Engine, seconds: float | None) -> RunningReport:
    current = engine.current
    running = current.running
    rounded = None if seconds is None else round(seconds, 1)
    if running is None:
        return RunningReport(os.getpid(), current.entry, current.birth, rounded)
    position, note, cell = running
    agent = str(note.to) if cell is None else str(cell.identity)
    if cell is not None and cell.name is not None:
        agent += f" {cell.name!r}"
    return RunningReport(
        os.getpid(),
        current.entry,
        current.birth,
        rounded,
        position,
        agent,
        "the factory" if cell is None else cell.spec.name,
        note.type,
        str(note.sender),
    )
