"""Values of properties that stand outside of the file: in another file, or in the environment."""

import os
from pathlib import Path

import attrs

from ...text_files import read_text, reason
from .digest import PLACE_PROPERTIES
from .dtd import Element
from .report import Report, quoted

__all__ = ["with_values"]

MAX_BYTES = 64 * 1024
"""The largest file with a value."""


def with_values(tree: Element, directory: Path, report: Report) -> Element:
    """Return the configuration with the values that its properties take from elsewhere.

    A file of a relative name is looked for in `directory`, that of the configuration.
    """
    children = tuple(with_values(child, directory, report) for child in tree.children)
    if tree.tag == "property":
        return attrs.evolve(tree, attributes=_attributes(tree, directory, report))
    return tree if children == tree.children else attrs.evolve(tree, children=children)


def _attributes(element: Element, directory: Path, report: Report) -> dict[str, str]:
    found = {name: text for name, text in element.attributes.items() if name not in ("file", "env")}
    sources = [name for name in ("value", "file", "env") if element.get(name) is not None]
    name = quoted(element.get("name") or "")
    if len(sources) != 1:
        text = "has no value; give it" if not sources else f"has {' and '.join(sources)}; give it only"
        report.problem(element.line, f"the property {name} {text} one of value, file and env.")
        return found
    place = element.get(sources[0]) or ""
    if found.get("name") in PLACE_PROPERTIES and sources == ["value"] and place:
        # The server may be started elsewhere.
        found["value"] = str(directory.absolute() / place)
    elif sources == ["file"]:
        try:
            found["value"] = _read(directory / place)
        except (OSError, ValueError) as error:
            report.problem(element.line, f"the property {name}: the file {quoted(place)}: {reason(error)}.")
    elif sources == ["env"]:
        value = os.environ.get(place)
        if value is None:
            report.problem(
                element.line, f"the property {name}: there is no variable {quoted(place)} in the environment."
            )
        else:
            found["value"] = value
    return found


def _read(path: Path) -> str:
    """Return the text of a file without the end of its last line. Raises OSError, ValueError."""
    return read_text(path, MAX_BYTES).removesuffix("\n").removesuffix("\r")
