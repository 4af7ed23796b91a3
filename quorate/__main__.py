"""The command ``quorate``, also as ``python -m quorate``.

A subcommand is imported when it is run, so that ``quorate --help`` is fast.

Exit statuses: 0 success, 1 an error that the text explains, 2 wrong usage, 70 a defect of the program, 130
interrupted. The text of an exception whose class has an integer ``exit_code`` is meant for the user.
"""

import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NamedTuple, TextIO, cast

import click

from .output import drop_output, escape_unencodable

__all__ = ["main"]

EXIT_UNWRITTEN = 1
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130


class Entry(NamedTuple):
    """A subcommand: its import path, its help, and the extra of the distribution that it needs."""

    target: str
    help: str
    extra: str = ""


COMMANDS = {
    "new": Entry(
        "quorate.server.cli.new:command", "Make a small project: servers, an agent, a client, tests."
    ),
    "check": Entry("quorate.server.cli.check:command", "Validate an a3servers.xml and summarize it."),
    "up": Entry("quorate.server.cli.up:command", "Run every server and replica of this host."),
    "start": Entry("quorate.server.cli.start:command", "Run one replica of one server."),
    "status": Entry("quorate.server.cli.status:command", "Show role, view, lag and connections of replicas."),
    "top": Entry("quorate.server.cli.top:command", "Show replicas, queues and topics, live, on a terminal."),
    "skip": Entry("quorate.server.cli.skip:command", "Skip a reaction that does not end."),
    "deploy": Entry("quorate.server.cli.deploy:command", "Create an agent on a server."),
    "certs": Entry("quorate.server.cli.certs:command", "Make the certificates of replicas and clients."),
    "passwd": Entry("quorate.server.cli.passwd:command", "Set and list the passwords of a file of users."),
    "token": Entry(
        "quorate.console.commands.token:command", "Make and list the tokens with which programs use HTTP."
    ),
    "stop": Entry("quorate.server.cli.stop:command", "Stop servers or replicas in order."),
    "restart": Entry("quorate.server.cli.restart:command", "Restart replicas one after the other."),
    "agents": Entry("quorate.server.cli.agents:command", "List the agents of a server."),
    "inspect": Entry("quorate.server.cli.inspect:command", "Show the state of an agent."),
    "send": Entry("quorate.server.cli.send:command", "Send a notification to an agent."),
    "pause": Entry("quorate.server.cli.pause:command", "Pause an agent: what is sent to it waits."),
    "resume": Entry("quorate.server.cli.resume:command", "Resume a paused agent."),
    "delete": Entry("quorate.server.cli.delete:command", "Delete an agent."),
    "timers": Entry("quorate.server.cli.timers:command", "List timers of agents, or cancel one."),
    "deadletters": Entry("quorate.server.cli.deadletters:command", "List, resend or drop dead letters."),
    "queue": Entry(
        "quorate.messaging.commands.destinations:queue", "Make, list, show, browse and purge queues."
    ),
    "topic": Entry("quorate.messaging.commands.destinations:topic", "Make, list, show and purge topics."),
    "mesh": Entry("quorate.mesh.commands.mesh:mesh", "Show a mesh: who reaches whom, topics, subscriptions."),
    "group": Entry("quorate.groups.commands.group:group", "List groups, their members and their homes."),
    "bench": Entry("quorate.messaging.commands.bench:bench", "Put load on a queue or topic, and measure it."),
    "joram-admin": Entry(
        "quorate.messaging.commands.joram_admin:joram_admin",
        "Make the queues and topics of a joramAdmin.xml.",
    ),
    "xa": Entry("quorate.messaging.commands.xa:xa", "List prepared transactions, and end them by hand."),
    "simulate": Entry(
        "quorate.testing.schedules.command:command", "Simulate replicas and faults; check every step."
    ),
    "explore": Entry(
        "quorate.testing.exploration.command:command", "Try every order of events in small clusters."
    ),
    "replica": Entry(
        "quorate.server.cli.replica:command",
        "Add, remove and replace replicas of a running cluster; begin it again.",
    ),
    "apply": Entry(
        "quorate.server.cli.apply:command", "Give running clusters the replicas of the edited file."
    ),
    "backup": Entry("quorate.server.cli.backup:command", "Copy the states of running servers elsewhere."),
    "restore": Entry("quorate.server.cli.restore:command", "Begin a new cluster with a backup."),
    "demo": Entry(
        "quorate.demo.command:command", "Run agents on real data while their master is killed.", "demo"
    ),
    "trace": Entry("quorate.replay.push_command:command", "Copy closed trace files elsewhere.", "replay"),
    "replay": Entry(
        "quorate.replay.command:command", "Replay traces: audit, travel in time, try new code.", "replay"
    ),
}


STOPPABLE = frozenset({"up", "start"})
"""Commands that a signal ends in order at any time, from their start on."""


class LazyGroup(click.Group):
    """A group of the subcommands in COMMANDS that imports a subcommand only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a subcommand; return None if there is no such subcommand."""
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else _load(cmd_name, entry)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of subcommands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _load(name: str, entry: Entry) -> click.Command:
    module, _, attribute = entry.target.partition(":")
    try:
        return cast(click.Command, getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == module:
            raise click.ClickException(f"'quorate {name}' is not part of this version.") from error
        if missing.partition(".")[0] == "quorate":
            raise
        distribution = f"quorate[{entry.extra}]" if entry.extra else "quorate"
        raise click.ClickException(
            f"'quorate {name}' needs the module {missing}, which is not installed; "
            f"install it with: python -m pip install '{distribution}'"
        ) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quorate", prog_name="quorate")
@click.option(
    "--traceback", "show_traceback", is_flag=True, help="Show the traceback of an unexpected error."
)
@click.pass_context
def cli(ctx: click.Context, show_traceback: bool) -> None:
    """Highly available agents, and the reliable messaging built from them."""
    ctx.obj = show_traceback
    if show_traceback:
        os.environ["QUORATE_TRACEBACK"] = "1"
    # Agents and services named in a configuration or on the command line are imported as with `python -m`,
    # but installed packages take precedence: a directory called `client` must not hide one.
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.append(here)


def main() -> None:
    """Run the command line and leave with its exit status."""
    escape_unencodable()
    stoppable = not STOPPABLE.isdisjoint(sys.argv[1:3])
    if stoppable:
        # Until the command handles signals itself, there is nothing to stop.
        _on_signals(lambda *_: sys.exit(0))
        # A question about the reaction that runs must not end a process that runs none yet.
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        status = guarded(lambda: cast(object, cli.main(prog_name="quorate", standalone_mode=False)))
    finally:
        if stoppable:
            # Another Ctrl-C must not change the exit status.
            _on_signals(signal.SIG_IGN)
    sys.exit(status)


def _on_signals(handler: Callable[..., object] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def guarded(run: Callable[[], object]) -> int:
    """Call `run`, print an exception as one line on the standard error, and return the exit status."""
    try:
        result = run()
        _flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone.
        drop_output()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and _output_fails(error):
            drop_output()
            click.echo(f"quorate: the standard output cannot be written ({error.strerror}).", err=True)
            return EXIT_UNWRITTEN
        return _explain(error)
    # Outside its standalone mode, click returns the status of ctx.exit().
    return result if isinstance(result, int) else 0


def _flush(text: str = "") -> None:
    # None: the parent process has closed it.
    output = cast("TextIO | None", sys.stdout)
    if output is not None:
        output.write(text)
        output.flush()


def _output_fails(error: OSError) -> bool:
    """Return whether the standard output raised the error: then it raises again."""
    disk = error.filename is None and error.errno in DISK_ERRORS
    try:
        # With an empty buffer only a write can fail.
        _flush("\n" if disk else "")
    except OSError:
        return True
    return False


def _explain(error: Exception) -> int:
    if os.environ.get("QUORATE_TRACEBACK", "0") not in {"", "0"}:
        traceback.print_exception(error)
    status = getattr(error, "exit_code", None)
    if isinstance(status, int):
        click.echo(str(error), err=True)
        return status
    text = " ".join(str(error).split())
    click.echo(
        f"Unexpected error: {type(error).__name__}{': ' if text else ''}{text}. "
        "Run `quorate --traceback COMMAND ...`, or set QUORATE_TRACEBACK=1, for the details.",
        err=True,
    )
    return EXIT_FAULT


if __name__ == "__main__":
    main()
