"""Activities: input and output that a service does for an agent, and the notifications about them.

An agent requests an activity with ``Context.activity``. The `ActivitiesAgent` of its server keeps the request
in the replicated state, has a service of the master do it, and sends the agent one outcome.
"""

from typing import Annotated, Final, Literal, TypeVar

import attrs
import msgspec

from .ids import AgentId
from .notification import Notification, decode, has_name

__all__ = [
    "MAX_ACTIVITY_INPUT_BYTES",
    "MAX_ACTIVITY_RESULT_BYTES",
    "OUTCOME_TYPES",
    "ActivitiesDeclared",
    "ActivityCompleted",
    "ActivityFailed",
    "ActivityPolicy",
    "AttemptDone",
    "AttemptFailed",
    "CancelActivity",
    "DeclareActivities",
    "Outcome",
    "RunActivity",
    "StartAttempt",
    "StopAttempt",
    "activities_topic",
    "check_activity_key",
]

R = TypeVar("R", bound=Notification)

MAX_ACTIVITY_INPUT_BYTES: Final = 1024 * 1024
"""Largest encoded input of an activity."""
MAX_ACTIVITY_RESULT_BYTES: Final = 4 * 1024 * 1024
"""Largest encoded result of an activity."""
MAX_KEY_CHARS: Final = 200
"""Longest key of an activity."""

Outcome = Literal["failed", "expired", "cancelled", "unknown", "refused"]
"""Why an activity has no result.

``failed``: its attempts are used up, or an error cannot be mended by trying again. ``expired``: it was not
done within ``expires_s``. ``cancelled``: its agent has cancelled it. ``unknown``: no service of the server
declares an activity of that name. ``refused``: too many activities are pending.
"""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]


@attrs.frozen
class ActivityCompleted(Notification, name="quorate.activity.completed"):
    """Outcome of an activity: it was done. Only the platform sends it; a client cannot."""

    activity: str
    """The name of the activity."""
    key: str
    """The key under which the agent has requested it."""
    result_type: str = ""
    """The type of the result; "" if the activity returned nothing."""
    payload: bytes = b""
    """The result, encoded; `result` decodes it."""

    def result(self, cls: type[R]) -> R:
        """Return the result. Raises ValueError if it is not a `cls`, or does not fit that class."""
        if not has_name(cls, self.result_type):
            returned = self.result_type or "nothing"
            raise ValueError(f"activity {self.activity!r} returned {returned}, not {cls.type_name}")
        return decode(cls, self.payload)


@attrs.frozen
class ActivityFailed(Notification, name="quorate.activity.failed"):
    """Outcome of an activity: it has no result. Only the platform sends it; a client cannot.

    An attempt of which nothing more was heard may have been done outside all the same.
    """

    activity: str
    """The name of the activity."""
    key: str
    """The key under which the agent has requested it."""
    outcome: Outcome
    attempts: int
    """Number of attempts that were begun."""
    error: str
    """Class of the last attempt's exception; ``Interrupted`` if its master failed; "" without an attempt."""
    message: str
    """One sentence about the reason."""


OUTCOME_TYPES: Final = frozenset((ActivityCompleted.type_name, ActivityFailed.type_name))
"""Types that the activities agent alone sends."""


@attrs.frozen
class RunActivity(Notification, name="quorate.activity.run"):
    """Request of an agent to the activities agent; what is None is as the service has declared it."""

    activity: str
    key: str
    type: str
    payload: bytes
    attempts: int | None = None
    timeout_s: float | None = None
    expires_s: float | None = None


@attrs.frozen
class CancelActivity(Notification, name="quorate.activity.cancel"):
    """Order of an agent to the activities agent. The outcome is ``cancelled``, unless it is known already."""

    key: str


@attrs.frozen
class ActivityPolicy:
    """The limits of an activity, as its service declares them."""

    name: str
    attempts: _Count = 5
    """Attempts, the first one included. An attempt that the end of its master interrupts counts."""
    first_pause_s: _Seconds = 1.0
    """Pause after the first failed attempt. Each pause varies by a fifth, so that retries do not coincide."""
    last_pause_s: _Seconds = 60.0
    """Longest pause."""
    factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 2.0
    """Each pause is this many times as long as the one before."""
    timeout_s: _Seconds = 60.0
    """Time limit of one attempt."""
    expires_s: _Seconds = 86400.0
    """Time limit of the whole activity: from the request to its outcome, all pauses included."""
    concurrency: _Count = 16
    """Attempts that run at the same time; further activities of that name wait."""


@attrs.frozen
class DeclareActivities(Notification, name="quorate.activity.declare"):
    """Notice of a service that has started: it does these activities from now on, and no others.

    Attempts that an earlier master has begun for the service are begun again. Answered with
    `ActivitiesDeclared`.
    """

    service: str
    """The name of the service's class: what `activities_topic` takes."""
    policies: list[ActivityPolicy]


@attrs.frozen
class ActivitiesDeclared(Notification, name="quorate.activity.declared"):
    """Answer to `DeclareActivities`."""

    pending: int
    """Number of activities of the server, of all services, without an outcome."""


@attrs.frozen
class AttemptDone(Notification, name="quorate.activity.attempt-done"):
    """Report of a service: an attempt has succeeded."""

    number: int
    attempt: int
    type: str
    payload: bytes


@attrs.frozen
class AttemptFailed(Notification, name="quorate.activity.attempt-failed"):
    """Report of a service: an attempt has failed."""

    number: int
    attempt: int
    error: str
    message: str
    retry: bool
    """False if trying again cannot mend it."""


class StartAttempt(msgspec.Struct, array_like=True, frozen=True):
    """Order to the service of the master, emitted by the activities agent: begin an attempt."""

    number: int
    """Identifies the activity within the server."""
    attempt: int
    """Counts its attempts from 1."""
    activity: str
    agent: AgentId
    key: str
    idempotency_key: str
    type: str
    payload: bytes
    timeout_s: float


class StopAttempt(msgspec.Struct, array_like=True, frozen=True):
    """Order to the service of the master: end an attempt, its result is not wanted any more."""

    number: int


def activities_topic(service: str) -> str:
    """Return the topic of the orders for the service of that class."""
    return f"quorate.activities/{service}"


def check_activity_key(key: object) -> str:
    """Return the key that an agent gives to an activity. Raises TypeError or ValueError."""
    if not isinstance(key, str):
        raise TypeError(f"{key!r} is not the key of an activity; give text")
    if not 1 <= len(key) <= MAX_KEY_CHARS or not key.isprintable() or key.startswith("@"):
        raise ValueError(
            f"{key!r} cannot be the key of an activity; use 1 to {MAX_KEY_CHARS} printable characters, the "
            "first of them not @"
        )
    return key
