"""The columns of a trace file: what the servers write and the jobs read.

The columns after the first four are the fields of `quorate.engine.reaction.Reaction`, in their order.
All replicas of a server agree on them, except on the last two.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import attrs

__all__ = [
    "COLUMNS",
    "CONTENT",
    "EVENTS_SUFFIX",
    "IDENTITY",
    "MARK",
    "MESH_MARK",
    "OWN",
    "SCHEMA_VERSION",
    "WRITER_DROPPED",
    "Origin",
    "arrow_schema",
    "arrow_types",
    "ddl",
]

SCHEMA_VERSION = 2
MARK = b"quorate.trace"
"""Key in a file's metadata; its value is the schema version. A file without it is not a trace."""
MESH_MARK = b"quorate.mesh"
"""Key in the metadata of a file with events of a daemon of a mesh, in the place of `MARK`."""
WRITER_DROPPED = b"quorate.dropped"
"""Key in a file's metadata: how many rows the writer had lost before it closed the file."""
SERVERS = b"quorate.servers"
"""Key in a file's metadata: the ids of all servers of the configuration by name, as JSON."""
REPLICAS = b"quorate.replicas"
"""Key in a file's metadata: the ids of the replicas that write a trace, by server, as JSON."""
ACCEPTED = b"quorate.accepted"
"""Key in a file's metadata: the first entry that ended otherwise when it was applied again, and how."""

COLUMNS: dict[str, str] = {
    "server": "string",
    "server_id": "int",
    "replica": "int",
    "incarnation": "bigint",
    "position": "bigint",
    "index": "bigint",
    "step": "int",
    "now_ns": "bigint",
    "agent": "string",
    "cls": "string",
    "kind": "string",
    "sender": "string",
    "type": "string",
    "payload": "binary",
    "request": "bigint",
    "error": "string",
    "sends": "int",
    "outputs": "binary",
    "stamp": "bigint",
    "name": "string",
    "state": "binary",
    "cause": "bigint",
    "link": "int",
    "number": "bigint",
    "local": "int",
    "remote": "string",
    "requests": "binary",
    "duration_ns": "bigint",
}
"""Name and Spark SQL type of each column."""
IDENTITY = tuple(COLUMNS)[:4]
"""Columns that say who wrote a row."""
OWN = ("requests", "duration_ns")
"""Columns that each replica has for itself: one of them may not trace requests, and durations differ."""
CONTENT = tuple(name for name in COLUMNS if name not in IDENTITY and name not in OWN)
"""Columns that must be equal on all replicas. The hash of the requests, `outputs`, is one of them."""

EVENTS_SUFFIX = ".events.jsonl"
"""End of the name of a file with the views and the mastership of one incarnation."""

ARROW = {
    "double": "float64",
    "int": "int32",
    "bigint": "int64",
    "binary": "binary",
    "string": "string",
    "boolean": "bool_",
}


def ddl() -> str:
    """Return the schema as Spark SQL text."""
    return ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


@attrs.frozen
class Origin:
    """The incarnation of a replica that writes a trace, and what its configuration declares."""

    server: str
    server_id: int
    replica: int
    incarnation: int
    servers: Mapping[str, int] = attrs.field(factory=dict[str, int])
    """The ids of all servers by name; empty if the file does not have them."""
    replicas: Mapping[str, Sequence[int]] = attrs.field(factory=dict[str, Sequence[int]])
    """The replicas that write a trace, by server; empty if the file does not have them."""
    accepted: str = ""
    """How the first entry ended that was accepted with another outcome than before; "" if there is none."""
    mesh: bool = False
    """It is a daemon of a mesh: its rows are events, not reactions."""

    def metadata(self, dropped: int) -> dict[bytes, bytes]:
        """Return the metadata of a file. The identity is not part of it: it is in every row."""
        mark = MESH_MARK if self.mesh else MARK
        pairs = {mark: str(SCHEMA_VERSION).encode(), WRITER_DROPPED: str(dropped).encode()}
        if self.servers:
            pairs[SERVERS] = json.dumps(dict(self.servers)).encode()
        if self.replicas:
            pairs[REPLICAS] = json.dumps(dict(self.replicas)).encode()
        if self.accepted:
            pairs[ACCEPTED] = self.accepted.encode("utf-8", "backslashreplace")
        return pairs

    @classmethod
    def read(
        cls, server: str, server_id: int, replica: int, incarnation: int, pairs: Mapping[bytes, bytes]
    ) -> "Origin":
        """Return the origin of a file with this identity and these metadata. Raises ValueError."""
        servers = cast("dict[str, int]", json.loads(pairs.get(SERVERS, b"{}")))
        replicas = cast("dict[str, list[int]]", json.loads(pairs.get(REPLICAS, b"{}")))
        accepted = pairs.get(ACCEPTED, b"").decode("utf-8", "replace")
        mesh = MESH_MARK in pairs
        return cls(server, server_id, replica, incarnation, servers, replicas, mesh=mesh, accepted=accepted)


def arrow_schema(metadata: Mapping[bytes, bytes], *, dictionaries: bool = True) -> Any:
    """Return the pyarrow schema.

    Text columns are dictionaries in files, since few values recur in many rows.
    """
    arrow: Any = import_module("pyarrow")
    text = arrow.dictionary(arrow.int32(), arrow.string()) if dictionaries else arrow.string()
    fields = [
        arrow.field(name, text if kind == "string" else getattr(arrow, ARROW[kind])(), nullable=False)
        for name, kind in COLUMNS.items()
    ]
    return arrow.schema(fields, metadata=dict(metadata))


def arrow_types(ddl: str) -> Any:
    """Return the pyarrow schema of a schema as Spark SQL text, of simple types."""
    arrow: Any = import_module("pyarrow")
    fields = [entry.split() for entry in ddl.split(",")]
    return arrow.schema([(name, getattr(arrow, ARROW[kind])()) for name, kind in fields])
