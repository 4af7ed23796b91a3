"""What the members of a group observe in a simulation, and what must hold of it.

| check | |
|---|---|
| G1 | all members see the same event at an index: total order, of views and suspicions too |
| G2 | a member sees every item from its first view to its end, once |
| G3 | the messages of a sender are items once each, in the order in which it cast them |
| G4 | a cast that was acknowledged is the item that it was said to be |
| G5 | only the members of the view at an index see the item |
| G6 | views count by one, and each differs from the one before by who joined and left |
| G7 | a member that lives, and connects again in time, is not expelled |
| G8 | a replica stores every item that a member, or the home of one, has not got |
| G9 | an index never means two things, also over failures of replicas (with G1) |
| G10 | once all members have all, nothing is stored for them |
"""

from typing import Any

import attrs

from ...agents import AgentId
from ...client import QuorateClientError
from ...groups import AsyncGroup, GroupEvent, MembershipEnded, Message, Ready, Suspicion, Trust, View
from ...groups.agents.protocol import GroupDescription, group_address
from ...groups.agents.topic import GroupTopic
from .cluster_watch import ReplicaView
from .simulated_client import PendingReply, SimulatedClient
from .simulated_cluster import SimulatedCluster

__all__ = ["GroupChecker", "GroupClient", "GroupScene", "GroupViolation"]


class GroupViolation(AssertionError):
    """A promise of groups is broken. The text begins with the name of the check."""


@attrs.define(eq=False)
class GroupClient:
    """A client that casts, and may be a member."""

    client: SimulatedClient
    group: AsyncGroup
    number: int
    cast: int = 0
    """Messages that it has cast."""
    waiting: dict[int, PendingReply[int]] = attrs.field(factory=dict[int, PendingReply[int]])
    """Casts whose index is not known, by their number."""
    reading: PendingReply[None] | None = None
    """The membership, while it lasts."""
    leaving: bool = False

    @property
    def id(self) -> AgentId:
        """The identifier of its connection."""
        return AgentId.parse(self.client.connection.id)


class GroupChecker:
    """Follows the members of one group, and compares what they see.

    Use the clients through `join`, `cast` and `leave`; call `settled` after everything has arrived.
    """

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.name = name
        self.cluster = cluster
        self.clients: list[GroupClient] = []
        self.events = 0
        """Events of all members."""
        self._order: dict[int, object] = {}
        """What is known of each item."""
        self._views: dict[int, tuple[int, View]] = {}
        """By number: the index of the view, and the view."""
        self._seen: dict[int, set[AgentId]] = {}
        """Who has seen each message."""
        self._may_leave: set[AgentId] = set()
        cluster.invariant(self._holds_what_is_lacked)

    def _holds_what_is_lacked(self, replica: ReplicaView) -> None:
        """G8: every replica stores all items after those that all members, or all homes, have."""
        agent = replica.agent(group_address(self.name))
        if not isinstance(agent, GroupTopic) or not agent.members:
            return
        next_index: int | None = None
        for first, page in agent.pages.items():
            if next_index is not None and first != next_index:
                raise GroupViolation(f"G8: items {next_index} to {first - 1} are not stored")
            next_index = first + page.count
        lacked = min([each.acked for each in agent.members.values()])
        if agent.local:
            lacked = agent.homes.low(agent.last)
        begin = agent.pages.first()
        if (next_index or agent.last + 1) != agent.last + 1 or (begin is None and lacked < agent.last):
            raise GroupViolation(f"G8: item {agent.last} is not stored, and it is lacked")
        if begin is not None and begin > lacked + 1:
            raise GroupViolation(f"G8: item {lacked + 1} is lacked and not stored")

    def client(self) -> GroupClient:
        """Connect a client."""
        number = len(self.clients)
        connected = self.cluster.client(f"member-{number}")
        found = GroupClient(connected, AsyncGroup(connected.connection, self.name), number)
        self.clients.append(found)
        return found

    def join(self, client: GroupClient) -> None:
        """Have a client join the group and follow it, until it leaves."""
        client.leaving = False
        client.reading = client.client.begin(self._read(client))

    async def _read(self, client: GroupClient) -> None:
        try:
            membership = await client.group.join(label=f"m{client.number}", timeout=300)
        except QuorateClientError as error:
            raise GroupViolation(f"progress: client {client.number} could not join: {error}") from error
        last = 0
        while True:
            try:
                event = await membership.receive(timeout=3600)
            except MembershipEnded as error:
                if not client.leaving:
                    raise GroupViolation(f"G7: member {client.number} was expelled: {error}") from error
                return
            self._check(client.id, event, last)
            last = event.index

    def leave(self, client: GroupClient) -> None:
        """Have a member leave."""
        self.expect_end(client)
        waiter: Any = _Nobody()
        client.group.core.leave(waiter)

    def expect_end(self, client: GroupClient) -> None:
        """Let the membership of a client end, by whatever reason."""
        client.leaving = True
        self._may_leave.add(client.id)

    def kill(self, client: GroupClient) -> None:
        """End the process of a client; it expires, if it is a member."""
        self._may_leave.add(client.id)
        self.clients.remove(client)
        self.cluster.kill_client(client.client)

    def cast(self, client: GroupClient) -> None:
        """Have a client cast its next message."""
        client.cast += 1
        payload = b"%d:%d" % (client.number, client.cast)
        client.waiting[client.cast] = client.client.begin(client.group.cast(payload, timeout=600))

    # Checks.

    def _check(self, member: AgentId, event: GroupEvent, last: int) -> None:
        self.events += 1
        if last == 0:
            if not isinstance(event, View) or member not in [each.id for each in event.members]:
                raise GroupViolation(f"G2: member {member} begins with {event}, not with its first view")
        elif event.index != last + 1:
            raise GroupViolation(f"G2: member {member} sees item {event.index} after {last}")
        what = _content(event)
        known = self._order.setdefault(event.index, what)
        if known != what:
            raise GroupViolation(f"G1: item {event.index} is {known} at one member, {what} at {member}")
        if isinstance(event, View):
            self._check_view(event)
        else:
            self._seen.setdefault(event.index, set()).add(member)

    def _check_view(self, view: View) -> None:
        self._views.setdefault(view.number, (view.index, view))
        before = self._views.get(view.number - 1)
        if before is None:
            return
        gone = {each.id for each, _ in view.left}
        expected = [each.id for each in before[1].members if each.id not in gone]
        joined = [each.id for each in view.members if each.id not in expected]
        if [each.id for each in view.members] != expected + joined or before[0] >= view.index:
            raise GroupViolation(f"G6: view {view.number} does not follow from view {view.number - 1}")
        for each, reason in view.left:
            if each.id not in self._may_leave:
                raise GroupViolation(f"G7: member {each.id} left ({reason}), and it lives and is connected")

    def settled(self) -> GroupDescription:
        """Check the end: everything was cast, delivered and acknowledged. Returns the group as it is."""
        for client in self.clients:
            if client.reading is not None and client.reading.done:
                client.reading.result()
            for number, reply in client.waiting.items():
                index = reply.result()
                what = ("message", client.id, b"%d:%d" % (client.number, number))
                if self._order.get(index, what)[:3] != what:  # type: ignore[index]
                    raise GroupViolation(
                        f"G4: cast {what} was acknowledged as item {index}, which is another"
                    )
        self._check_senders()
        self._check_receivers()
        reader = self.clients[0]
        self.cluster.run(3.0)
        description = reader.client.run(reader.group.describe())
        agent = self.cluster.state(group_address(self.name))
        assert isinstance(agent, GroupTopic)
        if description.stored_items or description.stored_bytes:
            raise GroupViolation(
                f"G10: {description.stored_items} items are stored, and all members have all"
            )
        return description

    def _check_senders(self) -> None:
        """G3: each sender's numbers rise by one in the order of the group."""
        last: dict[bytes, int] = {}
        gaps = self._gaps()
        for index in sorted(self._order):
            what: Any = self._order[index]
            if what[0] != "message":
                continue
            sender, _, number = what[2].partition(b":")
            expected = last.get(sender, 0) + 1
            # What was ordered while there was no member is seen by nobody.
            if int(number) != expected and not (int(number) > expected and gaps):
                raise GroupViolation(f"G3: message {what[2]!r} is item {index}, {expected} was to come")
            last[sender] = int(number)

    def _gaps(self) -> bool:
        """Whether some items were seen by nobody, because there was no member."""
        return bool(self._order) and sorted(self._order) != list(range(1, max(self._order) + 1))

    def _check_receivers(self) -> None:
        """G5: who has seen a message was in the view at its index; the last view has seen all."""
        views = sorted(self._views.values(), key=lambda each: each[0])
        for index, seen in self._seen.items():
            at = [view for start, view in views if start < index]
            if not at:
                raise GroupViolation(f"G5: item {index} was seen before any view")
            strangers = seen - {each.id for each in at[-1].members}
            if strangers:
                raise GroupViolation(f"G5: item {index} was seen by {strangers}, not in view {at[-1].number}")
        if views:
            start, view = views[-1]
            members = {each.id for each in view.members}
            for index, seen in self._seen.items():
                if index > start and seen != members:
                    lacking = sorted(members - seen)
                    raise GroupViolation(f"agreement: item {index} did not come to {lacking}")


class GroupScene:
    """A group ``orders`` that begins with a member at each of three replicas, and a client that is none."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.checker = GroupChecker(cluster, "orders")
        for _ in range(4):
            self.checker.client()
        *self.members, self.publisher = self.checker.clients
        for member in self.members:
            self.checker.join(member)
        cluster.run(1.0)

    def described(self) -> GroupDescription:
        """Return the group as it is."""
        return self.publisher.client.run(self.publisher.group.describe())

    def home(self, client: GroupClient) -> int:
        """Return the replica that a member is connected to."""
        return next(each.home for each in self.described().members if each.id == client.id)


def _content(event: GroupEvent) -> tuple[Any, ...]:
    if isinstance(event, Message):
        return ("message", event.sender, event.payload, event.view)
    if isinstance(event, View):
        return ("view", event.number, tuple(each.id for each in event.members))
    kind = {Suspicion: "suspicion", Trust: "trust", Ready: "ready"}[type(event)]
    return (kind, event.member.id)


class _Nobody:
    """A waiter that nothing waits for."""

    def set_result(self, _: object, /) -> None:
        """Ignore the outcome."""

    def set_exception(self, _: BaseException, /) -> None:
        """Ignore the failure."""

    def done(self) -> bool:
        """Return that the outcome is not known."""
        return False
