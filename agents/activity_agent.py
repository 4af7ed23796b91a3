"""The built-in agent that keeps the activities of a server until each has its outcome.

Everything that decides about an activity is here, in the replicated state: how often it was tried, when it is
tried again, and whether its agent has the outcome. The service of the master only does what this agent
orders, and reports. So a failover repeats at most the attempts that were running.
"""

import hashlib
from typing import Final, Literal

import attrs
import msgspec

from .activity import (
    ActivitiesDeclared,
    ActivityCompleted,
    ActivityFailed,
    ActivityPolicy,
    AttemptDone,
    AttemptFailed,
    CancelActivity,
    DeclareActivities,
    Outcome,
    RunActivity,
    StartAttempt,
    StopAttempt,
    activities_topic,
)
from .agent import Agent, reacts
from .context import Context
from .ids import FIRST_CONNECTION_STAMP, FIRST_FREE_STAMP, AgentId, outside
from .notification import Notification

__all__ = ["MAX_PENDING", "MAX_PENDING_BYTES", "MAX_REMEMBERED_KEYS", "ActivitiesAgent"]

MAX_PENDING: Final = 10_000
"""Activities of a server without an outcome; further ones are refused."""
MAX_PENDING_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the inputs of these activities."""
MAX_REMEMBERED_KEYS: Final = 10_000
"""Keys whose outcome was delivered and that are remembered, so that a repeated request is recognised."""
MAX_DECLARED: Final = 1000
"""Activities that the services of a server may declare, by name."""
_SWEEP: Final = 500
"""Withdrawn activities that get their outcome in one turn of the engine, which is bounded."""
_SWEEP_PAUSE_S: Final = 0.05
_MAX_MESSAGE_CHARS: Final = 1000


@attrs.frozen
class RetryActivity(Notification, name="quorate.activity.retry"):
    """Timer of the activities agent: the pause after a failed attempt is over."""

    number: int


@attrs.frozen
class ExpireActivity(Notification, name="quorate.activity.expire"):
    """Timer of the activities agent: the time limit of the whole activity has passed."""

    number: int


@attrs.frozen
class SweepActivities(Notification, name="quorate.activity.sweep"):
    """Timer of the activities agent: further withdrawn activities get their outcome."""


class PendingActivity(msgspec.Struct, array_like=True):
    """An activity without an outcome."""

    agent: AgentId
    """The agent that has requested it."""
    key: str
    activity: str
    type: str
    payload: bytes
    attempts: int
    """Attempts that it may have."""
    timeout_s: float
    expiry: int
    """The timer of its time limit."""
    phase: Literal["waiting", "running", "pausing"] = "waiting"
    attempt: int = 0
    """Attempts that were begun."""
    pause: int = 0
    """The timer of the present pause."""
    error: str = ""
    message: str = ""


class DeclaredActivity(msgspec.Struct, array_like=True):
    """What a service has declared under a name, and what it does."""

    service: str
    """The class of the service; "" once it is withdrawn."""
    policy: ActivityPolicy
    running: int = 0
    """Attempts that run now."""
    waiting: dict[int, bool] = msgspec.field(default_factory=dict[int, bool])
    """The numbers of the activities that wait for an attempt, in order; the values mean nothing."""


@attrs.define
class ActivitiesAgent(Agent, name="quorate.activities"):
    """Keeps activities, orders their attempts, and delivers their outcomes."""

    life: int = 0
    """The time of its first reaction: makes idempotency keys differ from those of an earlier life."""
    last_number: int = 0
    pending_bytes: int = 0
    pending: dict[int, PendingActivity] = attrs.field(factory=dict[int, PendingActivity])
    """By number, all activities without an outcome."""
    numbers: dict[str, int] = attrs.field(factory=dict[str, int])
    """The numbers of these by `_place`."""
    finished: dict[str, bytes] = attrs.field(factory=dict[str, bytes])
    """By `_place`, a hash of each request whose outcome was delivered last."""
    declared: dict[str, DeclaredActivity] = attrs.field(factory=dict[str, DeclaredActivity])
    """By name, the activities that services do."""

    # Requests of agents

    @reacts
    def run(self, ctx: Context, note: RunActivity) -> None:
        """Keep an activity, and begin its first attempt if its turn has come.

        Raises ValueError if the agent has used the key for another request.
        """
        sender = ctx.sender
        if sender.host != ctx.agent.host or not FIRST_FREE_STAMP <= sender.stamp < FIRST_CONNECTION_STAMP:
            raise PermissionError("only the agents of this server request activities here")
        place = _place(sender, note.key)
        number = self.numbers.get(place)
        known = self.finished.get(place) if number is None else _hash_of(self.pending[number])
        if known is not None:
            if known != _hash_of(note):
                raise ValueError(
                    f"the key {note.key!r} belongs to another activity, or another input, that this agent "
                    "has requested before; give each activity a key of its own"
                )
            return  # The same activity: it has one outcome, which is delivered once.
        declared = self.declared.get(note.activity)
        if declared is None or not declared.service:
            names = ", ".join(sorted(name for name, each in self.declared.items() if each.service))
            self._refuse(ctx, note, "unknown", f"no service declares it; declared are: {names or 'none'}")
        elif len(self.pending) >= MAX_PENDING or self.pending_bytes + len(note.payload) > MAX_PENDING_BYTES:
            pending = f"{len(self.pending)} activities of {self.pending_bytes} bytes"
            self._refuse(ctx, note, "refused", f"{pending} are pending on this server; request it later")
        else:
            self._keep(ctx, note, place, declared)

    def _refuse(self, ctx: Context, note: RunActivity, outcome: Outcome, why: str) -> None:
        message = f"activity {note.activity!r}: {why}"
        ctx.send(ctx.sender, ActivityFailed(note.activity, note.key, outcome, 0, "", message))

    def _keep(self, ctx: Context, note: RunActivity, place: str, declared: DeclaredActivity) -> None:
        policy = declared.policy
        self.life = self.life or ctx.now_ns
        self.last_number += 1
        number = self.last_number
        self.pending[number] = PendingActivity(
            ctx.sender,
            note.key,
            note.activity,
            note.type,
            note.payload,
            note.attempts or policy.attempts,
            note.timeout_s or policy.timeout_s,
            ctx.timer(note.expires_s or policy.expires_s, ExpireActivity(number)),
        )
        self.numbers[place] = number
        self.pending_bytes += len(note.payload)
        declared.waiting[number] = True
        self._begin_waiting(ctx, declared)

    @reacts
    def cancel(self, ctx: Context, note: CancelActivity) -> None:
        """End an activity of the sender. One that has its outcome, or was never requested, is ignored."""
        number = self.numbers.get(_place(ctx.sender, note.key))
        if number is not None:
            self._fail(ctx, number, "cancelled", "its agent has cancelled it")

    # The services of the master

    @reacts
    def declare(self, ctx: Context, note: DeclareActivities) -> None:
        """Take over what a service declares, and begin again what a former master has begun for it."""
        _check_service(ctx)
        for name, each in self.declared.items():
            if each.service == note.service and all(policy.name != name for policy in note.policies):
                each.service = ""
        for policy in note.policies:
            if policy.name not in self.declared:
                if len(self.declared) >= MAX_DECLARED:
                    raise ValueError(f"{MAX_DECLARED} activities are declared on this server already")
                self.declared[policy.name] = DeclaredActivity(note.service, policy)
            each = self.declared[policy.name]
            each.service, each.policy = note.service, policy
        self._interrupt(ctx, [policy.name for policy in note.policies])
        for policy in note.policies:
            self._begin_waiting(ctx, self.declared[policy.name])
        ctx.send(ctx.reply_to, ActivitiesDeclared(len(self.pending)))
        if any(not each.service for each in self.declared.values()):
            ctx.timer(0, SweepActivities())

    def _interrupt(self, ctx: Context, names: list[str]) -> None:
        """Have the attempts of these activities that ran on another master wait in front of all others."""
        running = [
            (number, each)
            for number, each in self.pending.items()
            if each.phase == "running" and each.activity in names
        ]
        again: dict[str, dict[int, bool]] = {name: {} for name in names}
        for number, each in running:
            each.error = "Interrupted"
            each.message = "the master that ran the attempt has failed or stopped; it may have been done"
            if each.attempt < each.attempts:
                each.phase = "waiting"
                again[each.activity][number] = True
                self.declared[each.activity].running -= 1
        for name in names:
            self.declared[name].waiting = {**again[name], **self.declared[name].waiting}
        for number, each in running:
            if number not in again[each.activity]:
                self._fail(ctx, number, "failed", each.message)

    @reacts
    def sweep(self, ctx: Context, _: SweepActivities) -> None:
        """End activities that their service does not declare any more."""
        _check_timer(ctx)
        withdrawn = [name for name, each in self.declared.items() if not each.service]
        left = [number for number, each in self.pending.items() if each.activity in withdrawn]
        for number in left[:_SWEEP]:
            self._fail(ctx, number, "unknown", "its service does not declare it any more")
        if len(left) > _SWEEP:
            ctx.timer(_SWEEP_PAUSE_S, SweepActivities())
        else:
            for name in withdrawn:
                del self.declared[name]

    @reacts
    def done(self, ctx: Context, note: AttemptDone) -> None:
        """Deliver the result of an attempt, unless the activity has an outcome already."""
        _check_service(ctx)
        each = self._running(note.number, note.attempt)
        if each is not None:
            completed = ActivityCompleted(each.activity, each.key, note.type, note.payload)
            self._finish(ctx, note.number, completed)

    @reacts
    def failed(self, ctx: Context, note: AttemptFailed) -> None:
        """Have a failed attempt tried again after a pause, or deliver the failure."""
        _check_service(ctx)
        each = self._running(note.number, note.attempt)
        if each is None:
            return
        each.error, each.message = note.error, note.message[:_MAX_MESSAGE_CHARS]
        if not note.retry or each.attempt >= each.attempts:
            self._fail(ctx, note.number, "failed", each.message)
            return
        declared = self.declared[each.activity]
        declared.running -= 1
        each.phase = "pausing"
        each.pause = ctx.timer(_pause_s(ctx, declared.policy, each.attempt), RetryActivity(note.number))
        self._begin_waiting(ctx, declared)

    def _running(self, number: int, attempt: int) -> PendingActivity | None:
        each = self.pending.get(number)
        return each if each is not None and each.phase == "running" and each.attempt == attempt else None

    # Timers

    @reacts
    def retry(self, ctx: Context, note: RetryActivity) -> None:
        """Queue an activity whose pause is over."""
        _check_timer(ctx)
        each = self.pending.get(note.number)
        if each is not None and each.phase == "pausing":
            each.phase, each.pause = "waiting", 0
            declared = self.declared[each.activity]
            declared.waiting[note.number] = True
            self._begin_waiting(ctx, declared)

    @reacts
    def expire(self, ctx: Context, note: ExpireActivity) -> None:
        """End an activity whose time limit has passed."""
        _check_timer(ctx)
        each = self.pending.get(note.number)
        if each is not None:
            last = f"; the last attempt failed with {each.error}: {each.message}" if each.error else ""
            self._fail(ctx, note.number, "expired", f"it was not done within its time limit{last}")

    # Attempts and outcomes

    def _begin_waiting(self, ctx: Context, declared: DeclaredActivity) -> None:
        """Order attempts while there are activities that wait and the concurrency permits it."""
        while declared.waiting and declared.service and declared.running < declared.policy.concurrency:
            number = next(iter(declared.waiting))
            del declared.waiting[number]
            each = self.pending[number]
            each.phase = "running"
            each.attempt += 1
            declared.running += 1
            order = StartAttempt(
                number,
                each.attempt,
                each.activity,
                each.agent,
                each.key,
                self._idempotency_key(each),
                each.type,
                each.payload,
                each.timeout_s,
            )
            ctx.emit(activities_topic(declared.service), order)

    def _idempotency_key(self, each: PendingActivity) -> str:
        text = f"{self.life} {_place(each.agent, each.key)}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _fail(self, ctx: Context, number: int, outcome: Outcome, why: str) -> None:
        each = self.pending[number]
        message = f"activity {each.activity!r}: {why}"
        failed = ActivityFailed(each.activity, each.key, outcome, each.attempt, each.error, message)
        self._finish(ctx, number, failed)

    def _finish(self, ctx: Context, number: int, outcome: ActivityCompleted | ActivityFailed) -> None:
        """Forget an activity, and send its outcome to the agent that has requested it."""
        each = self.pending.pop(number)
        declared = self.declared[each.activity]
        if each.phase == "running":
            declared.running -= 1
            if isinstance(outcome, ActivityFailed):
                ctx.emit(activities_topic(declared.service), StopAttempt(number))
        elif each.phase == "waiting":
            declared.waiting.pop(number, None)
        else:
            ctx.cancel(each.pause)
        ctx.cancel(each.expiry)
        self.pending_bytes -= len(each.payload)
        place = _place(each.agent, each.key)
        del self.numbers[place]
        if not each.key.startswith("@"):  # Keys that the platform has made are never used again.
            self.finished[place] = _hash_of(each)
            if len(self.finished) > MAX_REMEMBERED_KEYS:
                del self.finished[next(iter(self.finished))]
        ctx.send(each.agent, outcome)
        self._begin_waiting(ctx, declared)


def _place(agent: AgentId, key: str) -> str:
    return f"{agent} {key}"


def _hash_of(request: PendingActivity | RunActivity) -> bytes:
    hasher = hashlib.blake2b(digest_size=8)
    for part in (request.activity.encode(), request.type.encode(), request.payload):
        hasher.update(len(part).to_bytes(4, "big") + part)
    return hasher.digest()


def _pause_s(ctx: Context, policy: ActivityPolicy, attempt: int) -> float:
    pause_s = policy.first_pause_s
    for _ in range(attempt - 1):
        pause_s *= policy.factor
        if pause_s >= policy.last_pause_s:
            break
    return min(pause_s, policy.last_pause_s) * ctx.random.uniform(0.8, 1.2)


def _check_service(ctx: Context) -> None:
    if ctx.sender != outside(ctx.agent.host):
        raise PermissionError("only the services of the server report about activities")


def _check_timer(ctx: Context) -> None:
    if ctx.sender != ctx.agent:
        raise PermissionError("only the timers of the activities agent send this")
