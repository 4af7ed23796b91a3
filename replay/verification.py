"""Verification that the traces of a server's replicas are whole and equal."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import attrs

from .discovery import Traces
from .errors import NoTrace, ReplayError
from .faults import RowFindings, ServerFindings, Triage, compare_rows, find_faults, triage
from .files import SourceId
from .frames import Progress, Trace, ignore, open_trace
from .queries import Session, queries_of
from .reports import Divergence, Report, ServerReport, Side, Span
from .schema import CONTENT
from .survey import Block, block_bounds, block_details, expected_digests, rows_at, survey

__all__ = ["verify", "verify_trace"]

DETAIL_BLOCKS = 64
"""Blocks that are compared row by row at a time, to bound the memory of the driver."""
MAX_VALUE_SHOWN = 200


def verify(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check the traces of all replicas below ``traces``: files, directories (searched) or globs.

    A replica that was killed, or that joined late, has less of the trace: that is no fault. Faults are a hole
    inside what one incarnation wrote, a position twice, a position that no replica has, and a position at
    which two replicas recorded different reactions. ``server``, a name or an id, leaves the others out.
    ``progress`` is called with a few words when a step begins.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    return verify_trace(session, open_trace(traces, server, progress), progress)


def verify_trace(session: Session, trace: Trace, progress: Progress | None = None) -> Report:
    """Check a trace; see `verify`."""
    report_step = progress or ignore
    began = time.monotonic()
    expected_rows = trace.expected_rows()
    if not expected_rows:
        raise NoTrace("the trace files hold no reaction of that server.")
    report_step(f"reading {sum(expected_rows.values()):,} rows in {len(trace.files.paths):,} files")
    blocks = trace.run(session, survey)
    check_counts(blocks, trace.expected_rows())
    expected = expected_digests(
        queries_of(session), [block.number for block in blocks if may_be_whole(block)]
    )
    by_server = {key: list(group) for key, group in groupby(blocks, key=lambda block: block.server_id)}
    triaged = {key: triage(group, expected) for key, group in by_server.items()}
    row_findings = compare_in_rows(session, trace, triaged, report_step)
    servers: list[ServerReport] = []
    for server_id, result in triaged.items():
        dropped = {key[1:]: rows for key, rows in trace.files.dropped.items() if key[0] == server_id}
        finding = find_faults(result, row_findings[server_id], dropped)
        servers.append(server_report(session, trace, by_server[server_id][0], finding))
    absences = trace.absences()
    return Report(
        servers=tuple(servers),
        bad_files=trace.files.bad,
        absent=absences.problems,
        remarks=(*trace.files.notes, *absences.notes),
        files=len(trace.files.paths),
        rows=sum(source.rows for found in servers for source in found.sources),
        program=queries_of(session).name,
        seconds=time.monotonic() - began,
    )


def check_counts(blocks: Sequence[Block], expected: Mapping[SourceId, int]) -> None:
    """Raise ReplayError if not exactly the rows that the files have by their footers were read."""
    read: Counter[SourceId] = Counter()
    for block in blocks:
        read[block.server_id, block.replica, block.incarnation] += block.rows
    for source in sorted(read.keys() | expected.keys()):
        if read[source] != expected.get(source, 0):
            server, replica, incarnation = source
            raise ReplayError(
                f"{read[source]:,} rows were read of server {server}, replica {replica}, incarnation "
                f"{incarnation}, and its files have {expected.get(source, 0):,}: were they changed meanwhile?"
            )


def may_be_whole(block: Block) -> bool:
    """Return whether a block has as many rows as it has positions."""
    return block.rows == len(block_bounds(block.number))


def compare_in_rows(
    session: Session, trace: Trace, triaged: dict[int, Triage], report_step: Progress
) -> dict[int, list[RowFindings]]:
    """Compare the rows of all blocks in doubt, some blocks at a time."""
    found: dict[int, list[RowFindings]] = {server_id: [] for server_id in triaged}
    wanted = [(key, number) for key, each in triaged.items() for number in sorted(each.details)]
    for start in range(0, len(wanted), DETAIL_BLOCKS):
        part = wanted[start : start + DETAIL_BLOCKS]
        report_step(f"comparing the rows of {len(part)} of {len(wanted)} blocks of positions")
        details = trace.run(session, partial(block_details, blocks=part))
        for server_id in triaged:
            own = [detail for detail in details if detail.server_id == server_id]
            if own:
                found[server_id].append(compare_rows(own))
    return found


def server_report(session: Session, trace: Trace, block: Block, finding: ServerFindings) -> ServerReport:
    """Return the report of one server."""
    divergence = None
    if finding.difference is not None:
        position = finding.difference
        rows = trace.run(session, partial(rows_at, server_id=block.server_id, position=position))
        divergence = describe(rows, position, finding.later)
    return ServerReport(
        server=block.server,
        server_id=block.server_id,
        sources=tuple(
            attrs.evolve(
                source, accepted=trace.accepted((block.server_id, source.replica, source.incarnation))
            )
            for source in finding.sources
        ),
        last=finding.last,
        uncovered=above(finding.uncovered, trace.files.removed.get(block.server_id, 0)),
        removed=min(trace.files.removed.get(block.server_id, 0), first_of(finding.uncovered)),
        divergence=divergence,
        cover=finding.cover,
        compared=finding.shared.compared,
        alone=finding.shared.alone,
        apart=finding.shared.apart,
        names=trace.names(block.server_id),
        truncated=finding.truncated,
    )


def above(spans: Sequence[Span], position: int) -> tuple[Span, ...]:
    """Return the parts of spans above a position."""
    return tuple(Span(max(each.first, position + 1), each.last) for each in spans if each.last > position)


def first_of(uncovered: Sequence[Span]) -> int:
    """Return the last position before which no trace has any."""
    return uncovered[0].last if uncovered and uncovered[0].first == 1 else 0


def describe(rows: list[dict[str, Any]], position: int, later: int) -> Divergence:
    """Return how the records of the sources differ at one position."""
    sides: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row in rows:
        content = tuple(row[name] for name in CONTENT)
        sides.setdefault(content, []).append((row["replica"], row["incarnation"]))
    differing = [at for at in range(len(CONTENT)) if len({content[at] for content in sides}) > 1]
    agents = sorted({str(row["agent"]) for row in rows})
    return Divergence(
        position=position,
        agent=" or ".join(agents),
        sides=tuple(
            Side(tuple(sources), {CONTENT[at]: shown(content[at]) for at in differing})
            for content, sources in sides.items()
        ),
        later=later,
    )


def shown(value: Any) -> Any:
    """Return a value as it can be printed: bytes as hexadecimal text, nothing too long."""
    if isinstance(value, bytes):
        value = value.hex()
    if isinstance(value, str) and len(value) > MAX_VALUE_SHOWN:
        return value[:MAX_VALUE_SHOWN] + "..."
    return value
