"""Routing of a notification: to an agent here, to the outside, to a neighbour, or back to its sender."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from ..agents import (
    FAILURES,
    AgentId,
    ExceptionNotification,
    Note,
    Notification,
    UnknownAgent,
    encode,
    outside,
)
from ..agents.congestion import CONGESTION_TOPIC, Congested, Uncongested
from .effects import Effects
from .server_links import Link, Links
from .settings import EngineSettings

__all__ = ["Mail", "Routing"]

_MAX_ADDRESSES: Final = 10_000
_MAX_ADDRESS: Final = 600
"""Characters: a name, a server, and what joins them."""


class Routing:
    """The servers of the configuration as one of them sees them."""

    def __init__(self, server: int, names: Mapping[str, int], routes: Mapping[int, int] | None) -> None:
        """Make the routing of `server`; `names` and `routes` are those of `Engine`."""
        self._server = server
        self._names = dict(names)
        self._ids = frozenset(self._names.values()) | {server}
        direct = {each: each for each in self._ids}
        self._hops = direct if routes is None else {to: hop for to, hop in routes.items() if to in self._ids}
        self._addresses: dict[str, tuple[int, AgentId | str]] = {}

    def resolve(self, server: str | int) -> int:
        """Return the id of a server by its name or number. Raises ValueError for an unknown one."""
        if isinstance(server, str):
            number = self._names.get(server)
            if number is None and server.isascii() and server.isdigit():
                number = int(server)
        else:
            number = server
        if number is None or number not in self._ids:
            raise ValueError(f"there is no server {server!r}; there are: {', '.join(sorted(self._names))}")
        return number

    def locate(self, address: AgentId | str) -> tuple[int, AgentId | str]:
        """Return the hosting server of an address, and the address without server. Raises ValueError."""
        if isinstance(address, AgentId):
            return address.host, address
        found = self._addresses.get(address)
        if found is None:
            if len(address) > _MAX_ADDRESS:
                raise ValueError(f"an address has at most {_MAX_ADDRESS} characters, not {len(address)}")
            name, at, server = address.rpartition("@")
            if address.startswith("#"):
                identity = AgentId.parse(address)
                found = (identity.host, identity)
            elif "@" in name:
                raise ValueError(f"{address!r} has more than one @; write name@server")
            elif at:
                found = (self.resolve(server), name)
            else:
                found = (self._server, address)
            if len(self._addresses) >= _MAX_ADDRESSES:
                self._addresses.clear()
            self._addresses[address] = found
        return found

    def as_given(self, note: Note) -> str:
        """Return the address of a notification as its sender has given it.

        On the last link to this server it has lost the name of the server.
        """
        if isinstance(note.to, str) and "@" not in note.to and note.sender.host != self._server:
            names = [name for name, server in self._names.items() if server == self._server]
            return f"{note.to}@{names[0]}" if names else note.to
        return str(note.to)

    def next_hop(self, host: int) -> int | None:
        """Return the neighbour that leads to a server; None if that is unknown or out of reach."""
        return self._hops.get(host)


class Mail:
    """The queue of the local agents and the links to the neighbours.

    `lost` is called with every notification that cannot be delivered, and the reason.
    """

    def __init__(
        self,
        server: int,
        routing: Routing,
        settings: EngineSettings,
        lost: Callable[[Note, str, Effects], None],
    ) -> None:
        self.local: deque[Note] = deque()
        """Notifications for agents of this server, addressed by id, or by name without server."""
        self.local_bytes = 0
        """Bytes of the payloads that were appended to `local` in the present turn."""
        self.links = Links()
        self.cause = 0
        """The position of the reaction in progress: that of what `send` and `answer` send."""
        self.to_agents = 0
        """Counts the notifications that were appended to `local`."""
        self.to_servers: list[int] = []
        """The servers of the notifications that were pushed on links since it was cleared."""
        self._server = server
        self._routing = routing
        self._settings = settings
        self._lost = lost
        self._outside = outside(server)

    def send(self, note: Note, effects: Effects) -> None:
        """Route a notification that nobody else has, with the reaction in progress as its cause."""
        self.route(note, effects, self.cause)

    def route(self, note: Note, effects: Effects, cause: int = 0) -> None:
        """Append a notification to the queue, the link or the replies that its address says.

        `cause`: what `Note.cause` is to be, unless it leaves the agents; 0 to let it as it is.
        """
        try:
            host, local = self._routing.locate(note.to)
        except ValueError:
            self.unknown(note, effects)
            return
        if cause and local != self._outside:
            force_setattr(note, "cause", cause)
        if host != self._server:
            self._send_on_link(note, host, local, effects)
        elif local == self._outside:
            effects.replies.append(note)
        else:
            self.local.append(note if local is note.to else msgspec.structs.replace(note, to=local))
            self.local_bytes += len(note.payload)
            self.to_agents += 1

    def _send_on_link(self, note: Note, host: int, local: AgentId | str, effects: Effects) -> None:
        hop = self._routing.next_hop(host)
        if hop is None:
            self.unknown(note, effects)
            return
        link = self.links[hop]
        settings, waiting, size_bytes = self._settings, len(link.waiting), link.size_bytes
        full = size_bytes + len(note.payload) > settings.max_waiting_bytes and waiting
        if full or waiting >= settings.max_waiting:
            reason = (
                f"{waiting} notifications of {size_bytes} bytes wait for server {hop} already, and at most "
                f"{settings.max_waiting} of {settings.max_waiting_bytes} bytes may; try again later"
            )
            self.refuse(note, "Backlog", reason, effects)
            return
        if self._congested(link):
            origin = effects.origin
            if origin is not None and (origin, hop) not in effects.congested:
                effects.congested.add((origin, hop))
                effects.emissions.append((CONGESTION_TOPIC, origin, Congested(hop)))
        # A name keeps its server while a router must know it; the last link leads to that server itself.
        if local is not note.to and (hop == host or isinstance(local, AgentId)):
            note = msgspec.structs.replace(note, to=local)
        effects.network.setdefault(hop, []).append(self.links.push(link, note))
        self.to_servers.append(host)

    def acknowledged(self, server: int, birth: int, upto: int, effects: Effects) -> None:
        """Remove what another server holds, as `Links.acknowledge` does; report the end of congestion."""
        link = self.links.peek(server)
        before = self._congested(link)
        self.links.acknowledge(server, birth, upto)
        if before and not self._congested(link):
            effects.emissions.append((CONGESTION_TOPIC, self._outside, Uncongested(server)))

    def _congested(self, link: Link) -> bool:
        """Return whether so much waits for a server that clients which send there are held back."""
        settings = self._settings
        return len(link.waiting) >= settings.high_water or link.size_bytes >= settings.high_water_bytes

    def unknown(self, note: Note, effects: Effects) -> None:
        """Answer the sender that there is no such agent."""
        self._lost(note, "unknown agent", effects)
        if note.type not in FAILURES:
            self.answer(note, self._outside, UnknownAgent(self._routing.as_given(note), note.type), effects)

    def refuse(
        self, note: Note, error: str, message: str, effects: Effects, agent: AgentId | None = None
    ) -> None:
        """Answer the sender that the notification failed. `agent` is the recipient, if it is known."""
        if note.type in FAILURES:
            self._lost(note, error, effects)
            return
        refusing = agent or (note.to if isinstance(note.to, AgentId) else self._outside)
        self.answer(note, refusing, ExceptionNotification(refusing, note.type, error, message), effects)

    def answer(self, note: Note, sender: AgentId, answer: Notification, effects: Effects) -> None:
        """Send an answer to the sender of `note`."""
        self.send(Note(note.sender, sender, answer.type_name, encode(answer), note.request), effects)
