"""Operations on groups of clients, and on the clients of each replica."""

from collections.abc import Sequence
from typing import Annotated, Final

import attrs
import msgspec

from ...agents import connection_manager
from ...agents.presence import DescribeHomes, DrainHome, Homes
from ...groups.agents.protocol import (
    GROUPS,
    DescribeGroup,
    ExpelMember,
    GroupDescription,
    GroupList,
    HomeForgotten,
    HomeLost,
    ListGroups,
    MemberExpelled,
    group_address,
)
from ..operations import Call, Operation
from ..problems import Problem
from .fields import Count

__all__ = ["OPERATIONS"]


class GroupNames(msgspec.Struct, frozen=True):
    """The groups of the server."""

    groups: list[str]


class MemberInfo(msgspec.Struct, frozen=True):
    """A member of a group."""

    id: str
    user: str
    label: str
    joined: Count
    """The item with which it became a member."""
    acked: Count
    """It has everything up to this item."""
    home: Count
    """The replica that it is connected to."""
    suspected: bool
    ready: bool


class HeldInfo(msgspec.Struct, frozen=True):
    """With ``context="local"``: what is held for a replica."""

    home: Count
    held: Count
    away: bool


class GroupInfo(msgspec.Struct, frozen=True):
    """A group, and its members, the oldest first."""

    title: str
    view: Count
    last: Count
    """The last item."""
    stored_items: Count
    stored_bytes: Count
    casts: Count
    suspicions: Count
    false_suspicions: Count
    holding: bool
    """Casts are answered late, because a member does not keep up."""
    requests: Count
    members: list[MemberInfo]
    homes: list[HeldInfo]


class Expulsion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which member is expelled."""

    member: Annotated[str, msgspec.Meta(min_length=1)]
    """Its id, label or user."""


class ExpulsionDone(msgspec.Struct, frozen=True):
    """The member is expelled."""

    member: str
    view: Count


class HomeInfo(msgspec.Struct, frozen=True):
    """A replica and its clients."""

    home: Count
    clients: Count
    standing: str
    """``serves``, ``drained`` or ``is not in the view``."""


class HomeList(msgspec.Struct, frozen=True):
    """All replicas and their clients."""

    homes: list[HomeInfo]


async def _list(call: Call) -> GroupNames:
    _check_mode(call)
    found = await call.calls.request(GROUPS, ListGroups(), GroupList)
    return GroupNames([title for title, _ in found.groups])


async def _get(call: Call) -> GroupInfo:
    _check_mode(call)
    address = group_address(call.parts["name"])
    described = attrs.asdict(await call.calls.request(address, DescribeGroup(), GroupDescription))
    for member in described["members"]:
        member["id"] = str(member["id"])
    return msgspec.convert(described, GroupInfo)


async def _expel(call: Call) -> ExpulsionDone:
    _check_mode(call)
    address, order = group_address(call.parts["name"]), ExpelMember(call.body.member)
    done = await call.calls.request(address, order, MemberExpelled)
    return ExpulsionDone(str(done.member), done.view)


async def _homes(call: Call) -> HomeList:
    return _home_list(call, await _ask_homes(call, DescribeHomes()))


def _home_list(call: Call, found: Homes) -> HomeList:
    def standing(home: int) -> str:
        if home in found.drained:
            return "drained"
        return "serves" if home in found.homes else "is not in the view"

    known = sorted({*call.host.replica_ids, *found.loads})
    return HomeList([HomeInfo(each, found.loads.get(each, 0), standing(each)) for each in known])


async def _ask_homes(call: Call, request: DescribeHomes | DrainHome) -> Homes:
    _check_mode(call)
    found = await call.calls.request(str(connection_manager(call.host.server_id)), request, Homes)
    if found.problem:
        raise Problem(409, "refused", f"{found.problem[:1].upper()}{found.problem[1:]}.")
    return found


async def _drain(call: Call) -> HomeList:
    return await _draining(call, drained=True)


async def _undrain(call: Call) -> HomeList:
    return await _draining(call, drained=False)


async def _draining(call: Call, *, drained: bool) -> HomeList:
    if call.host.local_context:
        sentence = 'With context="local" members of groups stay at their replica; give it up, with forget.'
        raise Problem(409, "refused", sentence)
    return _home_list(call, await _ask_homes(call, DrainHome(_home(call), drained)))


async def _forget(call: Call) -> None:
    _check_mode(call)
    if not call.host.local_context:
        sentence = (
            'With context="replicated" all replicas have what clients lack: there is nothing to forget.'
        )
        raise Problem(409, "refused", sentence)
    order = HomeLost(_home(call), "an administrator has given up its replica")
    await call.calls.request(GROUPS, order, HomeForgotten)


def _home(call: Call) -> int:
    home = call.number("replica")
    if home not in call.host.replica_ids:
        raise Problem(404, "not-found", f"The server has no replica {home}.")
    return home


def _check_mode(call: Call) -> None:
    if call.host.server_mode != "group":
        raise Problem(
            409, "refused", f'This server has mode="{call.host.server_mode}"; only mode="group" has groups.'
        )


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("listGroups", "GET", "/groups", "The names of the groups.", _list, GroupNames),
    Operation("getGroup", "GET", "/groups/{name}", "A group and its members.", _get, GroupInfo),
    Operation(
        *("expelMember", "POST", "/groups/{name}/expel", "End the membership of a client."),
        *(_expel, ExpulsionDone),
        body=Expulsion,
    ),
    Operation("listHomes", "GET", "/homes", "How many clients each replica has.", _homes, HomeList),
    Operation(
        *("drainHome", "POST", "/homes/{replica}/drain", "Have the clients of a replica leave it."),
        *(_drain, HomeList),
    ),
    Operation(
        *("undrainHome", "POST", "/homes/{replica}/undrain", "Let clients use a replica again."),
        *(_undrain, HomeList),
    ),
    Operation(
        *("forgetHome", "POST", "/homes/{replica}/forget", "Give up a replica that keeps its contexts."),
        *(_forget, None),
    ),
)
