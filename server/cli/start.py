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

from ...hachannel.transport.connection import host_port
from ..config import Config, Server, load
from ..errors import StartInterrupted
from ..storage.data_directory import DataDirectory
from .common import CommandError, config_argument, import_from_here, replica_id, reported_errors
from .launcher import LIFELINE, STOP_TIMEOUT_S, STOP_TOGETHER
from .output import Printer

ROLE_PERIOD_S = 0.1
"""How often the role is looked at, to print its changes."""
LEAVE_TIMEOUT_S = 0.8 * STOP_TIMEOUT_S
"""An orderly stop that takes longer is given up, shortly before a supervisor would use SIGKILL."""
READY_ROLES = frozenset({"slave", "master", "witness"})
PATIENCE_S = 1.0
"""What keeps a replica from being slave or master is printed when it has lasted so long."""


@click.command(
    epilog="Exit status: 0 after Ctrl-C, SIGTERM, SIGHUP or quorate stop, 1 if it cannot start or go on."
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
    help="A new replica of a cluster that runs: it waits to be let in, and never founds one.",
)
def command(
    config: Path, server: str, replica: int | None, data: Path | None, expected: int | None, join: bool
) -> None:
    """Run one replica until it is stopped.

    Prints one line when it is ready, one whenever its role changes, and one when something keeps it waiting.
    The agents' modules are looked for in the current directory and in PYTHONPATH.
    """
    _hold_lifeline()
    import_from_here()
    with reported_errors():
        loaded = load(config)
        declared = loaded.server(server)
        replica_id = _which_replica(loaded, declared, replica)
        if join and not declared.clustered:
            raise CommandError(
                f"{declared.name} is no <cluster>: there is nothing to join; leave --join out."
            )
        if expected is not None:
            _check_expected(declared, expected)
        directory = DataDirectory.open(data or loaded.path.parent / "data", declared.name, replica_id)
    try:
        _run(loaded, declared, replica_id, directory, data or loaded.path.parent / "data", expected, join)
    finally:
        directory.close()


def _check_expected(server: Server, expected: int) -> None:
    """As `nbClusterExpected` is checked in the file. Raises CommandError."""
    if objection := server.objection(expected):
        raise CommandError(f"--expected is {expected}, but {server.name} {objection}.")


def _which_replica(config: Config, server: Server, replica: int | None) -> int:
    if replica is not None:
        return config.replica(server.name, replica).id
    if len(server.replicas) == 1:
        return server.replicas[0].id
    ids = ", ".join(str(each) for each in server.replica_ids)
    raise CommandError(f"{server.name} is a cluster; say which of its replicas with --replica: {ids}.")


def _hold_lifeline() -> None:
    """Stop this process when the supervisor that started it ends: see `launcher`."""
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is None:
        return

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            # What the agents start must not hold it.
            os.set_inheritable(int(descriptor), False)
            while os.read(int(descriptor), 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        # A replica that is stuck must not outlive its supervisor either.
        threading.Event().wait(STOP_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _install_reactor() -> Any:
    """Choose epoll where there is one; return the reactor."""
    if "twisted.internet.reactor" not in sys.modules:
        with contextlib.suppress(ImportError):
            from twisted.internet import epollreactor

            cast("Any", epollreactor).install()
    from twisted.internet import reactor

    return reactor


def _install_signal_handlers(interrupt: Callable[[], None], all_stop: Callable[[], None]) -> None:
    """Let signals stop the reactor, once it runs. `interrupt` is told at once: the reactor may be held up.

    all_stop: is told before, when it is the signal that says that all replicas of the server stop.
    """
    # That of Twisted, which knows no SIGHUP. What it does is done when the reactor turns again.
    stop_reactor = signal.getsignal(signal.SIGTERM)

    def heed(number: int, frame: FrameType | None) -> None:
        if number == STOP_TOGETHER:
            all_stop()
        interrupt()
        if callable(stop_reactor):
            stop_reactor(number, frame)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, STOP_TOGETHER):
        # What was ignored stays so: nohup asks for that, and a shell for what it runs in the background.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, heed)


class Running(Protocol):
    """The part of a runtime replica that is used here."""

    @property
    def stopped(self) -> "Deferred[None]":
        """Fires when the replica has stopped, whoever asked; fails when it could not go on."""
        ...

    def start(self) -> "Deferred[None] | None":
        """Listen and join the others. Raises StartError, or fails with it."""
        ...

    def stop(self, *, together: bool) -> "Deferred[None] | None":
        """Stop in order; `together`: all others of the server do."""
        ...


class Foreground:
    """Runs a replica with the reactor: they start and stop together.

    `role` tells what the replica is at the moment, `waits_for` what keeps it from being master or slave, or
    from going on as master ("": nothing). `say` gets what is new and worth telling: ``master``, ``slave``, or
    another role with the reason, ``blocked: ...``.
    """

    def __init__(
        self,
        reactor: Any,
        replica: Running,
        role: Callable[[], str],
        waits_for: Callable[[], str],
        say: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._replica = replica
        self._role_now = role
        self._waits_for = waits_for
        self._say = say
        self._said = ""
        self._waiting = ""
        self._waiting_since = 0.0
        self._stopping = False
        self._together = False
        self.problem = ""
        """Why it could not start or go on; "" after an orderly end."""

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
        stopped: Deferred[Any] = maybeDeferred(
            cast("Callable[..., Any]", self._replica.stop), together=self._together
        )
        stopped.addTimeout(LEAVE_TIMEOUT_S, self._reactor)
        return stopped.addErrback(self._left_badly)

    def with_the_others(self) -> None:
        """All replicas of the server are told to stop: `stop` is about to be called."""
        self._together = True

    def _started(self, _result: object) -> None:
        self._replica.stopped.addCallbacks(self._ended, self._failed)
        self._look()

    def _look(self) -> None:
        """Tell the role when it has changed, or what keeps the replica waiting, and look again later."""
        if self._stopping:
            return
        now = self._reactor.seconds()
        role, waiting = self._role_now(), self._waits_for()
        text = f"{role}: {waiting}" if waiting else role if role in READY_ROLES else ""
        if text != self._waiting:
            self._waiting, self._waiting_since = text, now
        settled = text in READY_ROLES or now - self._waiting_since >= PATIENCE_S
        if text and text != self._said and settled:
            self._said = text
            self._say(text)
        self._reactor.callLater(ROLE_PERIOD_S, self._look)

    def _ended(self, _result: object) -> None:
        self._stop_reactor()

    def _failed(self, failure: Failure) -> None:
        error = cast("Any", failure).value
        # That it was interrupted was asked for.
        self.problem = "" if isinstance(error, StartInterrupted) else str(error) or type(error).__name__
        self._stop_reactor()

    def _left_badly(self, failure: Failure) -> None:
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
    expected: int | None,
    join: bool,
) -> None:
    reactor = _install_reactor()
    # Defects go to the log of the replica with their traceback, not to the terminal.
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    from ..errors import StartError
    from ..replica.composition import make_replica

    declared = config.replica(server.name, replica)
    try:
        running = make_replica(
            config,
            server,
            declared,
            data=data,
            expected=expected,
            join=join,
            incarnation=directory.incarnation,
            reactor=reactor,
        )
    except StartError as error:
        raise CommandError(str(error)) from None
    where = (
        ", ".join(f"network {host_port(network.host, network.port)}" for network in declared.networks)
        or "no network"
    )

    printer = Printer(f"{server.name}.{replica} goes on")

    def tell(line: str) -> None:
        printer(lambda: click.echo(f"{server.name}.{replica} {line}"))

    running.log.on_announce = tell
    foreground = Foreground(
        reactor,
        running,
        lambda: running.node.role,
        running.diagnosis,
        lambda text: tell(f"{text}, {where}" if text in READY_ROLES else text),
    )
    reactor.callWhenRunning(_install_signal_handlers, running.interrupt, foreground.with_the_others)
    foreground.run()
    if foreground.problem:
        raise CommandError(foreground.problem)
