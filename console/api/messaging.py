"""Operations on queues, topics and transactions in doubt."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import attrs
import msgspec

from ...agents import Created
from ...messaging.agents.administered import (
    DeliveryPaused,
    Describe,
    Described,
    Move,
    PauseDelivery,
    Purge,
    Purged,
)
from ...messaging.agents.branches import (
    BranchEnded,
    Branches,
    CommitBranch,
    ForgetBranch,
    ListBranches,
    RollbackBranch,
    XidParts,
)
from ...messaging.agents.making import create_destination, create_manager, name_flaw, peers_of
from ...messaging.agents.manager import MANAGER
from ...messaging.agents.protocol import Browse, Browsed
from ...messaging.agents.settings import DestinationSettings, FullPolicy, Kind
from ...messaging.agents.transactions import Moved
from ...messaging.client.shown import shown_message
from ...server.admin import wire
from ..operations import Call, Operation
from ..problems import Problem
from .fields import Count, PageQuery, Whole, moment

__all__ = ["OPERATIONS"]

DEFAULTS: Final = DestinationSettings()


class DestinationsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which queues or topics are listed."""

    after: Annotated[str, msgspec.Meta(description="`next` of the page before.")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="How many at most.")] = 50


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """A subscription of a topic."""

    name: str
    client_id: str
    selector: str
    durable: bool
    shared: bool
    waiting: Count
    """Messages that no consumer has."""
    in_hand: Count
    """Messages that consumers have, or that are in transactions."""
    consumers: Count
    pattern: str
    """Of a tree: the topics whose messages it gets."""


class LinkInfo(msgspec.Struct, frozen=True):
    """A way to a destination of another server."""

    does: str
    target: str
    moved: Count
    under_way: Count
    problem: str


class DestinationInfo(msgspec.Struct, frozen=True):
    """A queue or a topic."""

    kind: str
    title: str
    depth: Count
    """Messages that are not done with."""
    size_bytes: Count
    consumers: Count
    producers: Count
    blocked: Count
    """Producers that wait for room."""
    transactions: Count
    received: Count
    delivered: Count
    accepted: Count
    dead: Count
    paused: bool
    replaced: Count
    subscriptions: list[SubscriptionInfo]
    """Of a topic: the first 1000."""
    links: list[LinkInfo]


class DestinationList(msgspec.Struct, frozen=True):
    """A page of the queues or topics."""

    destinations: list[DestinationInfo]
    next: str
    """Give it as `after` for the next page; empty: there is none."""


class _NewDestination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a queue or topic that is to be made. Zero means no limit."""

    max_messages: Whole = 0
    max_bytes: Whole = DEFAULTS.max_bytes
    max_message_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] = DEFAULTS.max_message_bytes
    full: FullPolicy = FullPolicy.BLOCK
    """What it does at its limit."""
    max_deliveries: Whole = DEFAULTS.max_deliveries
    redelivery_delay_ms: Whole = 0
    redelivery_multiplier: Annotated[float, msgspec.Meta(ge=1, le=100)] = 1.0
    dead_queue: str = ""
    forward: str = ""
    """Where all messages go on to: ``orders@s1``."""
    cluster: Annotated[list[str], msgspec.Meta(max_length=100)] = []
    """All servers that have a member of it, this one among them; each makes its own."""


class NewQueue(_NewDestination, frozen=True, forbid_unknown_fields=True):
    """The settings of a queue that is to be made. Zero means no limit."""

    last_value: bool = False
    """A message replaces the one with its key."""


class NewTopic(_NewDestination, frozen=True, forbid_unknown_fields=True):
    """The settings of a topic that is to be made. Zero means no limit."""

    tree: bool = False
    """It has all topics that begin with its name and a dot."""


class DestinationMade(msgspec.Struct, frozen=True):
    """The queue or topic was made."""

    id: str


class BrowsedMessages(msgspec.Struct, frozen=True):
    """Messages of a queue that no consumer has, in order."""

    messages: list[dict[str, Any]]


class PurgeDone(msgspec.Struct, frozen=True):
    """Messages were dropped."""

    dropped: Count


class PauseDone(msgspec.Struct, frozen=True):
    """The delivery to consumers was stopped, or goes on."""

    paused: bool
    waiting: Count


class MoveOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where messages are moved to."""

    to: Annotated[str, msgspec.Meta(min_length=1)]
    """The name of another queue of the server."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    """How many at most, the oldest first."""


class MoveDone(msgspec.Struct, frozen=True):
    """Messages were moved."""

    moved: Count


class TransactionInfo(msgspec.Struct, frozen=True):
    """A transaction that is in doubt, or that an administrator has ended and nobody has forgotten."""

    format: Count
    transaction: str
    branch: str
    prepared: datetime
    ended: str
    """How an administrator has ended it; empty: it is in doubt."""
    destinations: list[str]


class TransactionList(msgspec.Struct, frozen=True):
    """The first 1000 transactions."""

    transactions: list[TransactionInfo]


class TransactionName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which transaction is meant."""

    transaction: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    branch: Annotated[str, msgspec.Meta(max_length=64)] = ""
    format: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1


class TransactionDone(msgspec.Struct, frozen=True):
    """How the transaction has ended."""

    committed: bool


def _info(found: Described) -> DestinationInfo:
    return msgspec.convert(attrs.asdict(found), DestinationInfo)


def _address(call: Call, kind: Kind) -> str:
    return f"{kind.value}:{call.parts['name']}"


def _check_server(call: Call, name: str) -> None:
    if name not in call.host.servers:
        listed = ", ".join(call.host.servers)
        raise Problem(409, "refused", f"There is no server {name}; there are {listed}.")


def _peers(call: Call, title: str, cluster: Sequence[str]) -> tuple[str, ...]:
    """Return the other members of a clustered destination. Raises Problem."""
    if not cluster:
        return ()
    own = call.host.server_name
    peers = peers_of(title, own, cluster)
    if peers is None:
        sentence = f"The cluster needs all servers that have a member, each once, and {own} among them."
        raise Problem(409, "refused", sentence)
    for each in cluster:
        _check_server(call, each)
    return peers


async def _described(call: Call, address: str) -> DestinationInfo:
    return _info(await call.calls.request(address, Describe(), Described))


def _of(kind: Kind) -> Sequence[Operation]:
    """Return the operations on queues, or those on topics."""

    async def listed(call: Call) -> DestinationList:
        query: DestinationsQuery = call.query
        wanted = wire.Agents(query.after, query.limit, False, "", f"{kind.value}:*")
        page = await call.calls.ask(wanted, wire.AgentPage)
        found: list[DestinationInfo] = []
        for row in page.agents:
            try:
                found.append(await _described(call, row.name))
            except Problem as problem:
                if problem.code != "not-found":
                    raise
        return DestinationList(found, page.next)

    async def shown(call: Call) -> DestinationInfo:
        return await _described(call, _address(call, kind))

    async def made(call: Call) -> DestinationMade:
        title, body = call.parts["name"], call.body
        if flaw := name_flaw(kind, title):
            raise Problem(409, "refused", flaw)
        given = {**msgspec.structs.asdict(body), "full": body.full.value}
        peers = _peers(call, title, given.pop("cluster"))
        settings = DestinationSettings(**given, peers=peers)
        if flaw := settings.flaw(kind):
            raise Problem(409, "refused", f"{flaw[:1].upper()}{flaw[1:]}.")
        if settings.forward:
            _check_server(call, settings.forward.rpartition("@")[2])
        create = create_destination(kind, title, settings, secrets.token_hex(16))
        identity = (await call.calls.factory(create, Created)).id
        await call.calls.factory(create_manager(), Created)
        return DestinationMade(str(identity))

    async def purged(call: Call) -> PurgeDone:
        dropped = 0
        while True:
            done = await call.calls.request(_address(call, kind), Purge(), Purged)
            dropped += done.dropped
            if not done.left or not done.dropped:
                return PurgeDone(dropped)

    async def pausing(call: Call, paused: bool) -> PauseDone:
        done = await call.calls.request(_address(call, kind), PauseDelivery(paused), DeliveryPaused)
        return PauseDone(done.paused, done.waiting)

    async def paused(call: Call) -> PauseDone:
        return await pausing(call, paused=True)

    async def resumed(call: Call) -> PauseDone:
        return await pausing(call, paused=False)

    word, name = kind.value, kind.value.capitalize()
    path = f"/{word}s"
    one = f"{path}/{{name}}"
    return (
        Operation(
            *(f"list{name}s", "GET", path, f"The {word}s of the server, page by page."),
            *(listed, DestinationList),
            query=DestinationsQuery,
        ),
        Operation(
            *(f"get{name}", "GET", one, f"A {word}, and its subscriptions and links."),
            *(shown, DestinationInfo),
        ),
        Operation(
            *(f"create{name}", "PUT", one, f"Make a {word}."),
            *(made, DestinationMade),
            body=NewQueue if kind is Kind.QUEUE else NewTopic,
        ),
        Operation(
            *(f"purge{name}", "POST", f"{one}/purge", "Drop the messages that no consumer has."),
            *(purged, PurgeDone),
        ),
        Operation(
            *(f"pause{name}", "POST", f"{one}/pause", "Stop the delivery to consumers."),
            *(paused, PauseDone),
        ),
        Operation(
            *(f"resume{name}", "POST", f"{one}/resume", "Go on with the delivery to consumers."),
            *(resumed, PauseDone),
        ),
    )


async def _browse(call: Call) -> BrowsedMessages:
    query: PageQuery = call.query
    found: list[dict[str, Any]] = []
    after = query.after
    while len(found) < query.limit:
        pack = (await call.calls.request(_address(call, Kind.QUEUE), Browse(after), Browsed)).pack
        for index, number in enumerate(pack.column("number")):
            found.append({"number": number, **shown_message(pack, index)})
        if not len(pack):
            break
        after = int(found[-1]["number"])
    return BrowsedMessages(found[: query.limit])


async def _move(call: Call) -> MoveDone:
    body: MoveOrder = call.body
    moved = 0
    while moved < body.limit:
        order = Move(f"queue:{body.to}", min(body.limit - moved, 1000))
        done = await call.calls.request(_address(call, Kind.QUEUE), order, Moved)
        moved += done.count
        if not done.count:
            break
    return MoveDone(moved)


async def _transactions(call: Call) -> TransactionList:
    found = (await call.calls.request(MANAGER, ListBranches(None), Branches)).found
    return TransactionList(
        [TransactionInfo(*each.xid, moment(each.since_ns), each.ended, each.destinations) for each in found]
    )


def _ending(request: type[CommitBranch | RollbackBranch | ForgetBranch]) -> Any:
    async def end(call: Call) -> TransactionDone:
        body: TransactionName = call.body
        xid: XidParts = (body.format, body.transaction, body.branch)
        ended = await call.calls.request(MANAGER, request(xid), BranchEnded)
        return TransactionDone(ended.committed)

    return end


OPERATIONS: Final[Sequence[Operation]] = (
    *_of(Kind.QUEUE),
    Operation(
        *("browseQueue", "GET", "/queues/{name}/messages", "Messages of a queue that no consumer has."),
        *(_browse, BrowsedMessages),
        query=PageQuery,
    ),
    Operation(
        *("moveMessages", "POST", "/queues/{name}/move", "Move messages to another queue."),
        *(_move, MoveDone),
        body=MoveOrder,
    ),
    *_of(Kind.TOPIC),
    Operation(
        *("listTransactions", "GET", "/transactions", "Transactions that are in doubt."),
        *(_transactions, TransactionList),
    ),
    *(
        Operation(
            *(f"{verb}Transaction", "POST", f"/transactions/{verb}", summary, _ending(request)),
            TransactionDone,
            body=TransactionName,
        )
        for verb, summary, request in (
            ("commit", "Commit a transaction that is in doubt.", CommitBranch),
            ("rollback", "Roll a transaction back that is in doubt.", RollbackBranch),
            ("forget", "Forget a transaction that was ended by hand.", ForgetBranch),
        )
    ),
)
