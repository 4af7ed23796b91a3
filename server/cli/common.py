"""Common parts of the commands: options, error sentences, JSON for people and programs."""

import contextlib
import importlib
import math
import os
import re
import sys
import typing
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from ...agents import AgentId, Notification
from ...agents.origin import raised_at
from ..admin import values
from ..admin.client import FAILOVER_TIMEOUT_S, LEAST_S, ServerAdmin
from ..admin.connection import AdminError, CallFailed
from ..config import MAX_ID, Config, ConfigError, Server, UnknownName, load
from ..storage.data_directory import DataDirectoryError
from .supervisor import SupervisorError

MAX_JSON_CHARS = 4 * 1024 * 1024

_BARE_ID = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


class Seconds(click.FloatRange):
    """Type of an option: a time from `least` to `most`. It refuses NaN, which passes every comparison."""

    def __init__(self, least: float, most: float = 86400) -> None:
        """Limits in seconds."""
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises click.BadParameter."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


config_argument = click.argument(
    "config", metavar="A3SERVERS.XML", type=click.Path(dir_okay=False, path_type=Path)
)
READY_ROLES = frozenset({"slave", "master", "witness", "daemon"})
"""The roles of replicas that do what they are there for."""

any_server_option = click.option("--server", metavar="NAME", help="Only this server (name or id).")
server_option = click.option("--server", metavar="NAME", required=True, help="Name or id of the server.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
master_timeout_option = click.option(
    "--timeout",
    "master_timeout_s",
    metavar="SECONDS",
    type=Seconds(0.1),
    default=FAILOVER_TIMEOUT_S,
    show_default=True,
    help="Longest wait, for a master and its answer together.",
)


def replica_id(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option: read the id of a replica. Raises click.BadParameter."""
    if value is None or (value.isascii() and value.isdigit() and len(value) < 6 and int(value) <= MAX_ID):
        return None if value is None else int(value)
    raise click.BadParameter(f"{value!r} is not the id of a replica; give a number from 0 to {MAX_ID}.")


replica_option = click.option(
    "--replica", metavar="ID", callback=replica_id, help="Ask this replica instead of the master."
)


any_replica_option = click.option(
    "--replica", metavar="ID", callback=replica_id, help="Only this replica of --server."
)

_LONG_WORD = re.compile(r"[^\s/]{256,}")
KEPT_CHARS = 60
"""The first characters of a longer word that are shown."""


class CommandError(click.ClickException):
    """Ends the command with one sentence on stderr and exit status 1."""

    exit_code = 1

    def show(self, file: typing.IO[Any] | None = None) -> None:
        """Print the sentence; words longer than any file name are cut."""
        text = _LONG_WORD.sub(lambda word: f"{word[0][:KEPT_CHARS]}...", self.message)
        click.echo(f"quorate: {text}", file=file or sys.stderr)


class WrongArgument(CommandError):
    """Ends the command with exit status 2: an argument cannot be right, whatever the servers do."""

    exit_code = 2


class ConfigProblems(click.ClickException):
    """Ends the command with the problems of a configuration, one a line, as `quorate check` prints them."""

    exit_code = 1

    def show(self, file: typing.IO[Any] | None = None) -> None:
        """Print the problems."""
        click.echo(self.message, file=file or sys.stderr)


@contextlib.contextmanager
def reported_errors() -> Generator[None]:
    """End the command with one sentence for each kind of error that is meant for users."""
    try:
        yield
    except ConfigError as error:
        raise ConfigProblems(str(error)) from None
    except UnknownName as error:
        raise WrongArgument(str(error)) from None
    except (AdminError, DataDirectoryError, SupervisorError) as error:
        raise CommandError(str(error)) from None


def read_config(path: Path) -> Config:
    """Load a configuration without importing the services and agent modules it names. Raises ConfigError."""
    return load(path, check_imports=False)


def read_choice(path: Path, server: str | None, replica: int | None) -> Config:
    """Load the configuration of a command with `any_server_option` and `any_replica_option`.

    Raises ConfigError, UnknownName for a replica that is not there, UsageError without its server.
    """
    loaded = read_config(path)
    if replica is not None:
        if server is None:
            raise click.UsageError("--replica needs --server.")
        loaded.replica(server, replica)
    return loaded


def admins(config: Config, server: str | None = None) -> list[ServerAdmin]:
    """Return the servers to administer: one, or all of the configuration. Raises UnknownName."""
    servers: tuple[Server, ...] = config.servers if server is None else (config.server(server),)
    return [ServerAdmin(config, each, warn=_warn) for each in servers]


def _warn(sentence: str) -> None:
    click.echo(f"quorate: {sentence}", err=True)


def import_from_here() -> None:
    """Make modules of the current directory importable; installed modules take precedence."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


class NotImportable(Exception):
    """The module is not importable here; it may be importable for a server on another machine."""


def import_class(name: str) -> type:
    """Import ``module:Class``.

    Raises WrongArgument for another form or when the module has no such class, CommandError when the module
    cannot be imported, NotImportable when there is no such module here.
    """
    module_name, _, qualname = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *qualname.split("."))):
        raise WrongArgument(f"{name!r} is not a class; write it as module:Class, like examples.bank:Account.")
    import_from_here()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        raise NotImportable(
            f"There is no module {missing} here; its directory must be in PYTHONPATH."
        ) from None
    except (Exception, SystemExit) as error:
        raise CommandError(
            f"Module {module_name} cannot be imported: {type(error).__name__}: {error}{raised_at(error)}."
        ) from None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise WrongArgument(f"Module {module_name} has no class {qualname}.")
    return cast("type[Any]", found)


def import_notification(name: str) -> type[Notification]:
    """Import the notification class ``module:Class``. Raises CommandError when that cannot be done."""
    try:
        found = import_class(name)
    except NotImportable as error:
        raise WrongArgument(str(error)) from None
    if not issubclass(found, Notification):
        raise WrongArgument(f"{name} is not a notification; derive it from quorate.Notification.")
    return found


def address_of(text: str) -> AgentId | str:
    """Read an agent's id or name. Raises WrongArgument for an invalid id.

    The ``#`` of an id may be left out, because it begins a comment in a shell.
    """
    if _BARE_ID.fullmatch(text):
        text = f"#{text}"
    if not text.startswith("#"):
        return text
    try:
        return AgentId.parse(text)
    except ValueError as error:
        raise WrongArgument(f"{error}.") from None


def seconds_left(admin: ServerAdmin, ends: float, listed: str, timeout_s: float) -> float:
    """Return the seconds until `ends`, on the clock of `admin`, for the next page of a list.

    Raises AdminError, which names what is `listed` and the whole limit, when too few are left to ask.
    """
    left_s = ends - admin.seconds()
    if left_s < LEAST_S:
        raise AdminError(
            f"Server {admin.server.name} did not list {listed} within {timeout_s:g} s; "
            "wait longer with --timeout."
        )
    return left_s


def no_such_agent(path: Path, config: Config, address: AgentId | str, server: str) -> str:
    """Say that there is no agent with this address, as `server` sees it, and what to do."""
    name, host = _parts(address, server)
    try:
        host = config.server(host).name
    except UnknownName:
        known = ", ".join(each.name for each in config.servers)
        return f"There is no agent {address}: the file has no server {host}; it has {known}."
    listing = f"quorate agents {click.format_filename(path)} --server {host}"
    return f"There is no agent {name} on server {host}; list its agents with: {listing}"


@contextlib.contextmanager
def explained_address(path: Path, config: Config, address: AgentId | str, server: str) -> Generator[None]:
    """Turn the answer of `server` that it has no such agent into the end of the command, with what to do."""
    try:
        yield
    except CallFailed as error:
        if error.failure.kind != "unknown":
            raise
        name, host = _parts(address, server)
        if host != server and host in config.names:
            sentence = f"Server {server} has no agents of server {host}; give {name} and --server {host}."
        else:
            sentence = no_such_agent(path, config, address, server)
        raise CommandError(sentence) from None


def _parts(address: AgentId | str, server: str) -> tuple[str, str]:
    """Split ``name@server``; an address without server, or an id, belongs to `server`."""
    name, at, host = str(address).rpartition("@")
    return (name, host) if at and not host.startswith("#") else (str(address), server)


def json_object(text: str, what: str) -> dict[str, Any]:
    """Read a JSON object given on the command line; `what` names it in the error."""
    if len(text) > MAX_JSON_CHARS:
        raise WrongArgument(f"{what} has more than {MAX_JSON_CHARS} characters.")
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WrongArgument(f"{what} must be a JSON object, like '{{\"amount\": 5}}': {error}.") from None


def plain(payload: bytes) -> Any:
    """Decode a payload as `values.plain` does. Raises CommandError."""
    return _readable(values.plain, payload)


def shown(type_name: str, payload: bytes) -> Any:
    """Decode a notification as `values.shown` does. Raises CommandError."""
    return _readable(values.shown, type_name, payload)


def _readable(decode: Callable[..., Any], *args: Any) -> Any:
    try:
        return decode(*args)
    except ValueError as error:
        raise CommandError(str(error)) from None


def json_text(value: Any, *, indent: int = 0) -> str:
    """Encode as JSON, on one line or indented for people."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(f"The answer of the server cannot be shown: {error}.") from None
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()
