"""The documentation site: `make docs` builds it from the pages of the repository and the docstrings."""

import importlib.metadata
import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent

project = "Quorate"
release = importlib.metadata.version("quorate")
html_title = f"Quorate {release}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
# The source directory is the repository: a link between two pages works here and on a code host alike.
root_doc = "README"
include_patterns = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = ["docs/site"]
html_theme = "furo"
html_extra_path = ["site"]
html_show_sphinx = False
html_show_copyright = False

myst_heading_anchors = 4
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True

# A name between single backquotes in a docstring is a link where it can be resolved, else it is code.
default_role = "py:obj"
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# The first line of a session is not Python; a field that several classes have is a target of several classes.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]


def contents() -> str:
    """Return the table of contents: the rows of docs/README.md under its captions, then the reference."""
    trees: list[str] = []
    for caption, rows in re.findall(
        r"^\*\*(\w+)\*\*.*?\n((?:\n|\|.*\n)+)", (DOCS / "README.md").read_text(), re.M
    ):
        targets = re.findall(r"^\| \[[^]]*\]\(([^)]+)\.md\)", rows, re.M)
        pages = [page[3:] if page.startswith("../") else f"docs/{page}" for page in targets]
        trees.append(toctree(caption, [page for page in pages if page != root_doc]))
    trees.append(toctree("Python", ["docs/api/*"], "glob"))
    trees.append(toctree("Project", ["docs/README", "CHANGELOG"]))
    return "\n".join(trees)


def toctree(caption: str, pages: list[str], option: str = "hidden") -> str:
    """Return the directive for one group of pages."""
    options = "".join(f":{name}:\n" for name in sorted({option, "hidden"}))
    return f"\n```{{toctree}}\n:caption: {caption}\n{options}\n" + "\n".join(pages) + "\n```\n"


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append a table of contents to the two pages that need one; their files stay plain Markdown."""
    if name == app.config.root_doc:
        source[0] += contents()
    elif name == "docs/decisions/README":
        source[0] += toctree("Decisions", ["0*"], "glob")


def setup(app: Sphinx) -> None:
    """Register the hook."""
    app.connect("source-read", add_contents)
