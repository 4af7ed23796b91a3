"""Collects what is wrong in a configuration file, so that one run reports all of it."""

from difflib import get_close_matches

import attrs

from .errors import ConfigError, Problem


@attrs.define
class Report:
    """Problems stop the file from being used; notes do not. ``broken`` is set once the structure is wrong."""

    file: str
    problems: dict[Problem, None] = attrs.field(factory=dict[Problem, None])  # a set that keeps its order
    notes: list[Problem] = attrs.field(factory=list[Problem])
    broken: bool = False

    def problem(self, line: int, message: str) -> None:
        """Record something that must be mended."""
        self.problems.setdefault(Problem(self.file, line, _one_line(message)))

    def note(self, line: int, message: str) -> None:
        """Record a remark."""
        self.notes.append(Problem(self.file, line, _one_line(message)))

    def raise_if_problems(self) -> None:
        """Raise ConfigError with every problem so far, by line, if there is one."""
        if self.problems:
            raise ConfigError(sorted(self.problems, key=lambda problem: problem.line))


def _one_line(message: str) -> str:
    """Names and values of the file may hold line ends, which would break the form of a report."""
    return " ".join(message.split())


def quoted(value: str) -> str:
    """A value of the file in quotes, on one line and not too long."""
    return repr(value if len(value) <= 60 else value[:57] + "...")


def suggestion(word: str, known: list[str], cutoff: float = 0.6) -> str:
    """``; did you mean X?``, or "" if nothing is as near as ``cutoff`` (1 is equal)."""
    lowered = {each.lower(): each for each in known}
    near = get_close_matches(word.lower(), list(lowered), n=1, cutoff=cutoff)
    return f"; did you mean {lowered[near[0]]}?" if near else ""


def alternatives(words: list[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
