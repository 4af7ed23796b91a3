"""The directory: topics, persistent subscriptions and the daemons of the mesh. Pure.

An observed-remove set without tombstones, as a state that daemons can join. Each daemon appends its changes
to its own directory stream; `ctx` says how far each stream is included here. Something that is not here but
that `ctx` includes was removed. A removal that arrives before what it removes is kept in `gone` until `ctx`
includes that. Source: "An optimized
conflict-free replicated set" (Bieniusa et al., 2012).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import attrs

from .log import FactKind, Log
from .messages import Snap
from .model import (
    Claim,
    Create,
    Delete,
    DirectoryRecord,
    Dot,
    MemberChange,
    MemberState,
    Origin,
    Retire,
    Subscribe,
    Subscription,
    Topic,
    Uid,
    Unsubscribe,
)

__all__ = ["Directory", "DirectoryChanges"]

N = TypeVar("N", str, tuple[str, str, str])
T = TypeVar("T", Uid, Dot)

Place: TypeAlias = tuple[int, int, int]
"""Daemon, life and number of a record."""

CTX = FactKind("ctx", Origin, int)
TOPIC = FactKind("topic", Uid, Topic)
SUBSCRIPTION = FactKind("subscription", Dot, Subscription)
GONE_TOPIC = FactKind("gone topic", Uid, bool)
GONE_DOT = FactKind("gone dot", Dot, bool)
MEMBER = FactKind("member", int, MemberState)
RETIRED = FactKind("retired", int, int)
STAMP = FactKind("stamp", str, int)


@attrs.define
class DirectoryChanges:
    """What a step has changed."""

    new_topics: list[Uid] = attrs.field(factory=list[Uid])
    lost_topics: list[tuple[Uid, Topic]] = attrs.field(factory=list[tuple[Uid, Topic]])
    new_dots: list[Dot] = attrs.field(factory=list[Dot])
    lost_dots: list[tuple[Dot, Subscription]] = attrs.field(factory=list[tuple[Dot, Subscription]])
    members: bool = False
    retired: bool = False
    ctx: set[Origin] = attrs.field(factory=set[Origin])

    def __bool__(self) -> bool:
        return bool(
            self.new_topics
            or self.lost_topics
            or self.new_dots
            or self.lost_dots
            or self.members
            or self.retired
            or self.ctx
        )


class Directory:
    """The directory as one daemon has it. `changes` gathers what happens until `take_changes`."""

    def __init__(self, log: Log, configured: frozenset[int]) -> None:
        """Read the directory from the disk. configured: the daemons of the configuration."""
        self._log = log
        self._configured = configured
        self.ctx: dict[Origin, int] = dict(CTX.load(log))
        self.topics: dict[Uid, Topic] = dict(TOPIC.load(log))
        self.subscriptions: dict[Dot, Subscription] = dict(SUBSCRIPTION.load(log))
        self.gone_topics: set[Uid] = {uid for uid, _ in GONE_TOPIC.load(log)}
        self.gone_dots: set[Dot] = {dot for dot, _ in GONE_DOT.load(log)}
        self.member_states: dict[int, MemberState] = dict(MEMBER.load(log))
        self.retired: dict[int, int] = dict(RETIRED.load(log))
        self.stamp: int = dict(STAMP.load(log)).get("stamp", 0)
        """The highest stamp of any record that is included."""
        self.uids_of: defaultdict[str, set[Uid]] = defaultdict(set)
        self.dots_of: defaultdict[str, set[Dot]] = defaultdict(set)
        self.named: defaultdict[tuple[str, str, str], set[Dot]] = defaultdict(set)
        """The subscriptions by their topic, name and user."""
        for uid, topic in self.topics.items():
            self.uids_of[topic.name].add(uid)
        for dot, subscription in self.subscriptions.items():
            self._index(dot, subscription)
        self.members: frozenset[int] = self._present()
        """The daemons of the mesh."""
        self.changes = DirectoryChanges()

    def take_changes(self) -> DirectoryChanges:
        """Return what has changed since the last call."""
        changes, self.changes = self.changes, DirectoryChanges()
        return changes

    # Questions

    def covers(self, place: Place) -> bool:
        """Return whether the record at this place is included."""
        daemon, life, number = place
        return life <= self.retired.get(daemon, -1) or self.ctx.get(Origin(daemon, life), 0) >= number

    def includes(self, daemon: int, finals: Iterable[tuple[int, int]]) -> bool:
        """Return whether directory streams of a daemon are included: (life, last number)."""
        return all(self.covers((daemon, life, number)) for life, number in finals)

    def covers_topic(self, uid: Uid) -> bool:
        """Return whether the record that creates a topic is included."""
        return self.covers((uid.daemon, uid.life, uid.number))

    def removed_topic(self, uid: Uid) -> bool:
        """Return whether a topic was here, or would have been, and is not any more."""
        return uid not in self.topics and (uid in self.gone_topics or self.covers_topic(uid))

    def removed_dot(self, dot: Dot) -> bool:
        """Return whether a subscription has ended."""
        return dot not in self.subscriptions and (dot in self.gone_dots or self.covers(dot))

    def _present(self) -> frozenset[int]:
        states = self.member_states
        added = {daemon for daemon, state in states.items() if state.present}
        forgotten = {daemon for daemon, state in states.items() if not state.present}
        return frozenset((self._configured | added) - forgotten)

    # Records

    def apply(self, origin: Origin, number: int, record: DirectoryRecord) -> None:
        """Include a record, unless it is included: the next one of its stream."""
        if self.covers((origin.daemon, origin.life, number)):
            return
        place = (origin.daemon, origin.life, number)
        # Removals of what this very record adds came first: the record counts as included from here on.
        match record:
            case Create():
                self._add_topic(Uid(record.stamp, *place), Topic(record.name, record.options))
            case Delete():
                for uid in record.uids:
                    self._remove_topic(uid)
                for dot in record.dots:
                    self._remove_dot(dot)
            case Subscribe():
                made = Subscription(record.topic, record.name, record.user, record.token)
                self._correct_dot(Dot(*place), made)
                self._add_dot(Dot(*place), made)
            case Claim():
                if not self.removed_dot(record.dot):
                    self._add_dot(
                        record.dot, Subscription(record.topic, record.name, record.user, record.token)
                    )
            case Unsubscribe():
                for dot in record.dots:
                    self._remove_dot(dot)
            case MemberChange():
                self._set_member(
                    record.daemon, MemberState(record.stamp, origin.daemon, record.present, record.address)
                )
            case Retire():
                self._retire(origin.daemon, record.life)
        self._include(origin, number)
        self._raise_stamp(record.stamp)

    def _include(self, origin: Origin, number: int) -> None:
        self.ctx[origin] = number
        self.changes.ctx.add(origin)
        CTX.put(self._log, origin, number)

    def _raise_stamp(self, stamp: int) -> None:
        if stamp > self.stamp:
            self.stamp = stamp
            STAMP.put(self._log, "stamp", stamp)

    def _add_topic(self, uid: Uid, topic: Topic) -> None:
        if uid in self.gone_topics:
            self.gone_topics.discard(uid)
            GONE_TOPIC.delete(self._log, uid)
        elif uid not in self.topics:
            self.topics[uid] = topic
            self.uids_of[topic.name].add(uid)
            TOPIC.put(self._log, uid, topic)
            self.changes.new_topics.append(uid)

    def _remove_topic(self, uid: Uid) -> None:
        topic = self.topics.pop(uid, None)
        if topic is not None:
            _remove_from(self.uids_of, topic.name, uid)
            TOPIC.delete(self._log, uid)
            self.changes.lost_topics.append((uid, topic))
        if not self.covers_topic(uid) and uid not in self.gone_topics:
            self.gone_topics.add(uid)
            GONE_TOPIC.put(self._log, uid, True)

    def _add_dot(self, dot: Dot, subscription: Subscription) -> None:
        if dot in self.gone_dots:
            if not self.covers(dot):
                # The record of the subscription itself; of a claim, `removed_dot` has been asked.
                self.gone_dots.discard(dot)
                GONE_DOT.delete(self._log, dot)
        elif dot not in self.subscriptions:
            self.subscriptions[dot] = subscription
            self._index(dot, subscription)
            SUBSCRIPTION.put(self._log, dot, subscription)
            self.changes.new_dots.append(dot)

    def _correct_dot(self, dot: Dot, made: Subscription) -> None:
        """Give up a subscription that somebody has claimed with a place that belongs to another one."""
        claimed = self.subscriptions.get(dot)
        # A subscriber that has attached by the name has another token than the one that subscribed.
        if claimed is not None and _name_of(claimed) != _name_of(made):
            self._unlist_dot(dot)

    def _unlist_dot(self, dot: Dot) -> None:
        subscription = self.subscriptions.pop(dot, None)
        if subscription is not None:
            _remove_from(self.dots_of, subscription.topic, dot)
            _remove_from(self.named, _name_of(subscription), dot)
            SUBSCRIPTION.delete(self._log, dot)
            self.changes.lost_dots.append((dot, subscription))

    def _index(self, dot: Dot, subscription: Subscription) -> None:
        self.dots_of[subscription.topic].add(dot)
        self.named[_name_of(subscription)].add(dot)

    def _remove_dot(self, dot: Dot) -> None:
        self._unlist_dot(dot)
        if not self.covers(dot) and dot not in self.gone_dots:
            self.gone_dots.add(dot)
            GONE_DOT.put(self._log, dot, True)

    def _set_member(self, daemon: int, state: MemberState) -> None:
        known = self.member_states.get(daemon)
        if known is None or state > known:
            self.member_states[daemon] = state
            self.members = self._present()
            MEMBER.put(self._log, daemon, state)
            self.changes.members = True

    def _retire(self, daemon: int, life: int) -> None:
        if life <= self.retired.get(daemon, -1):
            return
        self.retired[daemon] = life
        RETIRED.put(self._log, daemon, life)
        for origin in [each for each in self.ctx if each.daemon == daemon and each.life <= life]:
            del self.ctx[origin]
            CTX.delete(self._log, origin)
        self.changes.retired = True
        self._drop_covered_gone()

    # States

    def join(self, snap: Snap) -> None:
        """Join the directory of another daemon to this one."""
        theirs, their_retired = dict(snap.ctx), dict(snap.retired)

        def they_cover(place: Place) -> bool:
            daemon, life, number = place
            return life <= their_retired.get(daemon, -1) or theirs.get(Origin(daemon, life), 0) >= number

        their_topics, their_dots = dict(snap.topics), dict(snap.subscriptions)
        gone_topics, gone_dots = set(snap.gone_topics), set(snap.gone_dots)
        lost_topics = [
            uid
            for uid in self.topics
            if uid not in their_topics
            and (uid in gone_topics or they_cover((uid.daemon, uid.life, uid.number)))
        ]
        lost_dots = [
            dot
            for dot in self.subscriptions
            if dot not in their_dots and (dot in gone_dots or they_cover(dot))
        ]
        new_topics = {uid: topic for uid, topic in their_topics.items() if not self.removed_topic(uid)}
        new_dots = {dot: each for dot, each in their_dots.items() if not self.removed_dot(dot)}
        for uid in lost_topics:
            self._remove_topic(uid)
        for dot in lost_dots:
            self._remove_dot(dot)
        for uid, topic in new_topics.items():
            self._add_topic(uid, topic)
        for dot, subscription in new_dots.items():
            if they_cover(dot) and not self.covers(dot):
                # They have its own record.
                self._correct_dot(dot, subscription)
            self._add_dot(dot, subscription)
        for uid in gone_topics - self.gone_topics:
            self._remove_topic(uid)
        for dot in gone_dots - self.gone_dots:
            self._remove_dot(dot)
        for origin, number in snap.ctx:
            if number > self.ctx.get(origin, 0) and origin.life > self.retired.get(origin.daemon, -1):
                self._include(origin, number)
        for daemon, state in snap.members:
            self._set_member(daemon, state)
        for daemon, life in snap.retired:
            self._retire(daemon, life)
        self._raise_stamp(snap.stamp)
        self._drop_covered_gone()

    def _drop_covered_gone(self) -> None:
        for uid in [uid for uid in self.gone_topics if self.covers_topic(uid)]:
            self.gone_topics.discard(uid)
            GONE_TOPIC.delete(self._log, uid)
        for dot in [dot for dot in self.gone_dots if self.covers(dot)]:
            self.gone_dots.discard(dot)
            GONE_DOT.delete(self._log, dot)


def _name_of(subscription: Subscription) -> tuple[str, str, str]:
    return subscription.topic, subscription.name, subscription.user


def _remove_from(index: defaultdict[N, set[T]], name: N, key: T) -> None:
    keys = index[name]
    keys.discard(key)
    if not keys:
        del index[name]
