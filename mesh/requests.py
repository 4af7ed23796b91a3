"""What clients and administrators ask of a daemon. Pure."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs
import msgspec

from .collection import Collection
from .consumers import Consumer, Consumers
from .frames import Acknowledge, Answer, Ask, Attach, Attached, ClientFrame, Detach, Publish, Refused
from .model import (
    Claim,
    Create,
    Delete,
    DirectoryRecord,
    Dot,
    MemberChange,
    Stream,
    Subscribe,
    Subscription,
    TopicOptions,
    Unsubscribe,
)
from .publishing import Publishing
from .repair import Repair
from .state import ClientId, DaemonState

__all__ = ["Refusal", "Requests", "User"]

MAX_NAME: Final = 255
MAX_WINDOW_BYTES: Final = 64 * 1024 * 1024


class Refusal(Exception):
    """A request cannot be carried out. The text is one sentence for people, `code` that of `Refused`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@attrs.frozen
class User:
    """Who asks."""

    name: str
    administrator: bool = False


ADMINISTRATOR: Final = User("", administrator=True)


class RequestTarget(Protocol):
    """The daemon, as its requests use it."""

    state: DaemonState
    consumers: Consumers
    publishing: Publishing
    repair: Repair
    collection: Collection
    forgotten_by: set[int]

    @property
    def me(self) -> int:
        """The identifier of the daemon."""
        ...

    @property
    def life(self) -> int:
        """Its present life."""
        ...

    @property
    def links(self) -> tuple[int, ...]:
        """The daemons that it is connected with."""
        ...

    @property
    def region(self) -> tuple[int, ...]:
        """The daemons that it reaches."""
        ...

    def next_stamp(self) -> int:
        """Return the stamp of the next record of the directory."""
        ...

    def record(self, *records: DirectoryRecord) -> int:
        """Append records to the own directory stream; return the number of the first one."""
        ...

    def mark(self, stream: Stream, dot: Dot, number: int) -> None:
        """Learn that nothing up to a number of a stream is due to a subscription any more."""
        ...


class Requests:
    """Carries out requests on one daemon."""

    def __init__(self, daemon: RequestTarget) -> None:
        self._daemon = daemon
        self._commands: dict[str, Callable[[dict[str, Any], User], Any]] = {
            "topics": self._topics,
            "create": self._create,
            "delete": self._delete,
            "subscriptions": self._subscriptions,
            "unsubscribe": self._unsubscribe,
            "status": self._status,
            "explain": self._explain,
            "add": self._add,
            "forget": self._forget,
        }

    # Frames of clients

    def receive(self, client: ClientId, user: User, frame: ClientFrame) -> None:
        """Carry out what a client asks for."""
        daemon = self._daemon
        try:
            match frame:
                case Publish():
                    self._check_member()
                    daemon.publishing.publish(client, frame)
                case Acknowledge():
                    consumer = daemon.consumers.with_number(client, frame.consumer)
                    if consumer is not None:
                        daemon.consumers.acknowledge(consumer, frame.positions)
                case Attach():
                    self._attach(client, user, frame)
                case Detach():
                    self._detach(client, frame)
                case Ask():
                    arguments = {"topic": frame.topic, "name": frame.name, "options": frame.options}
                    command = self._commands.get(frame.what) if frame.what not in ("add", "forget") else None
                    if command is None:
                        raise Refusal("wrong", f"a daemon does not know the request {frame.what!r}")
                    if frame.what == "explain":
                        self._check_administrator(user, "ask who holds up collection")
                    daemon.state.answer(client, Answer(frame.request, command(arguments, user)))
                case _:
                    pass
        except Refusal as refusal:
            request = getattr(frame, "request", 0)
            daemon.state.answer(client, Refused(request, refusal.code, str(refusal)))

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a command of an administrator of the servers. Raises Refusal."""
        command = self._commands.get(name)
        if command is None:
            raise Refusal("wrong", f"a daemon does not know the command {name!r}")
        return command(arguments, ADMINISTRATOR)

    def _check_member(self) -> None:
        daemon = self._daemon
        if daemon.forgotten_by or daemon.me not in daemon.state.directory.members:
            raise Refusal(
                "forgotten",
                f"daemon {daemon.me} does not belong to the mesh any more: what it takes would not reach the "
                "others; connect to another one, or add it with `quorate mesh add`",
            )

    # Subscribers

    def _attach(self, client: ClientId, user: User, frame: Attach) -> None:
        daemon, directory = self._daemon, self._daemon.state.directory
        if not frame.consumer >= 1 or daemon.consumers.with_number(client, frame.consumer) is not None:
            raise Refusal("wrong", f"consumer {frame.consumer} is attached already")
        cursor = frame.cursor
        if cursor is None and frame.topic not in directory.uids_of:
            raise Refusal("no topic", f"there is no topic {frame.topic!r} at daemon {daemon.me}")
        window = min(frame.window_bytes or daemon.state.limits.window_bytes, MAX_WINDOW_BYTES)
        consumer = Consumer(
            client, frame.consumer, frame.topic, frame.name, user.name, frame.token, [], window
        )
        fresh = False
        if frame.name:
            _check_name("the name of a subscription", frame.name)
            _check_name("the token of a subscriber", frame.token)
            consumer.dots, fresh = self._dots(user, frame)
            self._take_over(consumer)
        daemon.state.answer(client, Attached(frame.request, frame.consumer, consumer.dots))
        if cursor is not None:
            for stream, number in cursor.positions.items():
                if not daemon.state.may_be_of(stream, frame.topic):
                    continue
                for dot in consumer.dots:
                    daemon.mark(stream, dot, number)
        daemon.consumers.attach(consumer, cursor, fresh=fresh)

    def _dots(self, user: User, frame: Attach) -> tuple[list[Dot], bool]:
        """Return the persistent subscriptions of a name, and whether it is a new one, made by this."""
        daemon, directory = self._daemon, self._daemon.state.directory
        changes: list[DirectoryRecord] = []
        for dot in frame.changed_from:
            known = directory.subscriptions.get(dot)
            if known is not None:
                self._check_owner(user, known)
        ended = list(frame.changed_from)
        mine = directory.named.get((frame.topic, frame.name, user.name), ())
        named = [dot for dot in sorted(mine) if dot not in ended]
        claims: list[Dot] = []
        if frame.cursor is None:
            dots = named
        else:
            dots = [dot for dot in frame.cursor.dots if not directory.removed_dot(dot)]
            claims = [dot for dot in dots if dot not in directory.subscriptions]
            if any(dot not in named and dot not in claims for dot in dots):
                raise Refusal("rights", f"the subscription of the cursor is not {frame.name!r} of this user")
            if not dots:
                raise Refusal("ended", f"the subscription {frame.name!r} was ended")
            # The answers to these attempts were lost.
            ended += [
                dot
                for dot in named
                if dot not in dots and directory.subscriptions[dot].token == frame.cursor.token
            ]
        if ended:
            changes.append(Unsubscribe(daemon.next_stamp(), tuple(ended)))
        for dot in claims:
            changes.append(Claim(daemon.next_stamp(), dot, frame.topic, frame.name, user.name, frame.token))
        fresh = not dots
        more = len(claims) + fresh
        if more and len(directory.subscriptions) + more > daemon.state.limits.subscriptions:
            raise Refusal("limit", f"the mesh has {len(directory.subscriptions)} subscriptions already")
        if fresh:
            changes.append(Subscribe(daemon.next_stamp(), frame.topic, frame.name, user.name, frame.token))
        if changes:
            first = daemon.record(*changes)
            if fresh:
                dots = [Dot(daemon.me, daemon.life, first + len(changes) - 1)]
        return dots, fresh

    def _check_owner(self, user: User, subscription: Subscription) -> None:
        if subscription.user != user.name and not user.administrator:
            raise Refusal("rights", f"the subscription {subscription.name!r} belongs to another user")

    def _take_over(self, consumer: Consumer) -> None:
        """End other consumers here of the same subscription: it is for one at a time."""
        for dot in consumer.dots:
            for other in self._daemon.consumers.of_dot(dot):
                text = f"the subscription {other.name!r} was attached by another client"
                self._daemon.consumers.end(other, "taken over", text)

    def _detach(self, client: ClientId, frame: Detach) -> None:
        daemon = self._daemon
        consumer = daemon.consumers.with_number(client, frame.consumer)
        if consumer is not None:
            daemon.consumers.detach(consumer)
            if frame.end and consumer.dots:
                daemon.record(Unsubscribe(daemon.next_stamp(), tuple(consumer.dots)))
        daemon.state.answer(client, Answer(frame.request))

    # Topics

    def topics(self) -> list[dict[str, Any]]:
        """Describe the topics, in the order of their names."""
        state = self._daemon.state
        found: list[dict[str, Any]] = []
        for name in sorted(state.directory.uids_of):
            uids = state.directory.uids_of[name]
            streams = [stream for uid in uids for stream in state.streams.of_topic.get(uid, ())]
            held = [state.streams.states[stream] for stream in streams]
            found.append(
                {
                    "name": name,
                    "creations": len(uids),
                    "subscriptions": len(state.directory.dots_of.get(name, ())),
                    "records": sum(each.have - each.floor for each in held),
                    "bytes": state.streams.message_bytes(uids),
                    "topic_bytes": self._daemon.publishing.topic_bytes(name),
                    "on_full": state.directory.topics[min(uids)].options.on_full,
                }
            )
        return found

    def _topics(self, arguments: dict[str, Any], user: User) -> list[dict[str, Any]]:
        del arguments, user
        return self.topics()

    def _check_administrator(self, user: User, what: str) -> None:
        if not user.administrator:
            raise Refusal("rights", f"only an administrator may {what}; see the property administrators")

    def _create(self, arguments: dict[str, Any], user: User) -> None:
        self._check_administrator(user, "create topics")
        daemon, directory = self._daemon, self._daemon.state.directory
        name = str(arguments.get("topic", ""))
        _check_name("the name of a topic", name)
        options = _options(arguments.get("options"))
        if name in directory.uids_of:
            raise Refusal("exists", f"there is a topic {name!r} already")
        if len(directory.topics) >= daemon.state.limits.topics:
            raise Refusal("limit", f"the mesh has {len(directory.topics)} topics already")
        daemon.record(Create(daemon.next_stamp(), name, options))

    def _delete(self, arguments: dict[str, Any], user: User) -> None:
        self._check_administrator(user, "delete topics")
        daemon, directory = self._daemon, self._daemon.state.directory
        name = str(arguments.get("topic", ""))
        uids = sorted(directory.uids_of.get(name, ()))
        if not uids:
            raise Refusal("no topic", f"there is no topic {name!r} at daemon {daemon.me}")
        dots = sorted(directory.dots_of.get(name, ()))
        daemon.record(Delete(daemon.next_stamp(), tuple(uids), tuple(dots)))

    # Subscriptions

    def _subscriptions(self, arguments: dict[str, Any], user: User) -> list[dict[str, Any]]:
        state = self._daemon.state
        wanted = arguments.get("topic") or None
        found: list[dict[str, Any]] = []
        for dot, subscription in sorted(state.directory.subscriptions.items()):
            if wanted not in (None, subscription.topic):
                continue
            if not user.administrator and subscription.user != user.name:
                continue
            streams = [
                stream
                for uid in state.directory.uids_of.get(subscription.topic, ())
                for stream in state.streams.of_topic.get(uid, ())
            ]
            lag = sum(
                state.streams.have(stream) - mark
                for stream in streams
                if (mark := state.marks.get(stream, dot)) is not None
            )
            found.append(
                {
                    "topic": subscription.topic,
                    "name": subscription.name,
                    "user": subscription.user,
                    "id": ".".join(map(str, dot)),
                    "behind": max(0, lag),
                    "attached": bool(self._daemon.consumers.of_dot(dot)),
                }
            )
        if arguments.get("slow"):
            found.sort(key=lambda each: -int(each["behind"]))
        return found

    def _unsubscribe(self, arguments: dict[str, Any], user: User) -> int:
        daemon, directory = self._daemon, self._daemon.state.directory
        topic, name = str(arguments.get("topic", "")), str(arguments.get("name", ""))
        dots = [
            dot
            for dot in sorted(directory.dots_of.get(topic, ()))
            if directory.subscriptions[dot].name == name
        ]
        if not user.administrator:
            dots = [dot for dot in dots if directory.subscriptions[dot].user == user.name]
        if not dots:
            raise Refusal("ended", f"there is no subscription {name!r} to {topic!r} at daemon {daemon.me}")
        daemon.record(Unsubscribe(daemon.next_stamp(), tuple(dots)))
        return len(dots)

    # The mesh

    def status(self) -> dict[str, Any]:
        """Describe the daemon and what it knows of the others."""
        daemon, state = self._daemon, self._daemon.state
        region = daemon.region
        rows: dict[str, dict[str, Any]] = {}
        for each in sorted(state.directory.members):
            row = state.rows.known.get(each)
            known = {} if row is None else row.have
            behind = sum(
                max(0, held.have - known.get(stream, 0)) for stream, held in state.streams.states.items()
            )
            rows[str(each)] = {
                "known": each == daemon.me or row is not None,
                "connected": each in daemon.repair.links,
                "reached": each in region,
                "links": list(daemon.links if each == daemon.me else () if row is None else row.links),
                "behind": 0 if each == daemon.me else behind,
            }
        held_records = sum(held.have - held.floor for held in state.streams.states.values())
        return {
            "daemon": daemon.me,
            "life": daemon.life,
            "region": list(region),
            "daemons": rows,
            "topics": len(state.directory.uids_of),
            "subscriptions": len(state.directory.subscriptions),
            "consumers": len(daemon.consumers),
            "streams": len(state.streams.states),
            "records": held_records,
            "bytes": state.streams.message_bytes(state.directory.topics),
            "lacking": daemon.repair.lacking,
            "held_publishers": daemon.publishing.held,
            "forgotten": bool(daemon.forgotten_by) or daemon.me not in state.directory.members,
            "counters": dict(state.counters),
        }

    def _status(self, arguments: dict[str, Any], user: User) -> dict[str, Any]:
        del arguments, user
        return self.status()

    def _explain(self, arguments: dict[str, Any], user: User) -> list[dict[str, Any]]:
        del user
        topic = str(arguments.get("topic", ""))
        if topic not in self._daemon.state.directory.uids_of:
            raise Refusal("no topic", f"there is no topic {topic!r} at daemon {self._daemon.me}")
        return [
            {
                "daemon": stream.daemon,
                "life": stream.life,
                "records": records,
                "behind": [{"what": what, "records": number} for what, number in reasons],
            }
            for stream, records, reasons in self._daemon.collection.held_up_by(topic)
        ]

    def _add(self, arguments: dict[str, Any], user: User) -> bool:
        del user
        return self._change_member(int(arguments["daemon"]), True, str(arguments.get("address", "")))

    def _forget(self, arguments: dict[str, Any], user: User) -> bool:
        del user
        daemon, other = self._daemon, int(arguments["daemon"])
        if other == daemon.me:
            raise Refusal("wrong", f"daemon {other} cannot forget itself: ask another one")
        if other in daemon.repair.links:
            raise Refusal("wrong", f"daemon {other} is connected: stop it first")
        return self._change_member(other, False, "")

    def _change_member(self, other: int, present: bool, address: str) -> bool:
        daemon, directory = self._daemon, self._daemon.state.directory
        known = directory.member_states.get(other)
        if (other in directory.members) == present and (
            not address or (known is not None and known.address == address)
        ):
            return False
        daemon.record(MemberChange(daemon.next_stamp(), other, present, address))
        return True


class _NamedOptions(msgspec.Struct, forbid_unknown_fields=True):
    topic_bytes: int = 0
    on_full: str = "refuse"


def _check_name(what: str, name: str) -> None:
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise Refusal("wrong", f"{what} has 1 to {MAX_NAME} printable characters")


def _options(value: object) -> TopicOptions:
    if isinstance(value, dict):
        value = msgspec.convert(value, _NamedOptions)
        value = TopicOptions(value.topic_bytes, value.on_full)
    options = value if isinstance(value, TopicOptions) else TopicOptions()
    if options.on_full not in ("refuse", "end"):
        raise Refusal("wrong", f"on_full is 'refuse' or 'end', not {options.on_full!r}")
    if options.topic_bytes < 0:
        raise Refusal("wrong", "topic_bytes is a number of bytes, at least 1, or 0")
    return options
