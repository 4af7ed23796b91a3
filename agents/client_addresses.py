"""What clients may address: names, ids and the factory, but no agents of the platform."""

from .builtin import Create
from .context import Context
from .ids import FACTORY_ADDRESS, FIRST_CONNECTION_STAMP, FIRST_FREE_STAMP, AgentId
from .notification import UNREADABLE, decode

__all__ = ["names_id", "recipient", "refusal"]


def recipient(ctx: Context, to: AgentId | str) -> AgentId | str:
    """Return the address that a client has given, as an id unless it is a name. Raises ValueError."""
    if not isinstance(to, str) or not to.startswith("#"):
        return to
    name, at, server = to.partition("@")
    if name == FACTORY_ADDRESS:
        return ctx.factory(server if at else None)
    return AgentId.parse(to)


def names_id(payload: bytes) -> bool:
    """Return whether a `Create` chooses the id of the agent. The factory refuses one that cannot be read."""
    try:
        return decode(Create, payload).id is not None
    except UNREADABLE:
        return False


def refusal(to: AgentId) -> str:
    """Return why a client may not address an agent other than its own proxy; "" when it may."""
    if to.stamp < FIRST_FREE_STAMP:
        return "clients may not address the agents of the platform"
    return "clients may not address other connections" if to.stamp >= FIRST_CONNECTION_STAMP else ""
