"""`quorate joram-admin`: make the queues and topics of a joramAdmin.xml of Joram."""

from pathlib import Path
from typing import Final

import attrs
import click

from ...server.admin import wire
from ...server.admin.client import ServerAdmin
from ...server.cli.agents import agents_of
from ...server.cli.common import (
    admins,
    config_argument,
    master_timeout_option,
    read_config,
    reported_errors,
)
from ...server.config import Config
from ...server.config.dtd import Element
from ...server.config.report import Report
from ...server.config.xml import read_elements
from ..agents.making import name_flaw
from ..agents.settings import DestinationSettings, Kind
from .making import make_destination, make_manager

__all__ = ["JoramDestination", "joram_admin", "read_joram_admin"]

_KINDS: Final = {"Queue": Kind.QUEUE, "Topic": Kind.TOPIC, "DMQueue": Kind.QUEUE}
_NUMBERS: Final = {"nbMaxMsg": "max_messages", "threshold": "max_deliveries"}
_READ: Final = frozenset(("name", "serverId", "DMQ", *_NUMBERS))
_RIGHTS: Final = frozenset(("reader", "writer", "freeReader", "freeWriter"))
_IGNORED: Final = {
    "AdminModule": "how to connect is said by a3servers.xml",
    "ConnectionFactory": "clients give a URL to connect",
    "InitialContext": "clients give a URL to connect",
    "User": "users are declared in a3servers.xml",
}


@attrs.frozen
class JoramDestination:
    """A queue or topic of a joramAdmin.xml."""

    kind: Kind
    title: str
    server: int
    settings: DestinationSettings
    line: int


@attrs.define
class _Reading:
    """What was found in a file so far."""

    servers: dict[int, str]
    """The names of the servers by their ids."""
    report: Report
    found: list[JoramDestination] = attrs.field(factory=list[JoramDestination])

    def destination(self, element: Element, peers: tuple[str, ...] = ()) -> None:
        """Read a queue or topic; peers: the other members of its cluster."""
        kind, title = _KINDS[element.tag], element.get("name") or ""
        where = f"{element.tag} {title}"
        if flaw := name_flaw(kind, title):
            self.report.problem(element.line, flaw)
            return
        server = self.server_of(element)
        if server is None:
            return
        given: dict[str, str | int | tuple[str, ...]] = {"peers": peers}
        for name, setting in _NUMBERS.items():
            text = element.get(name)
            if text is not None and not text.isdecimal():
                self.report.problem(element.line, f"{name} of {where} is {text!r}; write a whole number.")
                return
            if text is not None:
                given[setting] = int(text)
        if dead := element.get("DMQ"):
            given["dead_queue"] = dead
        for name in sorted({*element.attributes} - _READ):
            self.report.note(element.line, f"{name} of {where} is ignored.")
        if element.all(*_RIGHTS):
            self.report.note(
                element.line, f"rights of {where} are ignored: all users of a server may use it."
            )
        for child in element.children:
            if child.tag not in _RIGHTS:
                self.report.note(
                    child.line, f"<{child.tag}> of {where} is ignored: clients know it by its name."
                )
        settings = DestinationSettings(**given)  # type: ignore[arg-type]
        if flaw := settings.flaw(kind):
            self.report.problem(element.line, f"{where}: {flaw}.")
            return
        self.found.append(JoramDestination(kind, title, server, settings, element.line))

    def server_of(self, element: Element) -> int | None:
        text = element.get("serverId") or "0"
        if text.isdecimal() and int(text) in self.servers:
            return int(text)
        known = ", ".join(f"{number} ({name})" for number, name in sorted(self.servers.items()))
        self.report.problem(element.line, f"serverId is {text!r}; a3servers.xml has the servers {known}.")
        return None

    def cluster(self, element: Element) -> None:
        """Read the members of a clustered queue or topic."""
        members = element.all(*_KINDS)
        if len(members) < 2 or len({child.tag for child in members}) > 1:
            self.report.problem(
                element.line, "a Cluster has two or more queues, or two or more topics, as its members."
            )
            return
        for child in element.children:
            if child not in members:
                self.report.note(child.line, f"<{child.tag}> of a Cluster is ignored.")
        for child in members:
            others = [other for other in members if other is not child]
            servers = [self.server_of(other) for other in others]
            names = [self.servers[each] for each in servers if each is not None]
            if len(names) < len(others):
                return
            peers = [f"{other.get('name')}@{name}" for other, name in zip(others, names, strict=True)]
            self.destination(child, tuple(peers))


def read_joram_admin(path: Path, config: Config) -> tuple[list[JoramDestination], list[str]]:
    """Read a joramAdmin.xml. Return its queues and topics, and notes about what is ignored.

    Raises ConfigError with all problems.
    """
    report = Report(str(path))
    root = read_elements(path, report)
    if root.tag != "JoramAdmin":
        report.problem(
            root.line, f"the root element is <{root.tag}>; that of a joramAdmin.xml is <JoramAdmin>."
        )
        report.raise_if_problems()
    reading = _Reading({each.id: each.name for each in config.servers}, report)
    for element in root.children:
        if element.tag in _KINDS:
            reading.destination(element)
        elif element.tag == "Cluster":
            reading.cluster(element)
        elif element.tag in _IGNORED:
            report.note(element.line, f"<{element.tag}> is ignored: {_IGNORED[element.tag]}.")
        else:
            report.note(element.line, f"<{element.tag}> is not known, and ignored.")
    seen: dict[tuple[int, str], int] = {}
    for each in reading.found:
        key = each.server, f"{each.kind.value} {each.title}"
        if key in seen:
            report.problem(each.line, f"{key[1]} stands on line {seen[key]} already; keep one.")
        seen[key] = each.line
    report.raise_if_problems()
    return reading.found, [str(each) for each in report.notes_by_line()]


@click.command(epilog="Exit status: 0, or 1 if the file has problems or something was not made.")
@config_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@master_timeout_option
def joram_admin(config: Path, file: Path, master_timeout_s: float) -> None:
    """Make the queues and topics of a joramAdmin.xml.

    The whole file is checked first. What is there already stays as it is. Users, rights, connection factories
    and names of JNDI are ignored, with a note for each.
    """
    with reported_errors():
        servers = read_config(config)
        wanted, notes = read_joram_admin(file, servers)
        for note in notes:
            click.echo(note, err=True)
        for server in dict.fromkeys(each.server for each in wanted):
            (admin,) = admins(servers, str(server))
            for each in wanted:
                if each.server == server:
                    click.echo(_made(admin, each, master_timeout_s))
            make_manager(admin, master_timeout_s)


def _made(admin: ServerAdmin, wanted: JoramDestination, master_timeout_s: float) -> str:
    """Make a destination unless it is there. Return what to say."""
    address, shown = f"{wanted.kind.value}:{wanted.title}", f"{wanted.kind.value} {wanted.title}"
    rows = agents_of(admin, None, wire.Agents(anywhere=False, name=address), 1, master_timeout_s)
    if rows:
        return f"{shown} of {admin.server.name} is there already, and stays as it is"
    make_destination(admin, wanted.kind, wanted.title, wanted.settings, master_timeout_s)
    return f"{shown} of {admin.server.name} was made"
