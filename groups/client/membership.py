"""The membership of a connection in a group: turns pages of the server into events. No I/O, no clock."""

from collections import deque
from collections.abc import Callable

from ...agents.ids import AgentId
from ...client.errors import ProtocolError
from ...client.frames import StreamItems
from ..agents.items import Casts, Item, MemberInfo, Suspected, Trusted, ViewChange, decode_item
from ..agents.items import Ready as ReadyItem
from ..agents.protocol import GroupJoined
from .events import GroupEvent, Member, Message, Ready, Suspicion, Trust, View

__all__ = ["MAX_EARLY", "MembershipCore"]

MAX_EARLY = 8192
"""Frames that are kept until the answer to the request to join has come; the server sends no more."""
ITEM_BYTES = 64
"""Counted for each event besides its payload."""


class MembershipCore:
    """Turns pages into events, each once and in order. Events wait in `events` until they are taken.

    `take` may be called in another thread than the loop, by one thread at a time; all else in the loop.
    """

    def __init__(self, title: str, me: Callable[[], AgentId]) -> None:
        """`me` returns the identifier of the connection."""
        self.title = title
        self.joined = False
        self.events: deque[GroupEvent] = deque()
        self.error: Exception | None = None
        """Why no more events come; None while they do."""
        self.in_order = False
        """Whether this program has ended the membership."""
        self.index = 0
        """The last item that became an event, or was for others."""
        self.view = 0
        self.taken = 0
        """All items up to here were taken by the program."""
        self.acked = 0
        """All items up to here were acknowledged."""
        self.unacknowledged = 0
        """Bytes taken since the last acknowledgement."""
        self.had_state = False
        self.first_members: tuple[MemberInfo, ...] = ()
        """The members of the view with which this one has joined."""
        self.on_event: Callable[[], None] = _nothing
        """Called after events have come, or the end."""
        self._me = me
        self._members: dict[AgentId, MemberInfo] = {}
        self._shown: dict[AgentId, Member] = {}
        """The same, as events have them: a view of a thousand members costs a copy of references."""
        self._early: list[StreamItems] = []

    @property
    def members(self) -> tuple[MemberInfo, ...]:
        """The members as of `index`, the oldest first."""
        return tuple(self._members.values())

    def start(self, answer: GroupJoined) -> None:
        """Begin with the view in which this connection is a member."""
        self.joined = True
        self.had_state = answer.had_state
        self.index = answer.index
        self.taken = answer.index - 1
        self.view = answer.view
        self._members = {info.id: info for info in answer.members}
        self._shown = {info.id: Member.of(info) for info in answer.members}
        self.first_members = tuple(answer.members)
        me = self._shown[self._me()]
        self.events.append(View(self.index, self.view, self._view_members(), (me,), ()))
        early, self._early = self._early, []
        for frame in early:
            self._take_frame(frame)
        self.on_event()

    def received(self, frame: StreamItems) -> None:
        """Take pages that the server has sent. Raises ProtocolError for what it must not send."""
        if self.error is not None:
            return
        if not self.joined:
            if len(self._early) >= MAX_EARLY:
                raise ProtocolError("the server sends items of a group that was not joined")
            self._early.append(frame)
            return
        self._take_frame(frame)
        self.on_event()

    def end(self, error: Exception, *, in_order: bool = False) -> None:
        """Have no more events come. in_order: this program has left, or closed the connection."""
        if self.error is None:
            self.error, self.in_order = error, in_order
            self.on_event()

    def take(self) -> GroupEvent | None:
        """Return the next event; None if there is none at present."""
        try:
            event = self.events.popleft()
        except IndexError:
            return None
        self.taken = event.index
        self.unacknowledged += ITEM_BYTES + (len(event.payload) if isinstance(event, Message) else 0)
        return event

    def acknowledged(self) -> int:
        """Return up to where the program has everything, to be acknowledged."""
        self.unacknowledged = 0
        # Items for other members need nobody to take them.
        self.acked = self.taken if self.events else self.index
        return self.acked

    def _take_frame(self, frame: StreamItems) -> None:
        for first, count, data in frame.pages:
            if first + count - 1 <= self.index:
                continue
            if first > self.index + 1:
                raise ProtocolError(f"item {self.index + 1} of the group {self.title} is missing")
            self._take_page(first, count, decode_item(data))
            self.index = first + count - 1

    def _take_page(self, first: int, count: int, item: Item) -> None:
        known, events = self.index + 1 - first, self.events
        if isinstance(item, Casts):
            view, sender = self.view, item.sender
            if len(item.payloads) != count:
                raise ProtocolError(f"item {first} of the group {self.title} has another number of messages")
            index = first + known
            for payload in item.payloads[known:] if known else item.payloads:
                events.append(Message(index, sender, payload, view, item.request, item.directed))
                index += 1
        elif isinstance(item, ViewChange):
            self._change_view(first, item)
        elif isinstance(item, Suspected):
            events.append(Suspicion(first, self._member(item.member)))
        elif isinstance(item, Trusted):
            events.append(Trust(first, self._member(item.member)))
        elif isinstance(item, ReadyItem):
            info = self._members.get(item.member)
            if info is not None:
                self._members[item.member] = MemberInfo(info.id, info.user, info.label, ready=True)
            events.append(Ready(first, self._member(item.member)))

    def _change_view(self, index: int, change: ViewChange) -> None:
        self.view = change.number
        left = tuple((self._member(each), reason) for each, reason in change.left)
        for each, _ in change.left:
            self._members.pop(each, None)
            self._shown.pop(each, None)
        for info in change.joined:
            self._members[info.id] = info
            self._shown[info.id] = Member.of(info)
        joined = tuple([self._shown[info.id] for info in change.joined])
        self.events.append(View(index, self.view, self._view_members(), joined, left))

    def _view_members(self) -> tuple[Member, ...]:
        return tuple(self._shown.values())

    def _member(self, identity: AgentId) -> Member:
        return self._shown.get(identity) or Member(identity)


def _nothing() -> None:
    return
