"""A report collects the problems of a configuration file, so that one run shows all of them."""

from difflib import get_close_matches

import attrs

from .errors import ConfigError, Problem


@attrs.define
class Report:
    """Problems, which make the file unusable, and notes. ``broken``: the structure of the file is wrong."""

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
        """Raise ConfigError with all problems and notes so far, by line, if there are any problems."""
        if self.problems:
            raise ConfigError(sorted(self.problems, key=lambda problem: problem.line), self.notes_by_line())

    def notes_by_line(self) -> tuple[Problem, ...]:
        """Return the notes in the order of their lines."""
        return tuple(sorted(self.notes, key=lambda note: note.line))


def _one_line(message: str) -> str:
    """Return a message on one line: names and values from the file may hold line ends."""
    return " ".join(message.split())


def quoted(value: str) -> str:
    """Return a value of the file in quotes, on one line and not too long."""
    return repr(value if len(value) <= 60 else value[:57] + "...")


def suggestion(word: str, known: list[str], cutoff: float = 0.6) -> str:
    """Return the end of a sentence, ``; did you mean X?``, or "" if no word is similar.

    ``cutoff`` is the least similarity; 1 is equal.
    """
    lowered = {each.lower(): each for each in known}
    near = get_close_matches(word.lower(), list(lowered), n=1, cutoff=cutoff)
    return f"; did you mean {lowered[near[0]]}?" if near else ""


def alternatives(words: list[str]) -> str:
    """Return ``a``, ``a or b``, or ``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
