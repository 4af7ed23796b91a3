"""Operations on the replica itself: statuses, views, traces, stop and restart."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from ...server.admin import wire
from ..operations import Call, Operation
from .fields import Count, moment

__all__ = ["OPERATIONS"]

MAX_TRACES: Final = 1000
"""Files of the trace that are listed, the latest."""


class Destination(msgspec.Struct, frozen=True):
    """The figures of a queue or a topic, as this replica has them."""

    kind: str
    name: str
    figures: dict[str, int]


class Destinations(msgspec.Struct, frozen=True):
    """The queues and topics of the server: the first 1000 of each."""

    destinations: list[Destination]


class ViewInfo(msgspec.Struct, frozen=True):
    """A view of the replicas of the server."""

    at: datetime
    view: str
    master: int
    members: list[int]
    reason: str


class Views(msgspec.Struct, frozen=True):
    """The views that this replica has been in since its process began: the latest 200, the oldest first."""

    views: list[ViewInfo]


class TraceFile(msgspec.Struct, frozen=True):
    """A file of the trace."""

    name: str
    size_bytes: Count
    changed: datetime


class Traces(msgspec.Struct, frozen=True):
    """The trace of this replica: the latest 1000 files, the latest first."""

    directory: str
    files: list[TraceFile]


async def _status(call: Call) -> dict[str, Any]:
    return {**call.host.status(), "mode": call.host.server_mode, "master_url": call.host.master_url()}


async def _servers(call: Call) -> dict[str, Any]:
    return await call.host.all_statuses()


async def _destinations(call: Call) -> Destinations:
    found = call.host.destinations()
    return Destinations([Destination(each.kind, each.name, dict(each.figures)) for each in found])


async def _views(call: Call) -> Views:
    return Views(
        [
            ViewInfo(moment(each.at_ns), each.number, each.master, list(each.members), each.reason)
            for each in call.host.views()
        ]
    )


async def _traces(call: Call) -> Traces:
    directory = call.host.directory / "trace"
    return Traces(str(directory), await call.host.in_thread(_files, directory))


def _files(directory: Path) -> list[TraceFile]:
    found: list[TraceFile] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                stat = entry.stat()
                changed = datetime.fromtimestamp(stat.st_mtime, UTC)
                found.append(TraceFile(entry.name, stat.st_size, changed))
    except FileNotFoundError:
        # There is no trace, or a file has just been removed.
        pass
    return sorted(found, key=lambda each: each.changed, reverse=True)[:MAX_TRACES]


async def _stop(call: Call) -> None:
    await call.calls.ask(wire.Stop(), type(None))


async def _restart(call: Call) -> None:
    await call.calls.ask(wire.Stop(again=True), type(None))


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        *("getReplica", "GET", "/replica", "What this replica is and does."),
        *(_status, dict[str, Any]),
        anywhere=True,
    ),
    Operation(
        *("stopReplica", "POST", "/replica/stop", "Stop this replica in order.", _stop, None),
        anywhere=True,
    ),
    Operation(
        *("restartReplica", "POST", "/replica/restart", "Stop this replica, and start it again."),
        *(_restart, None),
        anywhere=True,
    ),
    Operation(
        *("listServers", "GET", "/servers", "The statuses of all replicas of all servers."),
        *(_servers, dict[str, Any]),
        anywhere=True,
    ),
    Operation(
        *("listViews", "GET", "/views", "The views of this server since the replica began.", _views, Views),
        anywhere=True,
    ),
    Operation(
        *("listTraces", "GET", "/traces", "The files of the trace of this replica.", _traces, Traces),
        anywhere=True,
    ),
    Operation(
        *("listDestinations", "GET", "/destinations", "The figures of all queues and topics."),
        *(_destinations, Destinations),
        anywhere=True,
    ),
)
