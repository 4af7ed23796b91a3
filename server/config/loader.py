"""`load` reads and checks an ``a3servers.xml``, the configuration of a set of agent servers.

Section 4.6 of the HA Joram specification defines its vocabulary; Quorate adds a few attributes. See
docs/configuration.md and a3config.dtd.
"""

import os
from pathlib import Path

from .checks import check
from .exposure import check_exposure
from .model import Config
from .properties import check_combinations, check_properties, check_replicas_agree
from .reader import read
from .report import Report
from .tls import check_tls
from .values import with_values
from .xml import read_tree

__all__ = ["load"]


def load(path: str | os.PathLike[str], *, check_imports: bool = True) -> Config:
    """Read and check a configuration file.

    check_imports: import the classes of services that are not built in, and the modules of the property
    agent_modules, as a server would when it starts; without it only their names are checked.
    Raises ConfigError, whose ``problems`` lists everything that is wrong.
    """
    place = Path(path)
    # A name that is not text in this locale must not break the printing of a problem.
    report = Report(os.fsencode(place).decode(errors="replace"))
    tree = with_values(read_tree(place, report), place.parent, report)
    draft = read(tree, report, check_imports)
    servers = check(draft, report)
    check_properties(tree, report, check_imports)
    config = Config(
        path=place,
        domains=tuple(name for name, _ in draft.domains),
        servers=servers,
        properties=draft.properties,
        name=draft.name,
        causal=draft.causal,
        notes=report.notes_by_line(),
    )
    if not report.problems:
        check_replicas_agree(config, report)
        check_combinations(config, tree, report)
        check_exposure(config, report)
        check_tls(config, report)
    report.raise_if_problems()
    return config
