"""The attempts of activities that a service of the master runs: begun by order, limited in time, reported."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import attrs
import msgspec
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from ..agents.activity import (
    MAX_ACTIVITY_RESULT_BYTES,
    ActivityPolicy,
    AttemptDone,
    AttemptFailed,
    StartAttempt,
    StopAttempt,
)
from ..agents.ids import AgentId, activities
from ..agents.notification import Notification, decode, encode, has_name
from ..hachannel.transport.ports import DelayedCallPort
from .base import ServiceContext

__all__ = ["ActivityAttempts", "ActivityCall", "ActivityMethod", "PermanentError"]

_MAX_MESSAGE_CHARS = 1000


class PermanentError(Exception):
    """Raised by an activity when trying again cannot help: its agent gets the failure at once."""


@attrs.frozen
class ActivityCall:
    """The call of an activity: for whom it is, and how the outside recognises a repetition."""

    agent: AgentId
    """The agent that has requested it."""
    key: str
    """The key that the agent has given it."""
    idempotency_key: str
    """32 hexadecimal digits, the same for every attempt of this activity and for no other activity, on this
    server or another: give it to the outside, so that it can recognise an attempt that is repeated."""
    attempt: int
    """Counts the attempts from 1."""
    timeout_s: float
    """Time limit of this attempt."""


@attrs.frozen
class ActivityMethod:
    """A method that a service has declared as an activity."""

    function: Callable[[ActivityCall, Any], Any]
    input_class: type[Notification]
    policy: ActivityPolicy
    thread: bool
    """Whether the method runs in a thread of its own."""


@attrs.define(eq=False)
class _Attempt:
    """An attempt that runs."""

    order: StartAttempt
    result: "Deferred[Any]"
    timeout: DelayedCallPort


class ActivityAttempts:
    """Runs the attempts that the activities agent orders for one service, and reports how they end.

    The agent bounds how many run at a time.
    """

    def __init__(self, ctx: ServiceContext, methods: dict[str, ActivityMethod]) -> None:
        """`methods` are the activities of the service, by name."""
        self._ctx = ctx
        self._methods = methods
        self._running: dict[int, _Attempt] = {}
        self._stopped = False

    def ordered(self, _: AgentId, order: msgspec.Struct) -> None:
        """Carry out an order of the activities agent."""
        if self._stopped:
            return
        if isinstance(order, StartAttempt):
            self._start(order)
        elif isinstance(order, StopAttempt):
            self._cancel(order.number)

    def stop(self) -> None:
        """Cancel all attempts, without a report, and begin no more."""
        self._stopped = True
        for number in list(self._running):
            self._cancel(number)

    def _start(self, order: StartAttempt) -> None:
        self._cancel(order.number)
        self._ctx.count("activity_attempts")
        method = self._methods.get(order.activity)
        if method is None or not has_name(method.input_class, order.type):
            takes = "" if method is None else f"takes {method.input_class.type_name}, not {order.type}"
            self._report_failure(order, "TypeError", takes or "is not declared here", retry=False)
            return
        try:
            note = decode(method.input_class, order.payload)
        except Exception as error:  # The code of the class may raise anything, in a validator say.
            self._report_failure(order, type(error).__name__, f"the input does not fit: {error}", retry=False)
            return
        call = ActivityCall(order.agent, order.key, order.idempotency_key, order.attempt, order.timeout_s)
        function: Callable[..., Any] = method.function
        result: Deferred[Any]
        if method.thread:
            result = self._ctx.in_thread(function, call, note)
        else:
            result = maybeDeferred(cast("Any", function), call, note)
        timeout = self._ctx.reactor.callLater(order.timeout_s, self._time_out, order)
        attempt = self._running[order.number] = _Attempt(order, result, timeout)
        self._ctx.gauge("activities_running", len(self._running))
        succeeded, failed = partial(self._succeeded, attempt), partial(self._failed, attempt)
        result.addCallbacks(succeeded, failed).addErrback(self._log_defect, order)

    def _succeeded(self, attempt: _Attempt, value: object) -> None:
        order = attempt.order
        if not self._end(attempt):
            return
        if value is None:
            self._report(AttemptDone(order.number, order.attempt, "", b""))
            return
        if not isinstance(value, Notification):
            returned = f"it returned {type(value).__name__}; return a notification or None"
            self._report_failure(order, "TypeError", returned, retry=False)
            return
        try:
            payload = encode(value)
        except Exception as error:  # a value that no notification can hold, or code of the class
            self._report_failure(order, type(error).__name__, _text_of(error), retry=False)
            return
        if len(payload) > MAX_ACTIVITY_RESULT_BYTES:
            text = f"it returned {len(payload)} bytes, more than {MAX_ACTIVITY_RESULT_BYTES}"
            self._report_failure(order, "ValueError", text, retry=False)
            return
        self._report(AttemptDone(order.number, order.attempt, value.type_name, payload))

    def _failed(self, attempt: _Attempt, failure: Failure) -> None:
        if self._end(attempt):
            error = cast("BaseException", failure.value)  # pyright: ignore[reportUnknownMemberType]
            retry = not isinstance(error, PermanentError)
            self._report_failure(attempt.order, type(error).__name__, _text_of(error), retry=retry)

    def _time_out(self, order: StartAttempt) -> None:
        attempt = self._running.get(order.number)
        if attempt is not None and attempt.order is order and self._end(attempt):
            attempt.result.cancel()
            text = f"the attempt took longer than {order.timeout_s:g} s"
            self._report_failure(order, "TimeoutError", text, retry=True)

    def _cancel(self, number: int) -> None:
        attempt = self._running.get(number)
        if attempt is not None and self._end(attempt):
            attempt.result.cancel()

    def _end(self, attempt: _Attempt) -> bool:
        """Record that an attempt has ended. Return False if it had ended before: its result is not wanted."""
        if self._running.get(attempt.order.number) is not attempt:
            return False
        del self._running[attempt.order.number]
        if attempt.timeout.active():
            attempt.timeout.cancel()
        self._ctx.gauge("activities_running", len(self._running))
        return True

    def _report_failure(self, order: StartAttempt, error: str, message: str, *, retry: bool) -> None:
        self._ctx.count("activity_failures")
        message = message[:_MAX_MESSAGE_CHARS]
        self._ctx.log(
            f"attempt {order.attempt} of activity {order.activity!r}, key {order.key!r} of agent "
            f"{order.agent}, failed: {error}: {message}"
        )
        text = message.encode("utf-8", "backslashreplace").decode()
        self._report(AttemptFailed(order.number, order.attempt, error, text, retry))

    def _report(self, report: AttemptDone | AttemptFailed) -> None:
        self._ctx.send(activities(self._ctx.server_id), report)

    def _log_defect(self, failure: Failure, order: StartAttempt) -> None:
        self._ctx.log(f"activity {order.activity!r}: defect: {failure.getErrorMessage()}")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # also SystemExit: the attempt must end
        return "its message cannot be shown"
