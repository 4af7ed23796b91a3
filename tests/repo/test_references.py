"""The reference pages list everything that there is: options, elements, properties, messages, pages."""

import inspect
import re
import typing
from pathlib import Path

import click
import pytest
from lxml import etree

from quorate.__main__ import COMMANDS, cli
from quorate.hachannel import Event, Group
from quorate.hachannel.model import messages
from quorate.server.config.properties import PROPERTIES

CODE = re.compile(r"`([^`]+)`")


def page(root: Path, name: str) -> str:
    return (root / "docs" / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """The part of a page below a heading of the second level."""
    match = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    return match[1] if match else ""


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def options(command: click.Command, context: click.Context) -> set[str]:
    """The long options of a command and of its subcommands."""
    found = {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            found |= set() if below is None else options(below, context)
    return found


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_options_of_a_command_are_those_of_its_section(name: str, root: Path) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    text = section(page(root, "commands"), name)
    listed = {
        option
        for cells in rows(text)
        for code in CODE.findall(cells[0])
        for option in re.findall(r"--[a-z-]+", code)
    }
    assert listed == options(command, context) - {"--help"}


def test_the_elements_and_attributes_of_the_configuration_are_in_its_table(root: Path) -> None:
    listed: dict[str, set[str]] = {}
    for cells in rows(section(page(root, "configuration"), "Elements")):
        if len(cells) == 4 and cells[0].startswith("`"):
            listed.setdefault(cells[0].strip("`"), set()).update(CODE.findall(cells[2]))
    dtd = etree.DTD(str(root / "server" / "config" / "a3config.dtd"))
    assert listed == {each.name: {one.name for one in each.attributes()} for each in dtd.iterelements()}


def test_the_properties_of_the_configuration_are_in_its_tables(root: Path) -> None:
    listed = {
        name
        for cells in rows(section(page(root, "configuration"), "Properties"))
        for name in CODE.findall(cells[0])
    }
    assert listed == set(PROPERTIES)


def test_the_messages_of_the_channel_are_in_their_table(root: Path) -> None:
    listed = {
        name
        for cells in rows(section(page(root, "channel-reference"), "Messages"))
        for name in CODE.findall(cells[0])
    }
    changes = {"Admit", "Dismiss"}
    known = {kind.__name__ for kind in typing.get_args(messages.Message)}
    assert listed - changes == known


def test_the_events_of_the_channel_are_in_their_table(root: Path) -> None:
    text = section(page(root, "channel-reference"), "Events")
    missing = [kind.__name__ for kind in typing.get_args(Event) if f"`{kind.__name__}" not in text]
    assert missing == []


def test_the_arguments_and_names_of_a_process_group_are_in_its_tables(root: Path) -> None:
    text = page(root, "group-reference")
    arguments = {name for cells in rows(section(text, "Constructor")) for name in CODE.findall(cells[0])}
    assert arguments == set(inspect.signature(Group).parameters)
    names = {
        name.partition("(")[0]
        for cells in rows(section(text, "Methods and properties"))
        for name in CODE.findall(cells[0])
    }
    assert {name for name in dir(Group) if not name.startswith("_")} - names == set()


def test_the_index_lists_every_page(root: Path) -> None:
    pages = {path.name for path in (root / "docs").glob("*.md")} - {"README.md"}
    text = page(root, "README")
    assert {name for name in pages if f"]({name})" not in text} == set()
