"""`quorate start`: one replica in the foreground."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, cast

import click
from twisted.internet.defer import Deferred, TimeoutError, maybeDeferred
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

from ...hachannel.transport.addresses import host_port
from ..config import Config, Server, load
from ..errors import StartInterrupted
from ..storage.data_directory import DataDirectory
from .common import (
    READY_ROLES,
    CommandError,
    WrongArgument,
    config_argument,
    import_from_here,
    replica_id,
    reported_errors,
)
from .launcher import LIFELINE, STOP_TIMEOUT_S, STOP_TOGETHER
from .output import Printer
from .service_manager import ServiceManager

ROLE_PERIOD_S = 0.1
"""The period at which the role is checked, to print its changes."""
LEAVE_TIMEOUT_S = 0.8 * STOP_TIMEOUT_S
"""An orderly stop that takes longer is given up, shortly before a supervisor would use SIGKILL."""
WAIT_REPORT_S = 1.0
"""The reason why a replica waits is printed after the wait has lasted this long."""


@click.command(
    epilog="Exit status: 0 after Ctrl-C, SIGTERM, SIGHUP or quorate stop, 1 if it cannot start or fails."
)
@config_argument
@click.option("--server", metavar="NAME", required=True, help="Name or id of the server.")
@click.option("--replica", metavar="ID", callback=replica_id, help="Needed when the server is a cluster.")
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
@click.option(
    "--expected",
    metavar="N",
    type=click.IntRange(1),
    help="Replicas that must see each other before the very first start, in place of nbClusterExpected.",
)
@click.option(
    "--join",
    is_flag=True,
    help="The replica joins a running cluster: it waits to be added, and never founds a cluster.",
)
@click.option(
    "--accept-code-change",
    is_flag=True,
    help="Accept that entries applied again end otherwise than before: the agents' code has changed.",
)
def command(
    config: Path,
    server: str,
    replica: int | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Run one replica until it is stopped.

    It prints one line when it is ready, one whenever its role changes, and one when something keeps it
    waiting. The modules of agents are imported from the current directory and PYTHONPATH.
    """
    lifeline = _hold_lifeline()
    import_from_here()
    with reported_errors():
        loaded = load(config)
        declared = loaded.server(server)
        replica_id = _which_replica(loaded, declared, replica)
        if options["join"] and not declared.clustered:
            raise CommandError(
                f"{declared.name} is not a <cluster>, so there is nothing to join; leave --join out."
            )
        for option in ("join", "expected") if declared.mode == "mesh" else ():
            if options[option]:
                raise CommandError(
                    f"{declared.name} is a mesh, whose daemons do not wait for each other; "
                    f"leave --{option} out."
                )
        if options["expected"] is not None:
            _check_expected(declared, options["expected"])
        directory = DataDirectory.open(data or loaded.path.parent / "data", declared.name, replica_id)
    try:
        again = _run(loaded, declared, replica_id, directory, data or loaded.path.parent / "data", options)
    finally:
        directory.close()
    if again:
        _execute_again(lifeline)


def _check_expected(server: Server, expected: int) -> None:
    """Check `--expected` as `nbClusterExpected` of the file is checked. Raises CommandError."""
    if objection := server.objection(expected):
        raise WrongArgument(f"--expected is {expected}, but {server.name} {objection}.")


def _which_replica(config: Config, server: Server, replica: int | None) -> int:
    if replica is not None:
        return config.replica(server.name, replica).id
    if len(server.replicas) == 1:
        return server.replicas[0].id
    ids = ", ".join(str(each) for each in server.replica_ids)
    raise WrongArgument(f"{server.name} is a cluster; choose one of its replicas with --replica: {ids}.")


def _execute_again(lifeline: str | None) -> None:
    """Execute the command of this process anew, with the code that is there now, under the same id."""
    sys.stdout.flush()
    if lifeline is not None:
        os.environ[LIFELINE] = lifeline
        os.set_inheritable(int(lifeline), True)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606


def _hold_lifeline() -> str | None:
    """Stop this process when the supervisor that started it ends: see `launcher`. Return the descriptor."""
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is None:
        return None

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            # Processes that the agents start must not keep the pipe open.
            os.set_inheritable(int(descriptor), False)
            while os.read(int(descriptor), 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        # A replica that is stuck must not outlive its supervisor either.
        threading.Event().wait(STOP_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    return descriptor


def _install_reactor() -> Any:
    """Install the epoll reactor where the system has epoll; return the reactor."""
    if "twisted.internet.reactor" not in sys.modules:
        with contextlib.suppress(ImportError):
            from twisted.internet import epollreactor

            cast("Any", epollreactor).install()
    from twisted.internet import reactor

    return reactor


def _install_signal_handlers(interrupt: Callable[[], None], all_stop: Callable[[], None]) -> None:
    """Let signals stop the reactor, once it runs.

    `interrupt` is called at once, because a start may block the reactor. `all_stop` is called before it when
    the signal is STOP_TOGETHER.
    """
    # Twisted's handler, which is not installed for SIGHUP; it stops the reactor in its next iteration.
    stop_reactor = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        if number == STOP_TOGETHER:
            all_stop()
        interrupt()
        if callable(stop_reactor):
            stop_reactor(number, frame)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, STOP_TOGETHER):
        # An ignored signal stays ignored: nohup sets that, and a shell for its background jobs.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


class Running(Protocol):
    """The part of a replica that `Foreground` uses."""

    again: bool
    """Whether the process starts it again after its end."""

    @property
    def stopped(self) -> "Deferred[None]":
        """Fires when the replica has stopped for any reason; fails when an error has stopped it."""
        ...

    def start(self) -> "Deferred[None] | None":
        """Listen and join the others. Raises StartError, or fails with it."""
        ...

    def stop(self, *, together: bool) -> "Deferred[None] | None":
        """Stop in order; `together`: all other replicas of the server stop, too."""
        ...


class Foreground:
    """Runs a replica with the reactor: they start and stop together.

    `role` returns the present role. `waits_for` returns why the replica is neither master nor slave, or does
    not serve as master; "" if there is no reason. `report` is called with each new role, ``master`` say, or
    with a role and the reason of a wait, ``blocked: ...``. `manager` is told the same.
    """

    def __init__(
        self,
        reactor: Any,
        replica: Running,
        role: Callable[[], str],
        waits_for: Callable[[], str],
        report: Callable[[str], None],
        manager: ServiceManager,
    ) -> None:
        self._reactor = reactor
        self._manager = manager
        self._replica = replica
        self._role = role
        self._waits_for = waits_for
        self._report = report
        self._reported = ""
        self._current = ""
        """The line that describes the replica now, and since when."""
        self._current_since = 0.0
        self._stopping = False
        self._together = False
        self.problem = ""
        """The error that ended the replica, in one sentence; "" after an orderly end."""

    def run(self) -> None:
        """Run until a signal, an administrator or an error ends the replica."""
        self._reactor.callWhenRunning(self.start)
        self._reactor.addSystemEventTrigger("before", "shutdown", self.stop)
        self._reactor.run()

    def start(self) -> None:
        """Start the replica and watch it."""
        started: Deferred[Any] = maybeDeferred(cast("Callable[[], Any]", self._replica.start))
        started.addCallbacks(self._started, self._failed)

    def stop(self) -> "Deferred[Any] | None":
        """Stop the replica, within LEAVE_TIMEOUT_S."""
        if self._stopping:
            return None
        self._stopping = True
        if self._replica.again:
            # For the manager the process goes on.
            self._manager.tell(RELOADING="1", STATUS="restarting")
        else:
            self._manager.tell(STOPPING="1", STATUS="stopping")
        stopped: Deferred[Any] = maybeDeferred(
            cast("Callable[..., Any]", self._replica.stop), together=self._together
        )
        stopped.addTimeout(LEAVE_TIMEOUT_S, self._reactor)
        return stopped.addErrback(self._stop_failed)

    def expect_stop_together(self) -> None:
        """Note that all replicas of the server stop; `stop` follows."""
        self._together = True

    def _started(self, _result: object) -> None:
        self._replica.stopped.addCallbacks(self._ended, self._failed)
        # It may have to wait for the others: for the manager it is ready when it listens.
        self._manager.tell(READY="1", STATUS="started")
        self._manager.keep_alive(self._reactor.callLater)
        self._check_role()

    def _check_role(self) -> None:
        """Report a changed role, or what keeps the replica waiting; called again after ROLE_PERIOD_S."""
        if self._stopping:
            return
        now = self._reactor.seconds()
        role, waiting = self._role(), self._waits_for()
        text = f"{role}: {waiting}" if waiting else role if role in READY_ROLES else ""
        if text != self._current:
            self._current, self._current_since = text, now
        settled = text in READY_ROLES or now - self._current_since >= WAIT_REPORT_S
        if text and text != self._reported and settled:
            self._reported = text
            self._report(text)
        self._reactor.callLater(ROLE_PERIOD_S, self._check_role)

    def _ended(self, _result: object) -> None:
        self._stop_reactor()

    def _failed(self, failure: Failure) -> None:
        error = cast("Any", failure).value
        # A user who interrupts the start needs no explanation.
        self.problem = "" if isinstance(error, StartInterrupted) else str(error) or type(error).__name__
        self._stop_reactor()

    def _stop_failed(self, failure: Failure) -> None:
        if isinstance(cast("Any", failure).value, TimeoutError):
            self.problem = f"The replica did not leave in order within {LEAVE_TIMEOUT_S:g} s."
        else:
            self._failed(failure)

    def _stop_reactor(self) -> None:
        if self._reactor.running and not self._stopping:
            self._stopping = True
            self._reactor.stop()


def _run(
    config: Config,
    server: Server,
    replica: int,
    directory: DataDirectory,
    data: Path,
    options: dict[str, Any],
) -> bool:
    """Run a replica in this process. Return whether it is to be started again.

    options: those of `make_replica` that the command has.
    """
    reactor = _install_reactor()
    # Defects are written to the log of the replica with their traceback, not to the terminal.
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    from ..daemon.replica import make_daemon
    from ..errors import StartError
    from ..replica.composition import make_replica

    declared = config.replica(server.name, replica)
    life = directory.incarnation
    try:
        running = (
            make_daemon(config, server, declared, data=data, incarnation=life, reactor=reactor)
            if server.mode == "mesh"
            else make_replica(
                config, server, declared, data=data, **options, incarnation=life, reactor=reactor
            )
        )
    except StartError as error:
        raise CommandError(str(error)) from None
    where = (
        ", ".join(f"network {host_port(network.host, network.port)}" for network in declared.networks)
        or "no network"
    )

    printer = Printer(f"{server.name}.{replica} continues")

    def print_line(line: str) -> None:
        printer(lambda: click.echo(f"{server.name}.{replica} {line}"))

    running.log.on_announce = print_line
    manager = ServiceManager()

    def report(text: str) -> None:
        manager.tell(STATUS=text)
        print_line(f"{text}, {where}" if text in READY_ROLES else text)

    foreground = Foreground(reactor, running, lambda: running.role, running.diagnosis, report, manager)
    reactor.callWhenRunning(_install_signal_handlers, running.interrupt, foreground.expect_stop_together)
    reactor.callWhenRunning(running.handle_interrupts)
    foreground.run()
    if foreground.problem:
        raise CommandError(foreground.problem)
    return running.again
