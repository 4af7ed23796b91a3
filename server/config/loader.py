"""The configuration of a set of agent servers: ``load`` an ``a3servers.xml``, or learn what is wrong in it.

The vocabulary is that of section 4.6 of the HA Joram specification, with a few attributes more; see
docs/configuration.md and a3config.dtd.
"""

import os
from pathlib import Path

from .checks import check
from .model import (
    Config,
)
from .properties import check_combinations, check_properties, check_replicas_agree
from .reader import read
from .report import Report
from .xml import read_tree

__all__ = ["load"]


def load(path: str | os.PathLike[str], *, check_services: bool = True) -> Config:
    """Read and check a configuration file.

    ``check_services`` imports the classes of services that are not built in, as a server would; without
    it only their names are checked. Raises ConfigError, whose ``problems`` has all that is wrong.
    """
    place = Path(path)
    # A name that is not text in this locale must not break the printing of a problem.
    report = Report(os.fsencode(place).decode(errors="replace"))
    tree = read_tree(place, report)
    draft = read(tree, report, check_services)
    servers = check(draft, report)
    check_properties(tree, report)
    config = Config(
        path=place,
        domains=tuple(name for name, _ in draft.domains),
        servers=servers,
        properties=draft.properties,
        name=draft.name,
        notes=tuple(sorted(report.notes, key=lambda note: note.line)),
    )
    if not report.problems:
        check_replicas_agree(config, report)
        check_combinations(config, tree, report)
    report.raise_if_problems()
    return config
