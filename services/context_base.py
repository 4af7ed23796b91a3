"""The typed operations of a service's context, on the two primitives that carry encoded notifications."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from twisted.internet.defer import Deferred, fail

from ..agents.agent import Agent, AgentError, AgentSpec, agent_spec
from ..agents.builtin import FAILURES, Create, Created, CreateFailed
from ..agents.context import MAX_NOTIFICATION_BYTES
from ..agents.envelope import Note, ReplyTo, check_address
from ..agents.ids import FIRST_FREE_STAMP, FIRST_SERVICE_STAMP, Address, AgentId, factory, outside
from ..agents.names import check_importable
from ..agents.notification import Notification, decode, encode
from ..agents.service_inbox import InboxOpen, ServiceInbox
from ..agents.state_types import with_sorted_sets
from ..client.arguments import reply_types
from ..client.frames import ServerNote
from ..client.pending import outcome
from ..hachannel.transport.direct_write import DirectWriteReactor
from ..hachannel.transport.ports import ReactorPort
from ..tls.layer import secured
from .base import ASK_TIMEOUT_S, NO_STATE, EmissionCallback
from .inbox_reader import InboxReader

if TYPE_CHECKING:
    from ..tls.reactor import ServerTls

__all__ = ["ServiceContextBase"]


class ServiceContextBase:
    """Implements `send`, `submit`, `ask` and `create` of `ServiceContext`."""

    server_id: int
    reactor: ReactorPort
    tls: "ServerTls | None" = None
    """The certificates of the replica; None: nothing is encrypted."""

    @abstractmethod
    def post(self, notes: list[Note]) -> None:
        """Implement `ServiceContext.post`."""

    @abstractmethod
    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Implement `ServiceContext.request`."""

    @abstractmethod
    def submit_note(self, note: Note) -> "Deferred[Note | None]":
        """Put a notification into the next batch; fires once it is committed, with its failure, if any."""

    def spec_of(self, cls: type[Agent]) -> AgentSpec:
        """Examine an agent class that replicas are to import. Raises AgentError."""
        spec = agent_spec(cls)
        check_importable(cls)
        return spec

    def send(self, to: Address | ReplyTo, notification: Notification) -> None:
        """Send a notification: see `ServiceContext.send`."""
        self.post([self._note(to, notification)])

    def submit(self, to: Address, notification: Notification) -> "Deferred[None]":
        """Send a notification and report its commit: see `ServiceContext.submit`."""
        note = self._note(to, notification)
        try:
            committed = self.submit_note(note)
        except Exception as error:
            return fail(error)
        return committed.addCallback(_raise_failure)

    def ask(
        self,
        to: Address,
        notification: Notification,
        timeout_s: float = ASK_TIMEOUT_S,
        reply: type[Notification] | tuple[type[Notification], ...] | None = None,
    ) -> "Deferred[Notification]":
        """Send a notification and wait for the answer: see `ServiceContext.ask`."""
        note, types = self._note(to, notification), reply_types(reply)
        try:
            answer = self.request(note, timeout_s)
        except Exception as error:
            return fail(error)
        return answer.addCallback(lambda found: outcome(_server_note(found), types))

    def create(
        self,
        cls: type[Agent],
        *,
        name: str | None = None,
        stamp: int | None = None,
        state: Mapping[str, Any] = NO_STATE,
    ) -> "Deferred[AgentId]":
        """Have an agent that is made once: see `ServiceContext.create`."""
        spec = self.spec_of(cls)
        create = Create(
            class_name=spec.location,
            name=_checked_name(name),
            state=_encoded_state(spec, state),
            id=self._reserved_id(stamp),
            once=True,
        )
        if name is None and stamp is None:
            raise ValueError(f"{spec.name} needs a name or a stamp, by which it is found the next time")
        try:
            answer = self.request(self._note(factory(self.server_id), create), ASK_TIMEOUT_S)
        except Exception as error:
            return fail(error)
        return answer.addCallback(_created)

    def receive(self, name: str, callback: Callable[..., Any]) -> "Deferred[AgentId]":
        """Receive what is sent to a name: see `ServiceContext.receive`."""
        topic = f"quorate.inbox/{name}"
        state = msgspec.msgpack.encode({"topic": topic})
        location = agent_spec(ServiceInbox).location
        create = Create(class_name=location, name=_checked_name(name), state=state, once=True)
        self.subscribe(topic, InboxReader(self, name, callback).emitted)
        try:
            answer = self.request(self._note(factory(self.server_id), create), ASK_TIMEOUT_S)
        except Exception as error:
            return fail(error)
        return answer.addCallback(_created).addCallback(self._open_inbox)

    def _open_inbox(self, inbox: AgentId) -> AgentId:
        self.send(inbox, InboxOpen())
        return inbox

    @property
    def client_reactor(self) -> ReactorPort:
        """The reactor for the ports of clients: see `ServiceContext.client_reactor`."""
        return cast("ReactorPort", secured(DirectWriteReactor(self.reactor), self.tls, clients=True))

    @abstractmethod
    def subscribe(self, topic: str, callback: EmissionCallback) -> None:
        """Implement `ServiceContext.subscribe`."""

    @abstractmethod
    def log(self, line: str) -> None:
        """Implement `ServiceContext.log`."""

    def _reserved_id(self, stamp: int | None) -> AgentId | None:
        if stamp is None:
            return None
        if type(stamp) is not int or not FIRST_SERVICE_STAMP <= stamp < FIRST_FREE_STAMP:
            raise ValueError(
                f"{stamp!r} is not a stamp for services; give a number from {FIRST_SERVICE_STAMP} to "
                f"{FIRST_FREE_STAMP - 1}"
            )
        return AgentId(self.server_id, self.server_id, stamp)

    def _note(self, to: Address | ReplyTo, notification: Notification) -> Note:
        payload, request = encode(notification), 0
        if isinstance(to, ReplyTo):
            to, request = to
        check_address(to, request)
        if len(payload) > MAX_NOTIFICATION_BYTES:
            raise ValueError(
                f"{notification.type_name} has {len(payload)} bytes, more than {MAX_NOTIFICATION_BYTES}: "
                "send it in parts"
            )
        return Note(to, outside(self.server_id), notification.type_name, payload, request)


def _checked_name(name: object) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{name!r} is not a name; give text or None")
    return name


def _encoded_state(spec: AgentSpec, state: Mapping[str, Any]) -> bytes:
    """Encode arguments of an agent's constructor. Raises AgentError if they do not fit."""
    try:
        values = msgspec.msgpack.encode(with_sorted_sets(dict(state)) if spec.has_sets else dict(state))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise AgentError(f"{spec.name} cannot be created from this state: {error}") from error
    spec.build(values)
    return values


def _server_note(note: Note) -> ServerNote:
    return ServerNote(note.sender, note.type, note.payload, note.request)


def _raise_failure(failure: Note | None) -> None:
    if failure is not None and failure.type in FAILURES:
        if failure.type == CreateFailed.type_name:
            raise AgentError(decode(CreateFailed, failure.payload).reason)
        outcome(_server_note(failure))


def _created(answer: Note) -> AgentId:
    if answer.type == Created.type_name:
        return decode(Created, answer.payload).id
    _raise_failure(answer)
    raise AgentError(f"the factory answered with {answer.type}")
