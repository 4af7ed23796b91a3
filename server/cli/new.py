"""`quorate new`: a small project that runs."""

import keyword
import re
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

import click

FILES = {
    "README.md": "README.md",
    "a3servers.xml": "a3servers.xml",
    "{module}.py": "module.py",
    "test_{module}.py": "test_module.py",
    "client.py": "client.py",
}
"""The files of a project, each with its template."""

TEMPLATES = files("quorate.server.cli") / "project"
MAX_NAME_LENGTH = 60


@click.command(short_help="Make a small project: servers, an agent, a client, tests.")
@click.argument("directory", metavar="NAME", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Make the directory NAME with a small project in it: a3servers.xml, an agent, a client and tests.

    The last part of NAME is the name of the project, and of the module of its agents. The directory may exist
    if none of the files does: nothing is overwritten.
    """
    name = directory.resolve().name
    module = module_name(name)
    names = {"name": name, "module": module, "prefix": "-".join(filter(None, module.split("_")))}
    targets = {directory / target.format(module=module): template for target, template in FILES.items()}
    try:
        make_files(directory, targets, names)
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(
            f"{error.filename or directory}: {reason}; nothing more was written"
        ) from None
    click.echo(f"{directory}: {', '.join(path.name for path in targets)}.")
    click.echo(
        f"Go on with: cd {shlex.quote(str(directory))}; quorate up a3servers.xml; README.md says the rest."
    )


def module_name(name: str) -> str:
    """Return the name of the module for a project of this name. Raises UsageError if there is none."""
    module = re.sub(r"[-. ]", "_", name).lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or len(module) > MAX_NAME_LENGTH:
        raise click.UsageError(
            f"{name!r} cannot be the name of a project: it has a letter, then letters, digits, "
            f"'-' and '_', at most {MAX_NAME_LENGTH} characters"
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in {"quorate", "client"}:
        raise click.UsageError(
            f"{name!r} cannot be the name of a project: Python or quorate has a module {module}; take another"
        )
    return module


def make_files(directory: Path, targets: dict[Path, str], names: dict[str, str]) -> None:
    """Write the files from their templates. Raises UsageError, before anything is written, if one exists."""
    existing = [path.name for path in targets if path.exists() or path.is_symlink()]
    if existing:
        raise click.UsageError(f"{directory} has {', '.join(existing)} already; take another name")
    directory.mkdir(parents=True, exist_ok=True)
    for path, template in targets.items():
        text = (TEMPLATES / f"{template}.tmpl").read_text(encoding="utf-8")
        with path.open("x", encoding="utf-8") as file:
            file.write(Template(text).substitute(names))
