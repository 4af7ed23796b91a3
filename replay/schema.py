"""The columns of a trace file: what the servers write and the jobs read.

The columns after the first four are the fields of `quorate.engine.reaction.Reaction`, in their order.
"""

from importlib import import_module
from typing import Any

__all__ = ["COLUMNS", "MARK", "SCHEMA_VERSION", "WRITER_DROPPED", "arrow_schema", "ddl"]

SCHEMA_VERSION = 1
MARK = b"quorate.trace"
"""Key in a file's metadata; its value is the schema version. A file without it is not a trace."""
WRITER_DROPPED = b"quorate.dropped"
"""Key in a file's metadata: how many rows the writer had lost before it closed the file."""

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
}
"""Name and Spark SQL type of each column."""

ARROW = {"int": "int32", "bigint": "int64", "binary": "binary"}


def ddl() -> str:
    """Return the schema as Spark SQL text."""
    return ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


def arrow_schema(dropped: int = 0) -> Any:
    """Return the pyarrow schema; text columns are dictionaries, since few values recur in many rows."""
    arrow: Any = import_module("pyarrow")
    text = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [
        arrow.field(name, text if kind == "string" else getattr(arrow, ARROW[kind])(), nullable=False)
        for name, kind in COLUMNS.items()
    ]
    metadata = {MARK: str(SCHEMA_VERSION).encode(), WRITER_DROPPED: str(dropped).encode()}
    return arrow.schema(fields, metadata=metadata)
