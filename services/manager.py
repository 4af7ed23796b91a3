"""The users of a server, and the agent that opens their connections."""

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
        self._rights_read = 0
        self.watches = False
        """Whether there are files of users or rights, which may change."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> "Deferred[None] | None":
        """Read the users; create the connection manager agent when the cluster has none yet.

        Raises ServiceError if the arguments are not pairs of user and password.
        """
        self._users = Users(
            args, ctx.setting(ADMINISTRATORS_PROPERTY), ctx.setting(USERS_FILE_PROPERTY), ctx.log
        )
        self._rights = RightsFile(ctx.setting(RIGHTS_FILE_PROPERTY), ctx.log)
        self.watches = bool(ctx.setting(RIGHTS_FILE_PROPERTY) or ctx.setting(USERS_FILE_PROPERTY))
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

    def knows(self, user: str) -> bool:
        """Return whether there is such a user with a password."""
        return self._users.knows(user)

    def version(self) -> int:
        """Read the files of users and rights again if they have changed. Return how often that was so far."""
        self._rights_read += self._rights.refresh()
        return self._users.refresh() + self._rights_read

    def administers(self, user: str) -> bool:
        """Return whether the user may create and administer agents from a client."""
        return self._users.administers(user)
