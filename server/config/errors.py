"""Problems in a configuration file, and lookups that fail in a configuration."""

from collections.abc import Sequence

import attrs

MAX_PROBLEMS = 100
"""Problems listed for one file; the rest are counted."""


@attrs.frozen
class Problem:
    """One thing that is wrong with a line of a file, or worth knowing. Line 0 is the file as a whole."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.message}"


class ConfigError(Exception):
    """The file cannot be used. ``problems`` lists everything that is wrong with it, ``notes`` the remarks on
    it, both by line."""

    exit_code = 1

    def __init__(self, problems: list[Problem], notes: Sequence[Problem] = ()) -> None:
        if len(problems) > MAX_PROBLEMS:
            rest = len(problems) - MAX_PROBLEMS
            last = Problem(problems[0].file, 0, f"{rest} more problems are not shown; mend these first.")
            problems = [*problems[:MAX_PROBLEMS], last]
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems
        self.notes = tuple(notes)


class UnknownName(LookupError):
    """The configuration does not have that server or replica; the text names those that it has."""

    exit_code = 1

    def __str__(self) -> str:
        return str(self.args[0])


class NoRoute(LookupError):
    """Two servers share no domain, directly or through other servers."""

    exit_code = 1

    def __str__(self) -> str:
        return str(self.args[0])
