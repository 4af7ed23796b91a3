"""The XML tree of a file: its size, encoding and syntax are checked, and each element has its line.

Nothing outside the file is read: no external DTD, no entity, no network, no XInclude.
"""

import codecs
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, cast

from lxml import etree

from .dtd import Element, check_vocabulary, local_name
from .errors import ConfigError, Problem
from .report import Report, quoted
from .syntax_errors import syntax_sentence

MAX_FILE_BYTES = 1 << 20
"""A configuration of ten thousand servers fits; anything larger is not a configuration."""


class _DocInfo(Protocol):
    encoding: str | None


class _Tree(Protocol):
    docinfo: _DocInfo


class _Node(Protocol):
    """The part of lxml's element used here; a comment or an entity has a function for its tag."""

    tag: object
    text: str | None
    tail: str | None
    sourceline: int | None
    attrib: Mapping[str, str]

    def __iter__(self) -> "Iterator[_Node]": ...
    def iter(self) -> "Iterable[_Node]": ...
    def getroottree(self) -> _Tree: ...


def read_tree(path: Path, report: Report) -> Element:
    """Return the tree of a file whose structure is checked.

    Structural problems go to ``report``. Raises ConfigError if nothing more can be read.
    """
    root, tree = _read(path, report)
    check_vocabulary(tree, root, report)
    report.broken = bool(report.problems)
    if tree.tag != "config":
        report.raise_if_problems()
    return tree


def read_elements(path: Path, report: Report) -> Element:
    """Return the tree of a file of another vocabulary. Raises ConfigError if it cannot be read."""
    return _read(path, report)[1]


def _read(path: Path, report: Report) -> tuple[_Node, Element]:
    data = _read_bytes(path, report.file)
    root = _parse(data, report)
    lines = _start_lines(data, root, report)
    report.raise_if_problems()
    return root, _with_lines(root, lines, report)


def _read_bytes(path: Path, name: str) -> bytes:
    def refuse(message: str) -> ConfigError:
        return ConfigError([Problem(name, 0, message)])

    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise refuse("this is a directory; give the path of an a3servers.xml file.")
        if not stat.S_ISREG(status.st_mode):
            raise refuse("this is not a regular file; give the path of an a3servers.xml file.")
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise refuse("there is no such file; check the path.") from None
    except PermissionError:
        raise refuse(
            "the file cannot be read: permission denied; give this user the right to read it."
        ) from None
    except OSError as error:
        raise refuse(f"the file cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise refuse(f"this is not a usable path: {error}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise refuse(
            f"the file is larger than {MAX_FILE_BYTES // 1024} KiB; a configuration must be smaller."
        )
    return data


def _parse(data: bytes, report: Report) -> _Node:
    if not data.strip():
        report.problem(1, "the file is empty; it must hold a <config> element.")
        report.raise_if_problems()
    if b"\0" in data[:4] and not data.startswith(_MARKS) and b"<?" not in data[:8].replace(b"\0", b""):
        report.problem(
            1, "the file is UTF-16 or UTF-32 without a mark or a declaration that says so; save it as UTF-8."
        )
        report.raise_if_problems()
    declared = re.match(rb"\s*<\?xml[^>]*encoding\s*=\s*[\"'](utf-?16|utf-?32)", data, re.IGNORECASE)
    if declared:
        encoding = declared.group(1).decode()
        report.problem(
            1, f"the file declares the encoding {encoding} but is not written in it; declare UTF-8."
        )
        report.raise_if_problems()
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return cast(_Node, etree.fromstring(data, parser))
    except etree.XMLSyntaxError as error:
        # The later errors of the parser are consequences of the first.
        for entry in parser.error_log:
            report.problem(max(entry.line, 1), syntax_sentence(entry.type_name or "", entry.message))
            break
        else:
            report.problem(max(error.lineno or 1, 1), f"the file is not well-formed XML: {error.msg}.")
    except (ValueError, LookupError, etree.LxmlError) as error:
        report.problem(1, f"the file is not well-formed XML: {error}.")
    report.raise_if_problems()
    raise AssertionError("unreachable")


_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""Byte order marks of UTF-16 and UTF-32; that of UTF-32, little end first, begins with that of UTF-16."""

_SCAN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>"
    r"|(?P<subset><!DOCTYPE[^>\[]*\[)|<!DOCTYPE[^>]*>|<(?P<tag>[^\s/!?<>]+)"
    r"|&(?P<entity>(?!(?:amp|lt|gt|quot|apos);|#)[^\s;&<>\"']{1,80});",
    re.DOTALL,
)


def _start_lines(data: bytes, root: _Node, report: Report) -> list[int]:
    """Return the line on which each start tag begins, in document order; lxml has the line on which it ends.

    Definitions in the DOCTYPE, and references to them, are reported here.
    """
    encoding = root.getroottree().docinfo.encoding or "UTF-8"
    try:
        text = data.decode(encoding, errors="replace")
    except LookupError:
        text = data.decode("latin-1")
    lines: list[int] = []
    line, position = 1, 0
    for match in _SCAN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        if match["subset"]:
            report.problem(
                line,
                "the DOCTYPE holds definitions; entities and declarations are not supported: remove [ ... ].",
            )
            break
        if match["entity"]:
            report.problem(
                line, f"&{match['entity']}; is an entity; they are not supported: write the text itself."
            )
        elif match["tag"]:
            lines.append(line)
    return lines


def _with_lines(root: _Node, lines: list[int], report: Report) -> Element:
    elements = [node for node in root.iter() if isinstance(node.tag, str)]
    exact = len(lines) == len(elements)
    built: dict[_Node, Element] = {}
    # From the last to the first: children stand before their parents.
    for index in range(len(elements) - 1, -1, -1):
        node = elements[index]
        line = lines[index] if exact else node.sourceline or 1
        children = tuple(built[child] for child in node if isinstance(child.tag, str))
        attributes = dict(node.attrib)
        built[node] = Element(str(node.tag), line, attributes, children)
        texts = [node.text or "", *(child.tail or "" for child in node)]
        stray = next((text.strip() for text in texts if text.strip()), None)
        if stray is not None:
            report.problem(line, f"<{local_name(str(node.tag))}> holds the text {quoted(stray)}; remove it.")
    return built[root]
