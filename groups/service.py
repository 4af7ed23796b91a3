"""The service of groups on every replica: it sends the items of groups to the members connected there.

It also watches these members: one whose TCP connection ends, or that is silent, is suspected (rule 10 of the
design); members of a replica that has gone are suspected by the agents of groups. Source: JMSGroups,
section 5: the *home* of a member alone writes to it.
"""

import sqlite3
from typing import Any, Final, cast

import attrs
import msgspec
from twisted.python.failure import Failure

from ..agents.ids import AgentId
from ..agents.notification import Notification
from ..agents.presence import HomeBegun, HomeLimits, HomesChanged, Suspect, Trust
from ..client.errors import QuorateClientError
from ..client.frames import StreamAck
from ..hachannel.transport.ports import DelayedCallPort
from ..services.base import ServerView, Service, ServiceContext, ServiceError
from ..services.client_connection import ClientConnection
from ..services.client_connections import ClientConnections
from .agents.items import GROUPS_TOPIC, Appended, Begun, HomeState, Page, Removed
from .agents.manager import GroupManager
from .agents.protocol import GROUPS, GroupList, ListGroups, ReadStream, StreamAcks, StreamRead
from .home_store import HomeStore
from .home_stream import HomeStream, Reader
from .local_contexts import LocalContexts

__all__ = ["GroupService"]

ACK_S: Final = 0.1
"""What members have received is ordered this often: see rule 8 of the design."""
SILENCE_S: Final = 5.0
"""Default of the property ``client_silence_s``. Clients send a keep-alive every second."""
READ_TIMEOUT_S: Final = 10.0
READ_AGAIN_S: Final = 0.2
MAX_PAGE_ITEMS: Final = 4096
"""No page has more items: a cast has no more messages."""
MAX_FRAMES: Final = 64
"""Frames written to one member in a turn of the reactor."""


@attrs.define(eq=False)
class _Client:
    """A client with memberships that is connected here."""

    link: ClientConnection
    groups: set[AgentId] = attrs.field(factory=set[AgentId])
    heard_at: float = 0.0
    silent_ticks: int = 0
    suspected: bool = False


class GroupService(Service):
    """The home of members of groups. Every replica of a server with ``mode="group"`` has it."""

    scope = "replica"

    def __init__(self) -> None:
        self._streams: dict[AgentId, HomeStream] = {}
        self._clients: dict[AgentId, _Client] = {}
        """By connection."""
        self._dirty: dict[AgentId, None] = {}
        self._timer: DelayedCallPort | None = None
        self._stopped = False
        self._served: list[ClientConnections] = []
        self._local: LocalContexts | None = None
        """The contexts of members on the disk of this home, if they are there."""

    async def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Have the manager of groups, and serve the members that connect to this replica."""
        self._ctx = ctx
        self._limits = HomeLimits(
            float(ctx.setting("rehome_s", "2")),
            float(ctx.setting("expire_s", "30")),
            float(ctx.setting("hold_s", "3600")),
            int(ctx.setting("hold_bytes", str(256 * 1024 * 1024))),
        )
        self._silence_ticks = max(1, round(float(ctx.setting("client_silence_s", str(SILENCE_S))) / ACK_S))
        manager = await ctx.create(GroupManager, name=GROUPS, state={"local": ctx.local_context})
        known = cast("GroupList", await ctx.ask(manager, ListGroups(), reply=GroupList))
        if known.local != ctx.local_context:
            before = "local" if known.local else "replicated"
            raise ServiceError(
                f'the groups of this server were made with context="{before}", which cannot be changed; '
                "write that into the configuration"
            )
        if ctx.local_context:
            try:
                self._local = LocalContexts(ctx, await ctx.in_thread(HomeStore, ctx.directory))
            except (sqlite3.Error, OSError) as error:
                raise ServiceError(
                    f"the file of this home in {ctx.directory} cannot be used ({error}); mend the disk, or "
                    "remove the file, and the members of this replica leave their groups"
                ) from error
        ctx.subscribe(GROUPS_TOPIC, self._emitted)
        self._served = ctx.siblings(ClientConnections)
        for connections in self._served:
            connections.streams = self
            for link in connections.links:
                if link.is_open:
                    self.opened(link)
                    self.acknowledged(link, StreamAck(list(link.positions.items())))
        ctx.follow_views(self._view_changed)
        ctx.send(GROUPS, HomeBegun(ctx.replica, self._limits))
        self._timer = ctx.reactor.callLater(ACK_S, self._tick)

    def stop(self) -> None:
        """Stop serving members."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        for connections in self._served:
            connections.streams = None
        if self._local is not None:
            self._local.stop()

    # What the service for connections calls.

    def opened(self, link: ClientConnection) -> None:
        """Note that a client has connected; it names the groups that it is in by itself."""
        assert link.proxy is not None
        self.closed(link)
        self._clients[link.proxy] = _Client(link, heard_at=link.heard_at)
        link.on_writable = lambda: self._resume(link)

    def closed(self, link: ClientConnection) -> None:
        """Note that the TCP connection of a client has ended: suspect it, if it is a member."""
        assert link.proxy is not None
        client = self._clients.get(link.proxy)
        if client is None or (client.link is not link and not link.is_open):
            return
        del self._clients[link.proxy]
        for group in client.groups:
            self._drop_reader(group, link.proxy)
        if not client.groups or client.link is not link or self._stopped:
            return
        if link.ended_here:
            # The client was sent to another replica.
            self._ctx.reactor.callLater(self._limits.rehome_s, self._suspect, link)
        else:
            self._suspect(link)

    def vanished(self, link: ClientConnection) -> None:
        """Suspect a client that has died between its handshake and the answer.

        Its proxy takes this replica for its home; if it is no member, that is all that happens.
        """
        self._suspect(link)

    def _suspect(self, link: ClientConnection) -> None:
        if link.proxy is not None and not self._stopped:
            self._ctx.count("group_suspicions")
            self._send(link.proxy, Suspect(link.attempt, self._limits.expire_s))

    def acknowledged(self, link: ClientConnection, ack: StreamAck) -> None:
        """Note how far a client has the groups that it is in; begin to serve those that are new here."""
        assert link.proxy is not None
        client = self._clients.get(link.proxy)
        if client is None or client.link is not link:
            return
        for group, upto in ack.positions:
            stream = self._streams.get(group)
            reader = None if stream is None else stream.readers.get(link.proxy)
            if stream is None or reader is None:
                self._resume_reading(group, client, upto)
            elif stream.acknowledge(reader, upto):
                self._mark(group)

    def suspected(self, link: ClientConnection) -> None:
        """Note that a client is suspected, by whomever: it is trusted again when it is heard."""
        client = self._clients.get(link.proxy) if link.proxy is not None else None
        if client is not None and client.link is link:
            client.suspected = True

    # What agents emit.

    def _emitted(self, group: AgentId, message: msgspec.Struct) -> None:
        stream = self._streams.get(group)
        if self._local is not None:
            self._file(self._local, group, message)
        if isinstance(message, Appended):
            if stream is not None:
                stream.append(message.first, message.page)
                self._mark(group)
        elif isinstance(message, Begun):
            client = self._clients.get(message.member)
            if client is not None:
                stream = self._streams.setdefault(group, HomeStream(group))
                stream.begin(message.member, message.after)
                client.groups.add(group)
                self._gauge()
        elif isinstance(message, Removed):
            client = self._clients.get(message.member)
            if client is not None:
                client.groups.discard(group)
            self._drop_reader(group, message.member)

    def _file(self, local: LocalContexts, group: AgentId, message: msgspec.Struct) -> None:
        if isinstance(message, Appended):
            local.appended(group, message)
        elif isinstance(message, Begun):
            local.begun(group, message)
        elif isinstance(message, Removed):
            local.removed(group, message)
        elif isinstance(message, HomeState):
            local.state(group, message)

    def _drop_reader(self, group: AgentId, member: AgentId) -> None:
        stream = self._streams.get(group)
        if stream is None or stream.readers.pop(member, None) is None:
            return
        if not stream.readers:
            del self._streams[group]
            self._report(group, stream.take_acks())
        self._gauge()

    def _report(self, group: AgentId, acks: list[tuple[AgentId, int]]) -> None:
        if acks and self._local is not None:
            self._local.acknowledged(group, acks)
        elif acks:
            self._send(group, StreamAcks(acks))

    def _gauge(self) -> None:
        self._ctx.gauge("group_members", sum([len(stream.readers) for stream in self._streams.values()]))

    # Members that have connected from elsewhere.

    def _resume_reading(self, group: AgentId, client: _Client, after: int) -> None:
        member = client.link.proxy
        assert member is not None
        if group.host != self._ctx.server_id or after < 0:
            return
        stream = self._streams.setdefault(group, HomeStream(group))
        client.groups.add(group)
        reader = stream.resume(member, after)
        if self._local is None:
            self._ask(stream, client, reader, after)
        else:
            local = self._local
            local.when_ready(group, lambda: self._read_disk(local, stream, client, reader, after))
        self._gauge()

    def _read_disk(
        self, local: LocalContexts, stream: HomeStream, client: _Client, reader: Reader, after: int
    ) -> None:
        """Read from the disk of this home what a member has not got."""
        if not self._present(stream, reader):
            return
        group = stream.group
        if not local.has(group, reader.member):
            client.groups.discard(group)
            self._drop_reader(group, reader.member)
            return

        def read(pages: list[tuple[int, Page]], more: bool) -> None:
            if not self._present(stream, reader):
                return
            if not more:
                known = pages[-1][0] if pages else after - MAX_PAGE_ITEMS
                pages = [*pages, *local.recent(group, known)]
            following = stream.fetched(reader, pages, local.last(group), more)
            if following is None:
                self._mark(group)
            else:
                self._read_disk(local, stream, client, reader, following)

        local.read(group, after, 0, read)

    def _ask(self, stream: HomeStream, client: _Client, reader: Reader, after: int) -> None:
        request = ReadStream(reader.member, after, stream.first_kept)
        reply = self._ctx.ask(stream.group, request, READ_TIMEOUT_S, StreamRead)

        def read(found: Notification) -> None:
            self._read(stream, client, reader, cast("StreamRead", found))

        def not_read(failure: Failure) -> None:
            self._not_read(stream, client, reader, after, failure)

        reply.addCallbacks(read, not_read)

    def _present(self, stream: HomeStream, reader: Reader) -> bool:
        known = self._streams.get(stream.group) is stream and stream.readers.get(reader.member) is reader
        return known and not self._stopped

    def _read(self, stream: HomeStream, client: _Client, reader: Reader, found: StreamRead) -> None:
        if not self._present(stream, reader):
            return
        if not found.member:
            client.groups.discard(stream.group)
            self._drop_reader(stream.group, reader.member)
            return
        after = stream.fetched(reader, found.pages, found.last, found.more)
        if after is None:
            self._mark(stream.group)
        else:
            self._ask(stream, client, reader, after)

    def _not_read(
        self, stream: HomeStream, client: _Client, reader: Reader, after: int, failure: Failure
    ) -> None:
        """Ask again after a time, unless the group is unknown: an answer was lost with the last master."""
        if not self._present(stream, reader):
            return
        error = cast("BaseException", failure.value)  # pyright: ignore[reportUnknownMemberType]
        if isinstance(error, QuorateClientError):
            client.groups.discard(stream.group)
            self._drop_reader(stream.group, reader.member)
            return
        reader.fetched = []
        again = min(after, reader.sent)
        self._ctx.reactor.callLater(READ_AGAIN_S, self._ask_again, stream, client, reader, again)

    def _ask_again(self, stream: HomeStream, client: _Client, reader: Reader, after: int) -> None:
        if self._present(stream, reader):
            self._ask(stream, client, reader, after)

    # Writing.

    def _mark(self, group: AgentId) -> None:
        """Write to the members of a group at the end of this turn of the reactor."""
        if not self._dirty:
            cast("Any", self._ctx.reactor).callLater(0, self._flush)
        self._dirty[group] = None

    def _resume(self, link: ClientConnection) -> None:
        client = self._clients.get(link.proxy) if link.proxy is not None else None
        if client is not None:
            for group in client.groups:
                self._mark(group)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        written = 0
        for group in dirty:
            stream = self._streams.get(group)
            if stream is not None:
                for reader in stream.readers.values():
                    before = reader.sent
                    self._write(stream, reader)
                    written += reader.sent - before
        if written:
            self._ctx.count("group_deliveries", written)

    def _write(self, stream: HomeStream, reader: Reader) -> None:
        client = self._clients.get(reader.member)
        written = 0
        while client is not None and written < MAX_FRAMES and client.link.writable:
            frame = stream.next_frame(reader)
            if frame is None:
                break
            client.link.write_frame(frame)
            written += 1
        if written == MAX_FRAMES:
            self._mark(stream.group)

    # Time and views.

    def _tick(self) -> None:
        self._timer = self._ctx.reactor.callLater(ACK_S, self._tick)
        for group, stream in self._streams.items():
            self._report(group, stream.take_acks())
        if self._local is not None:
            self._local.tick()
        for member, client in self._clients.items():
            # Also one that has left its groups while it was suspected.
            if client.groups or client.suspected:
                self._watch(member, client)

    def _watch(self, member: AgentId, client: _Client) -> None:
        """Suspect a member that is silent; trust it again when it is heard.

        Silence is counted in calls, not in time: a replica that was paused has not listened.
        """
        link = client.link
        if link.heard_at != client.heard_at:
            client.heard_at, client.silent_ticks = link.heard_at, 0
            if client.suspected:
                client.suspected = False
                self._send(member, Trust(link.attempt))
            return
        client.silent_ticks += 1
        if client.silent_ticks >= self._silence_ticks and not client.suspected:
            client.suspected = True
            self._suspect(link)

    def _view_changed(self, view: ServerView) -> None:
        if view.members[0] != self._ctx.replica:
            return
        self._ctx.send(GROUPS, HomesChanged(list(view.number), sorted(view.members), self._limits))

    def _send(self, to: AgentId, note: Notification) -> None:
        self._ctx.send(to, note)
