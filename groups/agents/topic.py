"""The agent of a group: the order of its messages, views and suspicions, and what members have not got yet.

Source: JMSGroups, sections 5 and 6: a group is a topic of a replicated server, and its members are clients.
The reactions of one agent are in one order on all replicas, so everything that is an item of the group is in
one order at all members: messages (A-ABcast), views, suspicions and trust. An item is stored once, whatever
the number of members, until all of them have acknowledged it. Homes send items to their own clients.
"""

from typing import Final

import attrs

from ...agents import (
    FIRST_CONNECTION_STAMP,
    Agent,
    AgentId,
    Context,
    ExceptionNotification,
    ReplyTo,
    Rows,
    UnknownAgent,
    outside,
    reacts,
)
from ...agents.presence import ConnectionPresence, HomeBegun, HomeLimits, HomesChanged, Suspect, Unwatch
from ...agents.proxy import ConnectionEnded, WatchConnection
from .items import (
    GROUPS_TOPIC,
    Appended,
    Begun,
    Casts,
    HomeState,
    Item,
    Page,
    Ready,
    Removed,
    Suspected,
    Trusted,
    ViewChange,
    encode_item,
)
from .local_homes import LocalHomes
from .members import Joining, Member, OpenRequest, found_member, oldest
from .protocol import (
    GROUPS,
    MAX_ANSWER_BYTES,
    MAX_CAST_BYTES,
    MAX_DIRECTED_BYTES,
    MAX_MEMBERS,
    AnswerRequest,
    Ask,
    Asked,
    Cast,
    Casted,
    DescribeGroup,
    Expelled,
    ExpelMember,
    GroupAnswer,
    GroupDescription,
    GroupJoined,
    GroupLeft,
    GroupRefused,
    HomeApplied,
    HomeForgotten,
    HomeLost,
    JoinGroup,
    LeaveGroup,
    MemberExpelled,
    ReadStream,
    Reason,
    StateReady,
    StreamAcks,
    StreamRead,
)
from .timers import HoldCheck, RehomeCheck, SlowCheck

__all__ = ["MAX_ITEMS", "MAX_STORED_BYTES", "GroupTopic"]

MAX_ITEMS: Final = 65_536
MAX_STORED_BYTES: Final = 16 * 1024 * 1024
"""A member that leaves more unacknowledged than one of these two is expelled."""
SLOW_S: Final = 5.0
"""Casts are answered late once a member leaves half of that unacknowledged. If it acknowledges nothing for
this time, it is expelled."""
MAX_HELD: Final = 16_384
"""Answers to casts that are held at a time; further casts are refused."""
MAX_REQUESTS: Final = 10_000
MAX_REQUEST_S: Final = 86_400.0
MAX_LABEL: Final = 255
MAX_PAYLOADS: Final = 4096
READ_BYTES: Final = 1024 * 1024
"""Bytes of pages in one answer to a home."""


@attrs.define
class GroupTopic(Agent, name="quorate.group"):
    """One group. It has more than 20 methods: fifteen are reactions, one for each type of notification."""

    title: str
    members: dict[AgentId, Member] = attrs.field(factory=dict[AgentId, Member])
    """In the order in which they have joined."""
    view: int = 0
    """Number of the present view."""
    last: int = 0
    """Index of the last item."""
    pages: Rows[int, Page] = attrs.field(factory=Rows[int, Page])
    """What some member has not acknowledged, by the index of the first item of each page."""
    stored_bytes: int = 0
    acked: int = 0
    """All members have everything up to here."""
    joining: dict[AgentId, Joining] = attrs.field(factory=dict[AgentId, Joining])
    held: list[tuple[AgentId, int, int]] = attrs.field(factory=list[tuple[AgentId, int, int]])
    """(sender, its request, first item) of casts whose answers wait for slow members."""
    holding: bool = False
    requests: dict[int, OpenRequest] = attrs.field(factory=dict[int, OpenRequest])
    """By the item that is the request."""
    had_state: bool = False
    """Whether a member ever had the state of the application."""
    lost: dict[AgentId, tuple[int, bool]] = attrs.field(factory=dict[AgentId, tuple[int, bool]])
    """Members whose home has gone, or begun again, with their attempt, and whether they expire: they are
    suspected unless they connect."""
    limits: HomeLimits = attrs.field(factory=HomeLimits)
    local: bool = False
    """The contexts of members are on the disks of their homes."""
    homes: LocalHomes = attrs.field(factory=LocalHomes)
    """With `local`: what the homes have filed."""
    casts: int = 0
    suspicions: int = 0
    false_suspicions: int = 0

    # Membership

    @reacts
    def join(self, ctx: Context, note: JoinGroup) -> None:
        """Ask the proxy of a client where it is; `presence` makes the client a member."""
        client = ctx.sender
        if client.stamp < FIRST_CONNECTION_STAMP or client.host != ctx.agent.host:
            text = f"only clients of this server can join the group {self.title}; connect to it"
            _refuse(ctx, Reason.BAD_REQUEST, text)
        elif len(note.label) > MAX_LABEL:
            _refuse(
                ctx, Reason.BAD_REQUEST, f"a label has {MAX_LABEL} characters at most; give a shorter one"
            )
        elif client in self.members or client in self.joining:
            text = f"this connection is a member of {self.title} already; join with another connection"
            _refuse(ctx, Reason.BAD_REQUEST, text)
        elif len(self.members) + len(self.joining) >= MAX_MEMBERS:
            text = f"the group {self.title} has {MAX_MEMBERS} members already; wait until one has left"
            _refuse(ctx, Reason.FULL, text)
        else:
            self.joining[client] = Joining(note.label, ctx.request)
            ctx.send(client, WatchConnection(presence=True))

    @reacts
    def presence(self, ctx: Context, note: ConnectionPresence) -> None:
        """Make a client a member, or note that it has moved, or is suspected or trusted."""
        client = ctx.sender
        joining = self.joining.pop(client, None)
        home = note.home
        if joining is not None and home is None:
            text = "a client in the process of its server cannot join a group; connect to a port"
            ctx.send(ReplyTo(client, joining.request), GroupRefused(Reason.BAD_REQUEST, text))
        elif joining is not None and home is not None:
            self._admit(ctx, client, joining, note, home)
        member = self.members.get(client)
        if joining is not None or member is None or home is None:
            return
        member.home, member.attempt = home, note.attempt
        if note.suspected and not member.suspected:
            member.suspected = True
            self.suspicions += 1
            self._append(ctx, Suspected(client))
        elif member.suspected and not note.suspected:
            member.suspected = False
            self.false_suspicions += 1
            self._append(ctx, Trusted(client))

    def _admit(
        self, ctx: Context, client: AgentId, joining: Joining, note: ConnectionPresence, home: int
    ) -> None:
        if not self.members:
            # Nobody has anything to acknowledge.
            self.acked = self.last
        first = self.last + 1
        member = Member(note.user, joining.label, first, first, home, note.attempt, note.suspected)
        self.members[client] = member
        self._change_view(ctx, [client], [])
        new_home = self.local and self.homes.begin(home, self.last)
        ctx.emit(GROUPS_TOPIC, Begun(client, self.last, home, new_home))
        infos = [each.info(identity) for identity, each in self.members.items()]
        answer = GroupJoined(self.last, self.view, infos, self.had_state)
        ctx.send(ReplyTo(client, joining.request), answer)

    @reacts
    def leave(self, ctx: Context, _: LeaveGroup) -> None:
        """End the membership of a client, as it asks."""
        if ctx.sender not in self.members:
            self._not_a_member(ctx)
            return
        self._remove(ctx, [ctx.sender], "left")
        ctx.send(ctx.reply_to, GroupLeft(self.last))

    @reacts
    def ended(self, ctx: Context, _: ConnectionEnded) -> None:
        """End the membership of a client whose connection has ended."""
        self.joining.pop(ctx.sender, None)
        member = self.members.get(ctx.sender)
        if member is not None:
            self._remove(ctx, [ctx.sender], "expired" if member.suspected else "closed", ended=True)

    @reacts
    def gone(self, _: Context, note: UnknownAgent) -> None:
        """Forget a client that has gone before it was a member."""
        for client in [each for each in self.joining if str(each) == note.agent]:
            del self.joining[client]

    @reacts
    def failed(self, ctx: Context, note: ExceptionNotification) -> None:
        """Forget a client that cannot be watched: it does not become a member."""
        joining = self.joining.pop(ctx.sender, None)
        if joining is not None:
            ctx.send(ReplyTo(ctx.sender, joining.request), GroupRefused(Reason.FULL, note.message))

    @reacts
    def expel(self, ctx: Context, note: ExpelMember) -> None:
        """End the membership of a client, as an administrator orders."""
        if ctx.sender != outside(ctx.agent.host):
            raise PermissionError("only administrators of the server expel members")
        found = found_member(self.members, note.member)
        if isinstance(found, str):
            _refuse(ctx, Reason.NOT_A_MEMBER, found)
            return
        self._expel(ctx, [found], "expelled by an administrator")
        ctx.send(ctx.reply_to, MemberExpelled(found, self.view))

    def _expel(self, ctx: Context, clients: list[AgentId], reason: str) -> None:
        for client in clients:
            ctx.send(client, Expelled(ctx.agent, reason))
        self._remove(ctx, clients, reason)

    def _remove(self, ctx: Context, clients: list[AgentId], reason: str, *, ended: bool = False) -> None:
        """End memberships by one view. ended: the connections of these clients have ended, too."""
        for client in clients:
            del self.members[client]
            self.lost.pop(client, None)
            ctx.emit(GROUPS_TOPIC, Removed(client))
            if not ended:
                ctx.send(client, Unwatch())
        self.homes.keep({member.home for member in self.members.values()})
        # Before the view is stored: it must not find room taken by what only they lacked.
        self._trim(ctx)
        self._change_view(ctx, [], [(client, reason) for client in clients])
        self._settle_requests(ctx)

    def _change_view(self, ctx: Context, joined: list[AgentId], left: list[tuple[AgentId, str]]) -> None:
        self.view += 1
        infos = [self.members[each].info(each) for each in joined]
        self._append(ctx, ViewChange(self.view, infos, left))

    # Homes

    @reacts
    def homes_changed(self, ctx: Context, note: HomesChanged) -> None:
        """Wait a while for the members whose replica has gone; they connect to another one."""
        gone = {member.home for member in self.members.values()} - {*note.homes}
        self._suspect_later(ctx, gone, note.limits, expires=not self.local)
        for home in sorted(gone) if self.local else ():
            if self.homes.away.setdefault(home, ctx.now_ns) == ctx.now_ns:
                ctx.timer(note.limits.hold_s, HoldCheck(home, ctx.now_ns))

    @reacts
    def home_begun(self, ctx: Context, note: HomeBegun) -> None:
        """Wait a while for the members of a replica that has begun again, without their connections."""
        self._suspect_later(ctx, {note.home}, note.limits, expires=True)
        if self.local:
            self.homes.away.pop(note.home, None)
            members = [
                (each, member.joined) for each, member in self.members.items() if member.home == note.home
            ]
            applied = self.homes.applied.get(note.home, self.last)
            confirmed = note.home in self.homes.confirmed
            ctx.emit(GROUPS_TOPIC, HomeState(note.home, members, applied, confirmed))

    def _suspect_later(self, ctx: Context, homes: set[int], limits: HomeLimits, *, expires: bool) -> None:
        """Suspect the members of homes unless they connect again in time."""
        if ctx.sender.host != ctx.agent.host or ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise PermissionError(f"only the manager {GROUPS} tells which replicas there are")
        self.limits = limits
        lost = {
            client: (member.attempt, expires)
            for client, member in self.members.items()
            if member.home in homes and (expires or not member.suspected)
        }
        self.lost.update(lost)
        if lost:
            ctx.timer(limits.rehome_s, RehomeCheck())

    @reacts
    def rehome_check(self, ctx: Context, _: RehomeCheck) -> None:
        """Suspect the members that have not connected again."""
        if ctx.sender != ctx.agent:
            return
        lost, self.lost = self.lost, {}
        for client, (attempt, expires) in lost.items():
            ctx.send(client, Suspect(attempt, self.limits.expire_s if expires else 0))

    @reacts
    def home_applied(self, ctx: Context, note: HomeApplied) -> None:
        """Note what a home has filed; drop what all homes have."""
        _only_from_server(ctx)
        if note.upto <= self.last and self.homes.file(note.home, note.upto):
            self._trim(ctx)

    @reacts
    def hold_check(self, ctx: Context, note: HoldCheck) -> None:
        """Give up a home that was away for too long."""
        if ctx.sender == ctx.agent and self.homes.away.get(note.home) == note.since_ns:
            self._give_up(ctx, [note.home], f"its replica was away for {self.limits.hold_s:g} s")

    @reacts
    def home_lost(self, ctx: Context, note: HomeLost) -> None:
        """Give up a home that does not have what its members lack."""
        if ctx.sender.host != ctx.agent.host or ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise PermissionError(f"only the manager {GROUPS} and replicas give up a replica")
        self._give_up(ctx, [note.home], note.reason)
        if ctx.request:
            ctx.send(ctx.reply_to, HomeForgotten(note.home))

    def _give_up(self, ctx: Context, homes: list[int], reason: str) -> None:
        clients = [client for client, member in self.members.items() if member.home in homes]
        if clients:
            self._expel(ctx, clients, reason)

    @reacts
    def read(self, ctx: Context, note: ReadStream) -> None:
        """Answer a home with what one of its clients lacks."""
        _only_from_server(ctx)
        pages: list[tuple[int, Page]] = []
        size = 0
        more = False
        member = note.member is None or note.member in self.members
        if member:
            first = self.pages.floor(note.after + 1) or 0
            for index, page in self.pages.items(first, note.below or None):
                if pages and size + len(page.data) > READ_BYTES:
                    more = True
                    break
                pages.append((index, page))
                size += len(page.data)
        ctx.send(ctx.reply_to, StreamRead(member, pages, self.last, more))

    @reacts
    def acknowledged(self, ctx: Context, note: StreamAcks) -> None:
        """Note what the clients of a home have received; drop what all members have."""
        _only_from_server(ctx)
        for client, upto in note.acks:
            member = self.members.get(client)
            if member is not None and member.acked < upto <= self.last:
                member.acked = upto
        self._trim(ctx)

    # Messages

    @reacts
    def cast(self, ctx: Context, note: Cast) -> None:
        """Order messages, from anybody."""
        limit = MAX_DIRECTED_BYTES if note.to else MAX_CAST_BYTES
        if not 1 <= len(note.payloads) <= MAX_PAYLOADS:
            _refuse(ctx, Reason.BAD_REQUEST, f"a cast has 1 to {MAX_PAYLOADS} messages; cast again")
        elif max([len(payload) for payload in note.payloads]) > limit:
            _refuse(ctx, Reason.TOO_LARGE, f"a message has {limit} bytes at most; send it in parts")
        elif self.holding and len(self.held) >= MAX_HELD:
            _refuse(ctx, Reason.FULL, f"members of {self.title} do not keep up; cast again later")
        else:
            first, sender, request = self.last + 1, ctx.sender, ctx.request
            self.casts += len(note.payloads)
            item = Casts(sender, note.payloads, directed=bool(note.to))
            self._append(ctx, item, len(note.payloads), note.to)
            if request and self.holding:
                self.held.append((sender, request, first))
            elif request:
                ctx.send(ctx.reply_to, Casted(first))

    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        """Order a message that a member is to answer."""
        if not self.members:
            text = f"the group {self.title} has no members that could answer; start one"
            _refuse(ctx, Reason.NO_MEMBERS, text)
        elif len(note.payload) > MAX_CAST_BYTES:
            _refuse(ctx, Reason.TOO_LARGE, f"a request has {MAX_CAST_BYTES} bytes at most; make it smaller")
        elif not ctx.request or not 0 < note.timeout_s <= MAX_REQUEST_S:
            _refuse(ctx, Reason.BAD_REQUEST, f"a request waits for up to {MAX_REQUEST_S:g} s")
        elif len(self.requests) >= MAX_REQUESTS:
            text = f"{MAX_REQUESTS} requests to {self.title} wait for an answer; ask again later"
            _refuse(ctx, Reason.FULL, text)
        else:
            self.casts += 1
            index = self.last + 1
            self.requests[index] = OpenRequest(ctx.sender, ctx.request, note.oldest)
            self._append(ctx, Casts(ctx.sender, [note.payload], request=True))
            ctx.timer(note.timeout_s, Asked(index))

    @reacts
    def answer(self, ctx: Context, note: AnswerRequest) -> None:
        """Pass the answer of a member to the client that has asked, if it is the one that counts."""
        request = self.requests.get(note.index)
        if request is None:
            return
        member = self.members.get(ctx.sender)
        if member is None or member.joined >= note.index or len(note.payload) > MAX_ANSWER_BYTES:
            _refuse(ctx, Reason.BAD_REQUEST, f"members answer, with {MAX_ANSWER_BYTES} bytes at most")
        elif request.oldest and ctx.sender != oldest(self.members, note.index):
            request.keep(ctx.sender, note.payload)
        else:
            self._answer(ctx, note.index, ctx.sender, note.payload)

    @reacts
    def unanswered(self, ctx: Context, note: Asked) -> None:
        """Refuse a request that nobody has answered in time."""
        if ctx.sender == ctx.agent and note.index in self.requests:
            text = f"no member of {self.title} has answered in time"
            self._refuse_request(ctx, note.index, Reason.NO_ANSWER, text)

    def _answer(self, ctx: Context, index: int, member: AgentId, payload: bytes) -> None:
        request = self.requests.pop(index)
        ctx.send(ReplyTo(request.client, request.number), GroupAnswer(index, member, payload))

    def _refuse_request(self, ctx: Context, index: int, reason: Reason, text: str) -> None:
        request = self.requests.pop(index)
        ctx.send(ReplyTo(request.client, request.number), GroupRefused(reason, text))

    def _settle_requests(self, ctx: Context) -> None:
        """Answer requests after members have gone: another one is the oldest, or none is left."""
        for index, request in list(self.requests.items()):
            first = oldest(self.members, index)
            if first is None:
                text = f"all members of {self.title} that had the request have gone"
                self._refuse_request(ctx, index, Reason.NO_MEMBERS, text)
            elif request.oldest and first in request.answers:
                self._answer(ctx, index, first, request.answers[first])

    @reacts
    def state_ready(self, ctx: Context, _: StateReady) -> None:
        """Note that a member has the state of the application."""
        member = self.members.get(ctx.sender)
        if member is None:
            self._not_a_member(ctx)
        elif not member.ready:
            member.ready = self.had_state = True
            self._append(ctx, Ready(ctx.sender))

    # Storage

    def _append(self, ctx: Context, item: Item, count: int = 1, to: list[AgentId] | None = None) -> None:
        """Give items the next indices, store them, and have homes send them."""
        first = self.last + 1
        self.last += count
        if not self.members:
            self.acked = self.last
            return
        page = Page(count, encode_item(item), to or [])
        self.pages[first] = page
        self.stored_bytes += len(page.data)
        ctx.emit(GROUPS_TOPIC, Appended(first, page))
        self._bound(ctx)

    def _bound(self, ctx: Context) -> None:
        """Hold answers while a member does not keep up; expel it if too much is stored for it."""
        if self.local:
            self._bound_local(ctx)
            return
        waiting = self.last - self.acked
        if 2 * waiting <= MAX_ITEMS and 2 * self.stored_bytes <= MAX_STORED_BYTES:
            return
        if waiting > MAX_ITEMS or self.stored_bytes > MAX_STORED_BYTES:
            self._expel_slowest(ctx)
        elif not self.holding:
            self.holding = True
            ctx.timer(SLOW_S, SlowCheck(self.acked))

    def _bound_local(self, ctx: Context) -> None:
        """Give up the homes for which too much is held; hold answers while one that runs does not keep up."""
        if self.stored_bytes > self.limits.hold_bytes:
            reason = f"more than {self.limits.hold_bytes} bytes were held for its replica"
            self._give_up(ctx, self.homes.slowest(), reason)
        elif not self.holding and 2 * (self.last - self.homes.low_of_running(self.last)) > MAX_ITEMS:
            self.holding = True
            ctx.timer(SLOW_S, SlowCheck(self.homes.low_of_running(self.last)))

    @reacts
    def slow_check(self, ctx: Context, note: SlowCheck) -> None:
        """Expel the slowest members if they have acknowledged nothing."""
        if ctx.sender != ctx.agent or not self.holding:
            return
        acked = self.homes.low_of_running(self.last) if self.local else self.acked
        if acked <= note.acked:
            self._expel_slowest(ctx)
        if self.holding:
            ctx.timer(SLOW_S, SlowCheck(acked))

    def _expel_slowest(self, ctx: Context) -> None:
        if self.local:
            applied = self.homes.applied
            low = self.homes.low_of_running(self.last)
            slowest = [home for home in applied if home not in self.homes.away and applied[home] == low]
            self._give_up(ctx, slowest, "its replica does not file what comes")
            return
        low = min([member.acked for member in self.members.values()])
        slow = [each for each, member in self.members.items() if member.acked == low]
        self._expel(ctx, slow, "too slow")

    def _trim(self, ctx: Context) -> None:
        """Drop what all members have."""
        acked = self._all_have()
        if acked > self.acked:
            self.acked = acked
            first = self.pages.first()
            while first is not None:
                page = self.pages[first]
                if first + page.count - 1 > acked:
                    break
                self.stored_bytes -= len(page.data)
                del self.pages[first]
                first = self.pages.first()
        if self.holding and self._few_wait():
            self.holding = False
            held, self.held = self.held, []
            for sender, request, index in held:
                ctx.send(ReplyTo(sender, request), Casted(index))

    def _all_have(self) -> int:
        """Return up to which item nothing needs to be kept."""
        if self.local:
            return self.homes.low(self.last)
        return min([member.acked for member in self.members.values()], default=self.last)

    def _few_wait(self) -> bool:
        """Return whether those for whom answers are held have caught up."""
        if self.local:
            return 4 * (self.last - self.homes.low_of_running(self.last)) <= MAX_ITEMS
        return 4 * (self.last - self.acked) <= MAX_ITEMS and 4 * self.stored_bytes <= MAX_STORED_BYTES

    # Questions

    @reacts
    def describe(self, ctx: Context, _: DescribeGroup) -> None:
        """Answer with the members and the figures of the group."""
        members = [member.status(each) for each, member in self.members.items()]
        description = GroupDescription(
            self.title,
            self.view,
            self.last,
            self.last - self.acked,
            self.stored_bytes,
            self.casts,
            self.suspicions,
            self.false_suspicions,
            self.holding,
            len(self.requests),
            members,
            self.homes.statuses(self.last),
        )
        ctx.send(ctx.reply_to, description)

    def _not_a_member(self, ctx: Context) -> None:
        _refuse(ctx, Reason.NOT_A_MEMBER, f"this connection is no member of {self.title}; join before")


def _refuse(ctx: Context, reason: Reason, text: str) -> None:
    ctx.send(ctx.reply_to, GroupRefused(reason, text))


def _only_from_server(ctx: Context) -> None:
    if ctx.sender != outside(ctx.agent.host):
        raise PermissionError("only the replicas of the server ask for this")
