"""The replicas that ought to have a trace: those of the configuration that the trace files have."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from .discovery import ReplicaDirectory
from .schema import Origin

__all__ = ["Absences", "find_absences"]

Named = tuple[str, int]
"""The name of a server, and a replica."""


@attrs.frozen
class Absences:
    """What is said of replicas without a trace."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find_absences(
    origins: Sequence[Origin], bare: Sequence[ReplicaDirectory], server: str | None = None
) -> Absences:
    """Return which replicas have no trace and ought to have one; `server`, a name, leaves the others out.

    A replica ought to have a trace if another replica of its server has one and the configuration of the
    latest incarnation declares it, or, when no file has a configuration, if its directory is there. One that
    only an earlier configuration declares is a note, and so is a server without any trace: perhaps none of
    its agents has reacted. Replicas that write no trace by their configuration are passed over.
    """
    present = {(origin.server, origin.replica) for origin in origins}
    described = [origin for origin in origins if origin.replicas]
    latest = max(described, key=lambda origin: origin.incarnation, default=None)
    now = _declared([] if latest is None else [latest])
    before = _declared(described)
    directories = {(each.server, each.replica): each for each in bare}
    unknown: set[Named] = set() if described else set(directories) - present
    traced = {name for name, _ in present}
    missing = [each for each in sorted((now | unknown) - present) if server in (None, each[0])]
    problems = [
        f"{_named(each)} has no readable trace, though {_why(each, now, directories)}"
        for each in missing
        if each[0] in traced
    ]
    former = [
        f"{_named(each)} has no readable trace; it was declared by an earlier configuration, and is no longer"
        for each in sorted(before - now - present)
        if server in (None, each[0])
    ]
    untraced = [
        f"{name}: none of its replicas has a readable trace, so none of it was checked: did no agent react?"
        for name in sorted({name for name, _ in missing} - traced)
    ]
    return Absences(tuple(problems), (*former, *untraced))


def _declared(origins: Iterable[Origin]) -> set[Named]:
    return {(name, each) for origin in origins for name, ids in origin.replicas.items() for each in ids}


def _named(replica: Named) -> str:
    return f"{replica[0]}: replica {replica[1]}"


def _why(replica: Named, declared: set[Named], directories: Mapping[Named, ReplicaDirectory]) -> str:
    directory = directories.get(replica)
    if directory is None:
        return "the configuration declares it"
    if replica in declared:
        return f"the configuration declares it and {directory.path} is its directory"
    return f"{directory.path} is its directory"
