"""The vocabulary of a configuration file, as the DTD declares it, and departures from it.

The DTD is the one shipped with this package, whatever DOCTYPE a file names.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Protocol, cast

import attrs
from lxml import etree

from .report import Report, alternatives, quoted, suggestion


@attrs.frozen(eq=False)
class Element:
    """An element, with the line on which it starts."""

    tag: str
    line: int
    attributes: Mapping[str, str]
    children: tuple["Element", ...]

    def get(self, name: str) -> str | None:
        """Return the text of an attribute, None if it is absent."""
        return self.attributes.get(name)

    def all(self, *tags: str) -> list["Element"]:
        """Return the children with one of those names, in the order of the file."""
        return [child for child in self.children if child.tag in tags]


@attrs.frozen
class _Declared:
    attributes: Mapping[str, tuple[str, ...]]
    required: tuple[str, ...]
    children: tuple[str, ...]


class _Content(Protocol):
    """A node of a content model, a binary tree."""

    name: str | None
    left: "_Content | None"
    right: "_Content | None"


class _AttributeDeclaration(Protocol):
    name: str
    default: str

    def values(self) -> list[str]: ...


class _ElementDeclaration(Protocol):
    name: str
    content: _Content | None

    def iterattributes(self) -> Iterable[_AttributeDeclaration]: ...


class _LogEntry(Protocol):
    line: int
    message: str


class _Dtd(Protocol):
    """The part of lxml's DTD used here; the stubs do not have all of it."""

    error_log: Iterable[_LogEntry]

    def iterelements(self) -> Iterable[_ElementDeclaration]: ...
    def validate(self, etree: object) -> bool: ...


@cache
def _dtd() -> _Dtd:
    text = Path(__file__).with_name("a3config.dtd").read_bytes()
    return cast(_Dtd, etree.DTD(BytesIO(text)))


@cache
def _vocabulary() -> dict[str, _Declared]:
    """Return the declarations of the DTD by element. Its content models are ``EMPTY`` or ``(a | b)*``."""
    table: dict[str, _Declared] = {}
    for element in _dtd().iterelements():
        attributes = list(element.iterattributes())
        children: list[str] = []
        pending: list[_Content | None] = [element.content]
        while pending:
            node = pending.pop()
            if node is not None:
                if node.name is not None:
                    children.append(node.name)
                pending += [node.right, node.left]
        table[element.name] = _Declared(
            attributes={each.name: tuple(each.values()) for each in attributes},
            required=tuple(each.name for each in attributes if each.default == "required"),
            children=tuple(children),
        )
    return table


def check_vocabulary(root: Element, parsed: object, report: Report) -> None:
    """Report every departure from the DTD. ``parsed`` is lxml's element for the same root.

    The validation by lxml is added if it finds an error that the checks here do not.
    """
    before = len(report.problems)
    _check_elements(root, report)
    dtd = _dtd()
    if len(report.problems) == before and not dtd.validate(parsed):
        for entry in dtd.error_log:
            report.problem(max(entry.line, 1), f"the file does not follow a3config.dtd: {entry.message}.")


def _check_elements(root: Element, report: Report) -> None:
    vocabulary = _vocabulary()
    if root.tag != "config":
        hint = ": remove the xmlns attribute" if root.tag.startswith("{") else ""
        report.problem(root.line, f"the root element is <{_named(root.tag)}>; it must be <config>{hint}.")
        return
    pending = [root]
    while pending:
        element = pending.pop()
        declared = vocabulary[element.tag]
        _check_attributes(element, declared, report)
        for child in element.children:
            if child.tag in declared.children:
                pending.append(child)
                continue
            report.problem(child.line, _misplaced(element.tag, child.tag, declared.children, vocabulary))


def _misplaced(parent: str, tag: str, allowed: tuple[str, ...], vocabulary: Mapping[str, _Declared]) -> str:
    if tag == "{http://www.w3.org/2001/XInclude}include":
        return "XInclude is not supported; write the included elements here."
    if tag.startswith("{"):
        return f"<{_named(tag)}> belongs to an XML namespace; element names here have none: remove xmlns."
    if tag in vocabulary:
        homes = [f"<{name}>" for name, declared in vocabulary.items() if tag in declared.children]
        where = f"; move it into {alternatives(homes)}" if homes else ""
        return f"<{tag}> cannot stand in <{parent}>{where}."
    near = suggestion(tag, list(allowed))
    if near:
        return f"<{tag}> is not an element of <{parent}>{near}"
    may = (
        f"it may hold {alternatives([f'<{each}>' for each in allowed])}"
        if allowed
        else "it holds no elements"
    )
    return f"<{tag}> is not an element of <{parent}>; remove it: {may}."


def _check_attributes(element: Element, declared: _Declared, report: Report) -> None:
    for name, value in element.attributes.items():
        allowed = declared.attributes.get(name)
        if allowed is None:
            known = list(declared.attributes)
            near = suggestion(name, [each for each in known if each not in element.attributes])
            hint = near or f"; remove it: it knows {alternatives(known)}."
            report.problem(
                element.line,
                f"<{element.tag}> has no attribute {_named(name)}{hint}",
            )
        elif allowed and value not in allowed:
            report.problem(
                element.line, f"{name} must be {alternatives(list(allowed))}, not {quoted(value)}."
            )
    for name in declared.required:
        if name not in element.attributes:
            report.problem(element.line, f"<{element.tag}> needs the attribute {name}; add it.")


def local_name(tag: str) -> str:
    """Return ``name`` of ``{namespace}name``."""
    return tag.rpartition("}")[2]


def _named(tag: str) -> str:
    """Return ``{namespace}name`` as it is written in the file: ``name xmlns='namespace'``."""
    return f"{local_name(tag)} xmlns={tag[1:].partition('}')[0]!r}" if tag.startswith("{") else tag
