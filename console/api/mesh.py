"""Operations on the topics of a mesh, at the daemon that is asked."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from ...server.admin import wire
from ..operations import Call, Operation
from .fields import Count, Whole

__all__ = ["OPERATIONS"]

T = TypeVar("T")
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class MeshTopic(msgspec.Struct, frozen=True):
    """A topic of the mesh, and what this daemon keeps of it."""

    name: str
    creations: Count
    """More than 1 while daemons that could not reach each other have created it."""
    subscriptions: Count
    records: Count
    bytes: Count
    topic_bytes: Count
    """With so much kept for slow subscribers, the topic is full."""
    on_full: str
    """What happens then: publishers are refused, or the slowest subscription ends."""


class MeshTopics(msgspec.Struct, frozen=True):
    """The topics that this daemon knows."""

    topics: list[MeshTopic]


class NewMeshTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to be created."""

    name: Name
    topic_bytes: Whole = 0
    """0: as the property ``topic_bytes`` says."""
    on_full: Literal["refuse", "end"] = "refuse"


class MeshSubscription(msgspec.Struct, frozen=True):
    """A persistent subscription."""

    topic: str
    name: str
    user: str
    behind: Count
    """Records that it has not got."""
    attached: bool
    """Whether its client is connected to this daemon."""
    id: str


class MeshSubscriptions(msgspec.Struct, frozen=True):
    """The persistent subscriptions that this daemon knows, the one that is furthest behind first."""

    subscriptions: list[MeshSubscription]


class Ended(msgspec.Struct, frozen=True):
    """How many subscriptions have ended."""

    ended: Count


async def _command(call: Call, name: str, expected: type[T], arguments: dict[str, Any]) -> T:
    return await call.calls.ask(wire.Command(name, arguments), expected)


async def _topics(call: Call) -> MeshTopics:
    return MeshTopics(await _command(call, "topics", list[MeshTopic], {}))


async def _create(call: Call) -> None:
    new: NewMeshTopic = call.body
    options = {"topic_bytes": new.topic_bytes, "on_full": new.on_full}
    await _command(call, "create", type(None), {"topic": new.name, "options": options})


async def _delete(call: Call) -> None:
    await _command(call, "delete", type(None), {"topic": call.parts["name"]})


async def _subscriptions(call: Call) -> MeshSubscriptions:
    found = await _command(call, "subscriptions", list[MeshSubscription], {"topic": "", "slow": True})
    return MeshSubscriptions(found)


async def _unsubscribe(call: Call) -> Ended:
    named = {"topic": call.parts["name"], "name": call.parts["subscription"]}
    return Ended(await _command(call, "unsubscribe", int, named))


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        *("listMeshTopics", "GET", "/mesh/topics", "The topics of a mesh.", _topics, MeshTopics),
        anywhere=True,
    ),
    Operation(
        *("createMeshTopic", "POST", "/mesh/topics", "Create a topic of a mesh."),
        *(_create, None),
        body=NewMeshTopic,
        anywhere=True,
    ),
    Operation(
        *("deleteMeshTopic", "DELETE", "/mesh/topics/{name}", "Delete a topic of a mesh, with all it has."),
        *(_delete, None),
        anywhere=True,
    ),
    Operation(
        *("listMeshSubscriptions", "GET", "/mesh/subscriptions", "The persistent subscriptions of a mesh."),
        *(_subscriptions, MeshSubscriptions),
        anywhere=True,
    ),
    Operation(
        *("endMeshSubscription", "DELETE", "/mesh/topics/{name}/subscriptions/{subscription}"),
        *("End the persistent subscriptions with a name.", _unsubscribe, Ended),
        anywhere=True,
    ),
)
