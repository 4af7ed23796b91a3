"""Services that do input and output for agents: activities, declared with a decorator."""

import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

import attrs
import msgspec
from twisted.internet.defer import Deferred, maybeDeferred

from ..agents.activity import (
    ActivitiesDeclared,
    ActivityPolicy,
    DeclareActivities,
    activities_topic,
)
from ..agents.activity_agent import ActivitiesAgent
from ..agents.agent import AgentError, agent_spec
from ..agents.builtin import Create, Created, CreateFailed
from ..agents.envelope import Note
from ..agents.ids import activities, factory, outside
from ..agents.notification import Notification, check_notification, decode, encode
from .activity_attempts import ActivityAttempts, ActivityMethod
from .base import ASK_TIMEOUT_S, Service, ServiceContext, ServiceError

__all__ = ["ActivityService", "activity"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__quorate_activity__"


@attrs.frozen
class _Marked:
    """What the decorator leaves on a method."""

    policy: ActivityPolicy
    thread: bool


def activity(
    name: str,
    *,
    attempts: int = 5,
    first_pause_s: float = 1.0,
    last_pause_s: float = 60.0,
    factor: float = 2.0,
    timeout_s: float = 60.0,
    expires_s: float = 86400.0,
    concurrency: int = 16,
    thread: bool | None = None,
) -> Callable[[F], F]:
    """Declare a method ``(self, call: ActivityCall, note: SomeInput) -> SomeResult | None`` as an activity.

    The method gets the agent's input, decoded as the class of its third parameter, and returns the result, a
    notification, or None. An ``async def`` runs in the reactor thread and awaits Deferreds; a ``def`` runs in
    a thread and may block, or, with ``thread=False``, in the reactor thread, where it may return a Deferred.

    The other arguments are those of `ActivityPolicy`. Raises ServiceError for one that cannot be used.
    """
    given = {
        "name": name,
        "attempts": attempts,
        "first_pause_s": first_pause_s,
        "last_pause_s": last_pause_s,
        "factor": factor,
        "timeout_s": timeout_s,
        "expires_s": expires_s,
        "concurrency": concurrency,
    }
    try:
        policy = msgspec.convert(given, ActivityPolicy)
    except msgspec.ValidationError as error:
        raise ServiceError(f"the activity {name!r} cannot be declared: {error}") from None
    if not name or not name.isprintable():
        raise ServiceError(f"{name!r} cannot be the name of an activity; give printable text")

    def declare(method: F) -> F:
        asynchronous = inspect.iscoroutinefunction(method)
        if asynchronous and thread:
            raise ServiceError(
                f"{method.__qualname__}: an async def runs in the reactor thread, not in another"
            )
        setattr(method, _MARK, _Marked(policy, not asynchronous if thread is None else thread))
        return method

    return declare


class ActivityService(Service):
    """Base class of services that do activities::

        class Payments(ActivityService):
            @activity("charge", attempts=8, timeout_s=10)
            async def charge(self, call: ActivityCall, note: ChargeCard) -> Charged: ...

    An agent requests them with ``ctx.activity("charge", ChargeCard(...), key=...)``. Each name belongs to
    one service of a server. Declare such services before those that let clients in.
    """

    def open(self, ctx: ServiceContext, args: str) -> Awaitable[None] | None:  # noqa: ARG002
        """Prepare for activities: called on the master before the first one. May be ``async def``.

        Raises `ServiceError` when the service cannot run. Does nothing unless a subclass overrides it.
        """
        return None

    def close(self) -> Awaitable[None] | None:
        """Free everything: called when no activity is begun any more, and those that ran are cancelled.

        May be ``async def``. Called also if `open` has failed. Does nothing unless a subclass overrides it.
        """
        return None

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> "Deferred[None]":  # noqa: ARG002
        """Open the service, and take over the activities that are pending for it."""
        return Deferred.fromCoroutine(self._init(ctx, args))

    def stop(self) -> "Deferred[None]":
        """Cancel the attempts that run, and close the service; the next master begins them again."""
        attempts: ActivityAttempts | None = getattr(self, "_attempts", None)
        if attempts is not None:
            attempts.stop()
        return maybeDeferred(cast("Any", self.close))

    @classmethod
    def class_flaw(cls) -> str:
        """Return what is wrong with the declarations of the class, "" if nothing is."""
        flaw = super().class_flaw()
        if flaw:
            return flaw
        try:
            declared = cls._declared()
        except (ServiceError, AgentError) as error:
            return str(error)
        return "" if declared else _no_activity(cls)

    @property
    def activity_names(self) -> list[str]:
        """The names of the declared activities. Raises ServiceError for a wrong declaration."""
        return [marked.policy.name for _, marked, _ in self._declared()]

    async def _init(self, ctx: ServiceContext, args: str) -> None:
        methods = self._methods()
        if not methods:
            raise ServiceError(_no_activity(type(self)))
        for other in ctx.siblings(ActivityService):
            taken = set(self.activity_names) & set(other.activity_names) if other is not self else None
            if taken:
                raise ServiceError(
                    f"{type(other).__name__} declares the activity {min(taken)!r} already; keep one of them"
                )
        await maybeDeferred(cast("Any", self.open), ctx, args)
        name = f"{type(self).__module__}:{type(self).__qualname__}"
        self._attempts = attempts = ActivityAttempts(ctx, {each.policy.name: each for each in methods})
        ctx.subscribe(activities_topic(name), attempts.ordered)
        await self._have_agent(ctx)
        declare = DeclareActivities(name, [each.policy for each in methods])
        await ctx.ask(activities(ctx.server_id), declare, ASK_TIMEOUT_S, reply=ActivitiesDeclared)

    async def _have_agent(self, ctx: ServiceContext) -> None:
        """Create the agent that keeps activities, when the server has none yet."""
        location, here = agent_spec(ActivitiesAgent).location, ctx.server_id
        create = Create(class_name=location, id=activities(here), once=True)
        note = Note(factory(here), outside(here), create.type_name, encode(create))
        answer = await ctx.request(note, ASK_TIMEOUT_S)
        if answer.type == CreateFailed.type_name:
            raise ServiceError(f"activities cannot be kept: {decode(CreateFailed, answer.payload).reason}")
        if answer.type != Created.type_name:
            raise ServiceError(f"activities cannot be kept: the factory answered with {answer.type}")

    def _methods(self) -> list[ActivityMethod]:
        return [
            ActivityMethod(getattr(self, attribute), input_class, marked.policy, marked.thread)
            for attribute, marked, input_class in self._declared()
        ]

    @classmethod
    def _declared(cls) -> list[tuple[str, _Marked, type[Notification]]]:
        """Return the marked methods: attribute, mark and input. Raises ServiceError or AgentError."""
        found: dict[str, tuple[str, _Marked, type[Notification]]] = {}
        for attribute in sorted({key for base in cls.__mro__ for key in vars(base)}):
            function = getattr(cls, attribute, None)
            marked: _Marked | None = getattr(function, _MARK, None)
            if marked is None:
                continue
            where = f"{cls.__name__}.{attribute}"
            if marked.policy.name in found:
                raise ServiceError(
                    f"{where}: the activity {marked.policy.name!r} is declared twice; keep one"
                )
            input_class = _input_class(cast("Callable[..., Any]", function), where)
            found[marked.policy.name] = attribute, marked, input_class
        return list(found.values())


def _no_activity(cls: type) -> str:
    return f"{cls.__name__} declares no activity; mark a method with @activity"


def _input_class(function: Callable[..., Any], where: str) -> type[Notification]:
    """Return the class of the third parameter of a method. Raises ServiceError if it is no notification."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 3:
        raise ServiceError(f"{where}: an activity takes (self, call, notification)")
    try:
        found: object = typing.get_type_hints(function).get(parameters[2])
    except Exception as error:
        raise ServiceError(f"{where}: a type cannot be resolved: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Notification)):
        raise ServiceError(
            f"{where}: annotate {parameters[2]} with the class of the notification that it takes"
        )
    check_notification(found)
    return found
