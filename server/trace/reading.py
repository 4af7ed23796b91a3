"""The latest reactions of an agent, read from the files of a trace: for a look, not for an audit.

An audit is the business of `quorate.replay`, which reads all replicas and whole servers.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs

__all__ = ["MAX_BYTES", "TracedReaction", "latest_reactions"]

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of the trace so much is looked through, the latest files first; always one file."""


@attrs.frozen
class TracedReaction:
    """A reaction of an agent, as it stands in a trace: see `quorate.engine.reaction.Reaction`."""

    position: int
    now_ns: int
    kind: str
    sender: str
    type: str
    error: str
    sends: int
    duration_ns: int


def latest_reactions(
    directory: Path, agent: str, limit: int, max_bytes: int = MAX_BYTES
) -> list[TracedReaction] | None:
    """Return the latest reactions of an agent, the latest first; None if there is no trace to be read.

    directory: that of the trace of one replica. agent: the id of the agent, as ``#0.0.1025``. Files that
    vanish meanwhile are passed over. Blocks.
    """
    files = _files(directory)
    if not files or find_spec("pyarrow") is None:
        return None
    found: dict[int, TracedReaction] = {}
    looked = 0
    for _, size, path in files:
        if len(found) >= limit or (looked and looked + size > max_bytes):
            break
        looked += size
        for reaction in _read(path, agent, limit):
            # A later life has the reactions again that it has recovered from the journal.
            found.setdefault(reaction.position, reaction)
    return sorted(found.values(), key=lambda each: each.position, reverse=True)[:limit]


def _files(directory: Path) -> list[tuple[int, int, Path]]:
    """Return time, size and path of the files of a trace, the latest first."""
    found: list[tuple[int, int, Path]] = []
    for path in directory.glob("*.parquet"):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append((stat.st_mtime_ns, stat.st_size, path))
    return sorted(found, reverse=True)


def _read(path: Path, agent: str, limit: int) -> list[TracedReaction]:
    """Return the last reactions of an agent in a file; none if it cannot be read."""
    parquet: Any = import_module("pyarrow.parquet")
    lib: Any = import_module("pyarrow")
    try:
        table: Any = parquet.read_table(
            path,
            columns=[each.name for each in attrs.fields(TracedReaction)],
            filters=[("agent", "=", agent)],
            partitioning=None,
        )
    except (OSError, lib.ArrowException):
        return []
    rows: list[dict[str, Any]] = table.slice(max(0, table.num_rows - limit)).to_pylist()
    return [TracedReaction(**row) for row in rows]
