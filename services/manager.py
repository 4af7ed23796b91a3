"""The users of a server, and the agent that opens their connections."""

from collections.abc import Callable
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
from ..agents.rights import Grant
from .base import ServerView, Service, ServiceContext, ServiceError
from .rights import RIGHTS_FILE_PROPERTY, RightsFile
from .users import ADMINISTRATORS_PROPERTY, USERS_FILE_PROPERTY, Users

__all__ = ["ConnectionManager", "create_manager", "note_from_service"]

START_TIMEOUT_S: Final = 30.0
"""Time for the agent to be created when the first master starts."""
LOOK_S: Final = 1.0
"""Seconds after which the files of users and rights are looked at again."""
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


class ConnectionManager(Service):
    """Service ``ConnectionManager``; its arguments are users and passwords: ``root root alice secret``.

    Further users are in the file that the property ``users_file`` names, their passwords hashed; `quorate
    passwd` writes it. Without any user every client is refused. The property ``administrators`` names the
    users who may create, delete and pause agents; without it nobody may. The property ``rights_file`` names
    the file with the rights of all others; without it they may send to every agent.
    """

    scope = "replica"

    def __init__(self) -> None:
        self._users = Users()
        self._rights = RightsFile("", lambda _: None)
        self._reads = 0
        """How often the file of users was read when it was looked at last."""
        self._followers: list[Callable[[], None]] = []
        self._stopped = False

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> "Deferred[None] | None":
        """Read the users; create the connection manager agent when the cluster has none yet.

        Raises ServiceError if the arguments are not pairs of user and password.
        """
        self._users = Users(
            args, ctx.setting(ADMINISTRATORS_PROPERTY), ctx.setting(USERS_FILE_PROPERTY), ctx.log
        )
        self._rights = RightsFile(ctx.setting(RIGHTS_FILE_PROPERTY), ctx.log)
        self._reactor = ctx.reactor
        if ctx.setting(RIGHTS_FILE_PROPERTY) or ctx.setting(USERS_FILE_PROPERTY):
            self._look()
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

    def verify(self, user: str, password: str) -> "Deferred[bool | None]":
        """Check a password. Fires with whether it is that of the user; None: too many are being checked."""
        return self._users.verify(user, password)

    def grants(self, user: str) -> list[Grant] | None:
        """Return the rights of a user; None: no rights are set, or the user administers."""
        if self._users.administers(user):
            return None
        return self._rights.of(user, self._users.groups(user))

    def follow_changes(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the files of users or rights were read again."""
        self._followers.append(callback)

    def outdated(self, user: str, grants: list[Grant] | None, proven: bool) -> bool:
        """Return whether a client that was let in with these rights would not be any more.

        proven: its certificate has proven its user, who need not be among those with a password.
        """
        return (not proven and not self._users.knows(user)) or grants != self.grants(user)

    def stop(self) -> None:
        """Look at the files no more."""
        self._stopped = True

    def _look(self) -> None:
        """Read the files again if they have changed, from time to time."""
        if self._stopped:
            return
        self._reactor.callLater(LOOK_S, self._look)
        before = self._reads
        again = self._rights.refresh()
        self._reads = self._users.refresh()
        if again or self._reads != before:
            for follower in self._followers:
                follower()

    def administers(self, user: str) -> bool:
        """Return whether the user may create and administer agents from a client."""
        return self._users.administers(user)
