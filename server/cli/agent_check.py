"""``quorate check --agents``: load the stored agents of servers with the classes that are importable here."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
import click

from ...agents import AgentError, AgentId
from ...engine import AgentState, Engine, StateCheck, import_modules
from ...hachannel.journal.journal import JournalError
from ..admin import wire
from ..admin.client import FAILOVER_TIMEOUT_S, ServerAdmin
from ..config import Config, Server
from ..settings import ReplicaSettings
from ..storage.data_directory import DataDirectory, running_process
from ..storage.stored_agents import stored_state
from .common import CommandError, import_from_here, reported_errors

__all__ = ["check_agents"]

MAX_FINDINGS = 20
"""Findings that are printed for each class of a state; the others are counted."""


@attrs.frozen
class _Source:
    """Stored agents, and where they come from."""

    title: str
    agents: Iterator[AgentState]


def check_agents(config: Config, server: str | None, data: Path) -> bool:
    """Print what the stored agents of servers lack here; return whether all of them can be loaded.

    `server` is the name or id of one server, None for all. The agents of a server that runs come from its
    master, those of one that does not from the directories of its replicas in `data`.
    """
    sound = True
    with reported_errors():
        for each in config.servers if server is None else (config.server(server),):
            import_from_here()
            settings = ReplicaSettings.read(config, each, each.replicas[0])
            try:
                import_modules(settings.agent_modules)
            except AgentError as error:
                raise CommandError(f"{each.name}: the property agent_modules: {error}.") from None
            found = False
            try:
                for source in _sources(config, each, data):
                    found = True
                    sound &= _check(config, each, source)
            except JournalError as error:
                raise CommandError(str(error)) from None
            if not found:
                click.echo(f"{each.name}: no agents are stored in {data}.")
    return sound


def _sources(config: Config, server: Server, data: Path) -> Iterator[_Source]:
    held = [each for each in server.replicas if not each.witness]
    directories = [data / server.name / str(each.id) for each in held]
    running = any(running_process(data, server.name, each.id) is not None for each in held)
    if running or not any(directory.is_dir() for directory in directories):
        yield _Source(f"{server.name}, from its master", _running(ServerAdmin(config, server)))
        return
    for replica, directory in zip(held, directories, strict=True):
        if not directory.is_dir():
            continue
        with ExitStack() as opened:
            opened.enter_context(closing(DataDirectory.open(data, server.name, replica.id)))
            stored = opened.enter_context(stored_state(directory))
            if stored is not None:
                title = f"{server.name}.{replica.id}, saved after entry {stored.index}"
                yield _Source(title, stored.agents)


def _running(admin: ServerAdmin) -> Generator[AgentState]:
    after: AgentId | None = None
    while True:
        page = admin.ask_master(
            wire.Stored(after),
            list[AgentState],
            repeatable=True,
            master_timeout_s=FAILOVER_TIMEOUT_S,
            total_timeout_s=FAILOVER_TIMEOUT_S,
        )
        if not page:
            return
        yield from page
        after = page[-1].identity


def _check(config: Config, server: Server, source: _Source) -> bool:
    """Print the findings in one state; return whether there is none but notes."""
    check = StateCheck(Engine(server.id, config.names).resolve)
    shown: dict[str, int] = {}
    refused = 0
    for finding in check.run(source.agents):
        if finding.loads:
            click.echo(f"note: {server.name}: {finding.sentence}.")
            continue
        refused += 1
        shown[finding.cls] = shown.get(finding.cls, 0) + 1
        if shown[finding.cls] <= MAX_FINDINGS:
            click.echo(f"{server.name}: {finding.sentence}.", err=True)
    for cls, count in shown.items():
        if count > MAX_FINDINGS:
            click.echo(f"{server.name}: {count - MAX_FINDINGS} more agents of {cls}.", err=True)
    for (stored, here), count in check.upgrades.items():
        click.echo(f"{server.name}: agents that are upgraded from {stored} to {here}: {count}")
    click.echo(
        f"{source.title}: {check.checked} agents, {refused or 'all of them can be loaded'}"
        f"{' of them cannot be loaded' if refused else ''}."
    )
    return not refused
