"""The users of a server, and the agent that opens their connections."""

import hashlib
import hmac
import os
from typing import Final

from twisted.internet.defer import Deferred

from ..agents.agent import agent_spec
from ..agents.builtin import Create, CreateFailed
from ..agents.envelope import Note
from ..agents.ids import AgentId, connection_manager, factory, outside
from ..agents.manager import ConnectionManagerAgent
from ..agents.notification import Notification, decode, encode
from ..agents.presence import HomeLimits, HomesChanged
from ..agents.proxy import MasterChanged
from .base import ServerView, Service, ServiceContext, ServiceError

__all__ = ["ConnectionManager", "create_manager", "note_from_service"]

START_TIMEOUT_S: Final = 30.0
"""Time for the agent to be created when the first master starts."""
ADMINISTRATORS_PROPERTY: Final = "administrators"
"""Users, separated by spaces, who may create and administer agents from a client."""
CREATE_KEY: Final = "quorate.connection-manager"


def note_from_service(ctx: ServiceContext, to: AgentId, notification: Notification) -> Note:
    """Address a notification from the services of this server."""
    sender = outside(ctx.server_id)
    return Note(to, sender, notification.type_name, encode(notification))


def create_manager(ctx: ServiceContext) -> "Deferred[Note]":
    """Create the connection manager agent, if there is none. Fires with the answer of the factory."""
    location = agent_spec(ConnectionManagerAgent).location
    create = Create(class_name=location, id=connection_manager(ctx.server_id), key=CREATE_KEY)
    return ctx.request(note_from_service(ctx, factory(ctx.server_id), create), START_TIMEOUT_S)


def _tell_homes(ctx: ServiceContext, view: ServerView) -> None:
    """Tell the connection manager which replicas clients may use; the master does."""
    if view.members[0] == ctx.replica:
        homes = HomesChanged(list(view.number), sorted(view.members), HomeLimits())
        ctx.post([note_from_service(ctx, connection_manager(ctx.server_id), homes)])


class _Secret:
    """A password, salted and hashed: it is compared in constant time and never shown."""

    def __init__(self, password: str):
        self._salt = os.urandom(16)
        self._hash = self._digest(password)

    def _digest(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode(), key=self._salt).digest()

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(self._hash, self._digest(password))


class ConnectionManager(Service):
    """Service ``ConnectionManager``; its arguments are users and passwords: ``root root alice secret``.

    Without arguments it has no user, and every client is refused. The property ``administrators`` names the
    users who may create, delete and pause agents; without it nobody may.
    """

    scope = "replica"

    def __init__(self) -> None:
        self._users: dict[str, _Secret] = {}
        self._administrators: frozenset[str] = frozenset()
        # Compared for unknown users, so that a refusal takes the same time for all names.
        self._nobody = _Secret(os.urandom(16).hex())

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> "Deferred[None] | None":
        """Read the users; create the connection manager agent when the cluster has none yet.

        Raises ServiceError if the arguments are not pairs of user and password.
        """
        words = args.split()
        if len(words) % 2:
            raise ServiceError(
                'ConnectionManager needs pairs of user and password; write args="user password"'
            )
        self._users = {
            user: _Secret(password) for user, password in zip(words[::2], words[1::2], strict=True)
        }
        self._administrators = frozenset(ctx.setting(ADMINISTRATORS_PROPERTY, "").split())
        started = create_manager(ctx)

        def created(reply: Note) -> None:
            if reply.type == CreateFailed.type_name and first_time:
                reason = decode(CreateFailed, reply.payload).reason
                raise ServiceError(f"ConnectionManager cannot start: {reason}")
            if ctx.homes:
                # Before any client is accepted here: they are divided among these replicas.
                ctx.follow_views(lambda view: _tell_homes(ctx, view))
                return
            # Clients that were connected to the former master get their full idle time to come back.
            ctx.post([note_from_service(ctx, connection_manager(ctx.server_id), MasterChanged())])

        return started.addCallback(created)

    def check(self, user: str, password: str) -> bool:
        """Return whether `password` is the password of the user."""
        known = self._users.get(user)
        return (known or self._nobody).matches(password) and known is not None

    def administers(self, user: str) -> bool:
        """Return whether the user may create and administer agents from a client."""
        return user in self._administrators
