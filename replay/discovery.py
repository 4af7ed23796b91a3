"""The search for trace files in the places that a user names."""

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from .errors import NoTrace
from .removed import CLOSED_FILE, Removed

__all__ = ["FoundFiles", "ReplicaDirectory", "Traces", "find_files"]

SUFFIX = ".parquet"
HIDDEN = ("_", ".")
UNFINISHED = SUFFIX + ".part"
TRACE_DIRECTORY = "trace"
REPLICA_FILES = frozenset((TRACE_DIRECTORY, "journal.db", "log", "pid"))

Traces = str | Path | Iterable[str | Path]
"""The traces of a replay: files, directories (searched) or globs."""


@attrs.frozen
class ReplicaDirectory:
    """The directory of a replica, ``DATA/<server>/<replica>``, in which there is no finished trace file."""

    path: Path
    server: str
    replica: int


@attrs.frozen
class FoundFiles:
    """The result of a search."""

    paths: tuple[Path, ...]
    """The trace files, sorted. No two are the same file."""
    problems: tuple[str, ...] = ()
    """One line for each place that cannot be opened, is no trace or holds none, with its path."""
    notes: tuple[str, ...] = ()
    """One line for each file that was left out and is no fault."""
    bare: tuple[ReplicaDirectory, ...] = ()
    removed: Mapping[int, int] = attrs.field(factory=dict[int, int])
    """By the id of a server: up to which position retention has removed files of its traces."""


def find_files(traces: Traces) -> FoundFiles:
    """Find every trace file in or below the given places; symbolic links are followed.

    Raises NoTrace when a place does not exist or when there is no file at all.
    """
    places = [traces] if isinstance(traces, str | Path) else list(traces)
    search = _Search()
    for place in places:
        search.add(str(place))
    if not search.paths:
        where = ", ".join(str(place) for place in places)
        what = f"there is no trace file ({SUFFIX}) in {where}"
        raise NoTrace(
            f"{what}; {search.problems[0]}."
            if search.problems
            else f"{what}: has the server written one yet?"
        )
    for place in search.empty:
        search.problems.append(f"{place}: there is no trace file in it")
    return FoundFiles(
        tuple(sorted(search.paths.values())),
        tuple(dict.fromkeys(search.problems)),
        tuple(dict.fromkeys(search.notes)),
        tuple(dict.fromkeys(search.bare)),
        search.removed,
    )


class _Search:
    """The files that were found so far, and what is wrong with the places."""

    def __init__(self) -> None:
        self.paths: dict[Path, Path] = {}
        """The path of each file by its real path."""
        self.empty: list[str] = []
        """The places without a file."""
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.bare: list[ReplicaDirectory] = []
        self.removed: dict[int, int] = {}

    def add(self, place: str) -> None:
        """Add the files in or below a place. Raises NoTrace if there is no such place."""
        if may_exist(place):
            files = list(self._files(Path(place).absolute(), named=True))
        else:
            matches = sorted(glob.glob(place, recursive=True))
            if not matches:
                raise NoTrace(
                    f"there is no {place}: give the data directory of a server, or its trace files."
                )
            files = [file for path in matches for file in self._files(Path(path).absolute(), named=False)]
        if not files:
            self.empty.append(place)
        for file in files:
            first = self.paths.setdefault(file.resolve(), file)
            if first != file:
                self.notes.append(f"{file}: it is the same file as {first}, which is read once")

    def _files(self, path: Path, *, named: bool) -> Iterator[Path]:
        """Yield a file, or the files below a directory. `named`: the user gave this path itself."""
        kind = self._kind(path)
        if kind == "directory":
            yield from self._below(path)
        elif kind == "file" and self._is_readable(path):
            yield path
        elif kind == "file" and (named or path.name.endswith(UNFINISHED)):
            self._left_out(path)

    def _below(self, top: Path) -> Iterator[Path]:
        """Yield the files below a directory. Each directory is searched once, links to directories last."""
        searched: dict[Path, Path] = {}
        waiting, links, replicas = [top], list[Path](), list[Path]()
        traced: set[Path] = set()
        while waiting or links:
            directory = waiting.pop() if waiting else links.pop(0)
            first = searched.setdefault(directory.resolve(), directory)
            if first != directory:
                self.notes.append(f"{directory}: it is a link to {first}, which is read once")
                continue
            entries = self._entries(directory)
            if directory.name.isdecimal() and REPLICA_FILES.intersection(entry.name for entry in entries):
                replicas.append(directory)
            finished: list[str] = []
            for entry in entries:
                kind = self._kind(entry)
                if kind == "directory":
                    (links if entry.is_symlink() else waiting).append(entry)
                elif kind == "file" and self._is_readable(entry):
                    finished.append(entry.name)
                    traced.add(directory.parent)
                    yield entry
                elif kind == "file" and entry.name.endswith(UNFINISHED):
                    self._left_out(entry)
            if directory.name == TRACE_DIRECTORY:
                removed = Removed.read(directory)
                if removed.position:
                    before = self.removed.get(removed.server, 0)
                    self.removed[removed.server] = max(before, removed.position)
                missing = missing_names(finished, removed.numbers)
                self.problems += [f"{directory}: there is no {names}" for names in missing]
        if traced:
            self.bare += [
                ReplicaDirectory(path, path.parent.name, int(path.name))
                for path in sorted(replicas)
                if path not in traced
            ]

    def _entries(self, directory: Path) -> list[Path]:
        try:
            return sorted(directory.iterdir())
        except OSError as error:
            self.problems.append(f"{directory}: it cannot be searched: {reason(error)}")
            return []

    def _kind(self, path: Path) -> str:
        """Return "file" or "directory"; "" for a path that is of no use."""
        try:
            mode = path.stat().st_mode
        except OSError as error:
            what = f"it is a link to {os.readlink(path)} and" if os.path.islink(path) else "it"
            self.problems.append(f"{path}: {what} cannot be opened: {reason(error)}")
            return ""
        if stat.S_ISDIR(mode):
            return "directory"
        if stat.S_ISREG(mode):
            return "file"
        if path.name.endswith(SUFFIX):
            self.problems.append(f"{path}: it is neither a file nor a directory")
        return ""

    def _is_readable(self, path: Path) -> bool:
        """Return whether Spark reads a file by its name."""
        hidden = path.name.startswith(HIDDEN)
        if hidden and path.name.endswith(SUFFIX):
            self.problems.append(f"{path}: Spark passes over names that begin with {path.name[0]}: rename it")
        return path.name.endswith(SUFFIX) and not hidden

    def _left_out(self, path: Path) -> None:
        if path.name.endswith(UNFINISHED):
            self.notes.append(f"{path}: it is not finished; its rows are not read")
        else:
            self.problems.append(f"{path}: its name does not end in {SUFFIX}, so it is no trace file")


def may_exist(place: str) -> bool:
    """Return False if there is no such path; True also if the permission to look is missing."""
    try:
        os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def missing_names(names: Sequence[str], removed: Mapping[int, int] | None = None) -> list[str]:
    """Return the names that are missing in a directory: "5-000001.parquet" or "FIRST to LAST".

    The files of an incarnation are numbered from 1. removed: by incarnation, up to which number files were
    removed on purpose.
    """
    numbers: dict[str, list[int]] = {}
    for name in names:
        match = CLOSED_FILE.fullmatch(name)
        if match is not None:
            numbers.setdefault(match[1], []).append(int(match[2]))
    missing: list[str] = []
    for incarnation, found in sorted(numbers.items()):
        before = (removed or {}).get(int(incarnation), 0)
        for number in sorted(each for each in found if each > before):
            first, last = (f"{incarnation}-{each:06d}{SUFFIX}" for each in (before + 1, number - 1))
            if number > before + 1:
                missing.append(first if first == last else f"{first} to {last}")
            before = number
    return missing


def reason(error: OSError) -> str:
    """Return why the operating system refused, as a few words."""
    return (error.strerror or type(error).__name__).lower()
