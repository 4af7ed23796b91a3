"""The queries of the check: a digest of each block of positions, and the rows of the blocks in doubt."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import attrs

from .queries import Queries
from .reports import Span
from .schema import CONTENT

__all__ = [
    "BLOCK_SHIFT",
    "Block",
    "Detail",
    "block_bounds",
    "block_details",
    "expected_digests",
    "rows_at",
    "survey",
]

BLOCK_SHIFT = 14
"""A block has 2**14 positions: small enough to compare row by row, large enough that there are few."""


@attrs.frozen
class Block:
    """The part of a block of positions that one incarnation of one replica has."""

    server_id: int
    server: str
    replica: int
    incarnation: int
    number: int
    """Position divided by the size of a block."""
    rows: int
    first: int
    last: int
    positions: int
    """Exclusive or of the hashes of the positions."""
    content: int
    """Exclusive or of the hashes of the rows."""

    @property
    def source(self) -> tuple[int, int]:
        """Replica and incarnation."""
        return self.replica, self.incarnation


@attrs.frozen
class Detail:
    """Position and content hash of each row of one source in the blocks in doubt."""

    server_id: int
    replica: int
    incarnation: int
    positions: Any
    """numpy array of int64, sorted."""
    hashes: Any
    """numpy array of 64-bit integers."""


def block_bounds(number: int) -> Span:
    """Return the positions of a block; the first position of all is 1."""
    size = 1 << BLOCK_SHIFT
    return Span(max(1, number * size), number * size + size - 1)


SURVEY = """
SELECT server_id, replica, incarnation, position >> {shift} AS number, min(server) AS server,
    count(*) AS rows, min(position) AS first, max(position) AS last,
    bit_xor({hash}(position)) AS positions, bit_xor({hash}({content})) AS content
FROM {rows} GROUP BY server_id, replica, incarnation, position >> {shift}
"""
EXPECTED = """
SELECT id >> {shift} AS number, bit_xor({hash}(id)) AS positions
FROM range({first}, {last} + 1) AS t(id) GROUP BY id >> {shift}
"""
DETAILS = """
SELECT server_id, replica, incarnation, position, {hash}({content}) AS hash FROM {rows} WHERE {wanted}
"""


def survey(queries: Queries, rows: str) -> list[Block]:
    """Digest every block of every source. One pass, and no row leaves its file's partition."""
    query = SURVEY.format(
        rows=rows, shift=BLOCK_SHIFT, hash=queries.hash_function, content=", ".join(CONTENT)
    )
    blocks = [Block(**row) for row in queries.table(query).to_pylist()]
    return sorted(blocks, key=lambda block: (block.server_id, block.number, block.source))


def expected_digests(queries: Queries, numbers: Sequence[int]) -> dict[int, int]:
    """Return ``Block.positions`` of blocks that have every position once, by the number of the block."""
    if not numbers:
        return {}
    first, last = block_bounds(min(numbers)).first, block_bounds(max(numbers)).last
    query = EXPECTED.format(shift=BLOCK_SHIFT, hash=queries.hash_function, first=first, last=last)
    return {row["number"]: row["positions"] for row in queries.table(query).to_pylist()}


def block_details(queries: Queries, rows: str, blocks: Iterable[tuple[int, int]]) -> list[Detail]:
    """Fetch position and content hash of every row in some blocks, given as (server id, number)."""
    wanted = " OR ".join(
        f"(server_id = {server} AND position BETWEEN {first} AND {last})"
        for server, first, last in ranges(blocks)
    )
    query = DETAILS.format(rows=rows, hash=queries.hash_function, content=", ".join(CONTENT), wanted=wanted)
    return split(queries.table(query))


def ranges(blocks: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return blocks as (server id, first, last position), neighbours joined."""
    joined: list[tuple[int, int, int]] = []
    for server, number in sorted(blocks):
        bounds = block_bounds(number)
        if joined and joined[-1][0] == server and joined[-1][2] + 1 == bounds.first:
            joined[-1] = (server, joined[-1][1], bounds.last)
        else:
            joined.append((server, bounds.first, bounds.last))
    return joined


def split(table: Any) -> list[Detail]:
    """Return a table of rows as one sorted detail per source."""
    import numpy

    np: Any = numpy
    names = ("server_id", "replica", "incarnation", "position", "hash")
    servers, replicas, incarnations, positions, hashes = (table[name].to_numpy() for name in names)
    order = np.lexsort((positions, incarnations, replicas, servers))
    servers, replicas, incarnations = servers[order], replicas[order], incarnations[order]
    positions, hashes = positions[order], hashes[order]
    changes = (np.diff(servers) != 0) | (np.diff(replicas) != 0) | (np.diff(incarnations) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(positions)]
    return [
        Detail(
            int(servers[start]),
            int(replicas[start]),
            int(incarnations[start]),
            positions[start:end],
            hashes[start:end],
        )
        for start, end in pairwise(edges)
        if end > start
    ]


def rows_at(queries: Queries, rows: str, server_id: int, position: int) -> list[dict[str, Any]]:
    """Fetch all rows of all sources at one position."""
    query = f"SELECT * FROM {rows} WHERE server_id = {server_id} AND position = {position}"
    found: list[dict[str, Any]] = queries.table(query).to_pylist()
    return sorted(found, key=lambda row: (row["replica"], row["incarnation"]))
