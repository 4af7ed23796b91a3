"""The context of a reaction: everything that it may read and request besides its state."""

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from .activity import MAX_ACTIVITY_INPUT_BYTES, CancelActivity, RunActivity, check_activity_key
from .agent import Agent, AgentError, AgentSpec, agent_spec
from .builtin import Create
from .envelope import Note, ReplyTo, check_address
from .ids import Address, AgentId, activities, factory
from .names import check_importable
from .notification import Notification, encode
from .state_types import with_sorted_sets
from .thread_queue import QUEUE_TOPIC, QueuePut, check_queue_name

__all__ = ["MAX_NOTIFICATION_BYTES", "Context", "Outcome"]

MAX_NOTIFICATION_BYTES: Final = 8 * 1024 * 1024
"""A larger notification is refused when it is sent."""

_MAX_SENDS: Final = 1_000_000
"""Notifications of one reaction. The manager of connections informs all of them in one."""
_MAX_SENT_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all notifications of one reaction."""

_MAX_DELAY_S: Final = 1e9
_MAX_LINES: Final = 16
"""Lines that a reaction may write to the log; further ones are only counted."""
_MAX_LINE_CHARS: Final = 1000
"""Characters of such a line; the rest is left out."""
_NO_LINES: Final[Sequence[str]] = ()

_NO_STATE: Final[Mapping[str, Any]] = {}

_EXPLICIT: Final = -1
"""Value of `Context._answer` once the reaction has sent to ``ctx.reply_to``."""


@attrs.define
class Outcome:
    """The requests of a reaction. They take effect only if the reaction ends without an exception."""

    sends: list[Note] = attrs.field(factory=lambda: [])
    timers: list[tuple[int, int, str, bytes]] = attrs.field(factory=lambda: [])
    """(timer, due_ns, type, payload)"""
    cancelled: list[int] = attrs.field(factory=lambda: [])
    emitted: list[tuple[str, msgspec.Struct]] = attrs.field(factory=lambda: [])
    deleted: bool = False


class Context:
    """The context of one reaction; not valid after it.

    Everything in it is the same on every replica of the server.
    """

    __slots__ = (
        "_answer",
        "_next_stamp",
        "_position",
        "_random",
        "_resolve",
        "_sent_bytes",
        "agent",
        "dropped_lines",
        "lines",
        "name",
        "now_ns",
        "outcome",
        "request",
        "sender",
    )

    agent: AgentId
    """The reacting agent."""
    name: str | None
    """Its name, if it has one."""
    sender: AgentId
    """The sender of the notification."""
    request: int
    """The sender's number for this request; 0 if it is none."""
    now_ns: int
    """The time of this batch by the master's clock, in nanoseconds since 1970. It never goes back."""
    lines: Sequence[str]
    """For the engine: the texts given to `log`. They are no part of the outcome, which replicas compare."""
    dropped_lines: int
    """For the engine: the number of texts that were too many."""
    outcome: Outcome | None
    """For the engine: the requests of this reaction so far, None if there are none."""

    def __init__(
        self,
        *,
        agent: AgentId,
        name: str | None,
        sender: AgentId,
        request: int,
        now_ns: int,
        position: int,
        next_stamp: int,
        resolve: Callable[[str | int], int],
    ) -> None:
        self.agent = agent
        self.name = name
        self.sender = sender
        self.request = request
        self.now_ns = now_ns
        self._position = position
        self._next_stamp = next_stamp
        self._resolve = resolve
        self._sent_bytes = 0
        self._random: random.Random | None = None
        # Index of the implicit answer among the sends, or _EXPLICIT.
        self._answer: int | None = None
        self.outcome = None
        self.lines = _NO_LINES
        self.dropped_lines = 0

    @property
    def now(self) -> float:
        """`now_ns` in seconds."""
        return self.now_ns / 1_000_000_000

    @property
    def random(self) -> random.Random:
        """Pseudo-random numbers, seeded by the position of this reaction: equal on every replica."""
        if self._random is None:
            self._random = random.Random(f"{self.agent.host}/{self._position}")
        return self._random

    @property
    def reply_to(self) -> ReplyTo:
        """The address of the answer to this notification, for this reaction or for a later one."""
        return ReplyTo(self.sender, self.request)

    @property
    def next_stamp(self) -> int:
        """The stamp that the next created agent gets."""
        return self._next_stamp

    def send(self, to: Address | ReplyTo, notification: Notification) -> None:
        """Send a notification. It leaves when the reaction has ended without an exception.

        The answer to the request of the current notification is what is sent to `reply_to`. If this reaction
        sends nothing there, it is the first notification to `sender`. All others are notifications of their
        own.
        Raises TypeError if it cannot be encoded, ValueError if it is too large or the server is unknown.
        """
        payload = encode(notification)
        self._post(to, notification.type_name, payload)

    def forward(
        self, to: Address | ReplyTo, type: str, payload: bytes, request: int = 0, *, checked: bool = False
    ) -> None:
        """Send a notification that is encoded already, under the identity of this agent.

        checked: for built-in agents: the master has checked the class of a `Create`.
        Raises TypeError or ValueError as `send` does.
        """
        if not isinstance(type, str) or not isinstance(payload, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("a notification that is encoded has a type, text, and a payload, bytes")
        self._post(to, type, payload, request, creating=checked)

    def _post(
        self, to: Address | ReplyTo, type: str, payload: bytes, request: int = 0, *, creating: bool = False
    ) -> None:
        if len(payload) > MAX_NOTIFICATION_BYTES:
            raise ValueError(
                f"{type} has {len(payload)} bytes, more than {MAX_NOTIFICATION_BYTES}: send it in parts"
            )
        if isinstance(to, ReplyTo):
            request = to.request
            to = to.agent
            if request and request == self.request and to == self.sender:
                self._answer_explicitly()
        elif request:
            if request == self.request and to == self.sender:
                self._answer_explicitly()
        elif self.request and self._answer is None and to == self.sender:
            request = self.request
            self._answer = len(self._requests().sends)
        elif isinstance(to, str) and "@" in to:
            name, _, server = to.rpartition("@")
            if "@" in name:
                raise ValueError(f"{to!r} has more than one @; write name@server")
            self._resolve(server)
        if type == Create.type_name and not creating:
            self._check_creation(to)
        if to is not self.sender or request is not self.request:
            check_address(to, request)
        sends = self._requests().sends
        self._sent_bytes += len(payload)
        if len(sends) >= _MAX_SENDS or self._sent_bytes > _MAX_SENT_BYTES:
            raise ValueError(
                f"a reaction may send {_MAX_SENDS} notifications with {_MAX_SENT_BYTES} bytes; send fewer"
            )
        sends.append(Note(to, self.agent, type, payload, request))

    def _check_creation(self, to: Address) -> None:
        """Raise AgentError for a `Create` to the factory of this server that `create` has not made.

        Its class may be missing on one replica only. Other servers check what they receive.
        """
        with contextlib.suppress(ValueError):
            to = AgentId.parse(to) if isinstance(to, str) and to.startswith("#") else to
        if to == factory(self.agent.host):
            raise AgentError("an agent creates another one with ctx.create(Class); it may not send a Create")

    def _answer_explicitly(self) -> None:
        """Record that the answer is an explicit one: an earlier notification to the sender is not it."""
        answer, self._answer = self._answer, _EXPLICIT
        if answer is not None and answer != _EXPLICIT:
            sends = self._requests().sends
            sends[answer] = msgspec.structs.replace(sends[answer], request=0)

    def create(
        self,
        cls: type[Agent],
        *,
        name: str | None = None,
        server: str | int | None = None,
        state: Mapping[str, Any] = _NO_STATE,
    ) -> AgentId:
        """Create an agent, here or on another server, and return its id at once.

        `state` holds arguments of the constructor. What is sent to the id from now on arrives after the
        agent was created. If the other side cannot create it, this agent gets `CreateFailed`.
        Raises AgentError if the class cannot be an agent, cannot have that state or cannot be imported by its
        name, ValueError if the server is unknown, TypeError for a name that is not text.
        """
        host = self.agent.host if server is None else self._resolve(server)
        spec = agent_spec(cls)
        check_importable(cls)
        if not isinstance(name, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name!r} is not a name; give text or None")
        try:
            values = msgspec.msgpack.encode(with_sorted_sets(dict(state)) if spec.has_sets else dict(state))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise AgentError(f"{spec.name} cannot be created from this state: {error}") from error
        spec.build(values)
        identity = AgentId(self.agent.host, host, self._next_stamp)
        self._next_stamp += 1
        self._request_creation(spec, name, values, identity)
        return identity

    def create_at(self, identity: AgentId, cls: type[Agent], state: Mapping[str, Any]) -> None:
        """Create an agent under an id that this agent has chosen. For built-in agents."""
        self._request_creation(agent_spec(cls), None, msgspec.msgpack.encode(dict(state)), identity)

    def _request_creation(self, spec: AgentSpec, name: str | None, state: bytes, identity: AgentId) -> None:
        create = Create(class_name=spec.location, name=name, state=state, id=identity, version=spec.version)
        self._post(factory(identity.host), create.type_name, encode(create), creating=True)

    def factory(self, server: str | int | None = None) -> AgentId:
        """Return the id of the factory agent of this server, or of another one by its name or id.

        Raises ValueError if the server is unknown.
        """
        return factory(self.agent.host if server is None else self._resolve(server))

    def delete(self) -> None:
        """Delete this agent when the reaction has ended without an exception."""
        self._requests().deleted = True

    def timer(self, delay_s: float, notification: Notification) -> int:
        """Have `notification` delivered to this agent, from itself, after `delay_s` seconds.

        Timers are part of the replicated state: they survive the master. Returns a number for `cancel`.
        """
        if not 0 <= delay_s <= _MAX_DELAY_S:
            raise ValueError(f"a timer cannot wait {delay_s} s; give 0 to {_MAX_DELAY_S:g}")
        timers = self._requests().timers
        if len(timers) >= 1024:
            raise ValueError("a reaction may set 1024 timers; set fewer")
        timer = self._position * 1024 + len(timers)
        due_ns = self.now_ns + round(delay_s * 1_000_000_000)
        timers.append((timer, due_ns, notification.type_name, encode(notification)))
        return timer

    def cancel(self, timer: int) -> None:
        """Cancel a timer of this agent. A timer that has fired or is unknown is ignored.

        Raises TypeError if `timer` is not a number.
        """
        if type(timer) is not int:
            raise TypeError(f"{timer!r} is not the number of a timer; give what `timer` returned")
        self._requests().cancelled.append(timer)

    def activity(
        self,
        activity: str,
        notification: Notification,
        *,
        key: str | None = None,
        attempts: int | None = None,
        timeout_s: float | None = None,
        expires_s: float | None = None,
    ) -> str:
        """Request input or output that a service does outside of the agents, and return its key.

        This agent gets one outcome for the key, `ActivityCompleted` or `ActivityFailed`, also if replicas
        fail meanwhile. The service may do it more than once: see docs/services.md. Requesting the same
        activity again under the same key changes nothing. A key belongs to this agent; without one the
        activity gets a new one. The other arguments replace limits that the service has declared: see
        `ActivityPolicy`.
        Raises TypeError or ValueError for a name, input, key or limit that cannot be used.
        """
        if not isinstance(activity, str) or not activity:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{activity!r} is not the name of an activity; give text")
        if attempts is not None and (type(attempts) is not int or not 1 <= attempts <= 1000):
            raise ValueError(f"an activity cannot have {attempts!r} attempts; give 1 to 1000")
        for limit_s in (timeout_s, expires_s):
            if limit_s is not None and not 0 < limit_s <= _MAX_DELAY_S:
                raise ValueError(f"an activity cannot be limited to {limit_s} s; give up to {_MAX_DELAY_S:g}")
        payload = encode(notification)
        if len(payload) > MAX_ACTIVITY_INPUT_BYTES:
            raise ValueError(
                f"{notification.type_name} has {len(payload)} bytes, more than {MAX_ACTIVITY_INPUT_BYTES}, "
                "the limit for the input of an activity"
            )
        own = f"@{self._position}.{len(self._requests().sends)}" if key is None else check_activity_key(key)
        run = RunActivity(activity, own, notification.type_name, payload, attempts, timeout_s, expires_s)
        self._post(activities(self.agent.host), run.type_name, encode(run))
        return own

    def cancel_activity(self, key: str) -> None:
        """Cancel an activity of this agent; its outcome is then ``cancelled``.

        If its outcome is under way already, that one comes. Raises TypeError if `key` is not text.
        """
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{key!r} is not the key of an activity; give what `activity` returned")
        note = CancelActivity(key)
        self._post(activities(self.agent.host), note.type_name, encode(note))

    def log(self, text: str) -> None:
        """Write a line to the log of every replica, with the id, the name and the class of this agent.

        It is written when the reaction has ended without an exception, and not when the reaction runs again,
        as in a restart. It is no part of the state, the trace or what replicas compare. A reaction writes at
        most 16 lines of 1000 characters, an agent 20 a second, all agents of a server 100: the rest is left
        out, and a line says how much. Raises TypeError for anything but text.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"ctx.log takes text, not {type(text).__name__}; write ctx.log(str(value))")
        if len(self.lines) < _MAX_LINES:
            self.lines = [*self.lines, text[:_MAX_LINE_CHARS]]
        else:
            self.dropped_lines += 1

    def emit(self, topic: str, message: msgspec.Struct) -> None:
        """Emit a message to the services of the master. For built-in agents."""
        if not isinstance(message, msgspec.Struct):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentError(f"{type(message).__name__} is not a msgspec.Struct")
        self._requests().emitted.append((topic, message))

    def put(self, queue: str, notification: Notification) -> None:
        """Put a notification into a queue that threads in the process of each replica read.

        Every replica puts it into its own queue, when the entry is committed and the reaction has ended
        without an exception; see `quorate.local_server`. Nothing of it is kept in the replicated state.
        Raises TypeError if it cannot be encoded, ValueError if it is too large or the queue has no such name.
        Source: HA Joram specification, section 4.3.2.
        """
        check_queue_name(queue)
        payload = encode(notification)
        emitted = self._requests().emitted
        self._sent_bytes += len(payload)
        if len(payload) > MAX_NOTIFICATION_BYTES or self._sent_bytes > _MAX_SENT_BYTES:
            raise ValueError(
                f"{notification.type_name} has {len(payload)} bytes; a queue takes "
                f"{MAX_NOTIFICATION_BYTES} at most, and {_MAX_SENT_BYTES} from one reaction: put it in parts"
            )
        if len(emitted) >= _MAX_SENDS:
            raise ValueError(f"a reaction may put {_MAX_SENDS} notifications into queues; put fewer")
        emitted.append((QUEUE_TOPIC, QueuePut(queue, notification.type_name, payload)))

    def _requests(self) -> Outcome:
        """Return the requests of this reaction, to be added to."""
        if self.outcome is None:
            self.outcome = Outcome()
        return self.outcome
