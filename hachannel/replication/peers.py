"""Peers: connections to the other replicas, signs of life, suspicion. Suspicion is only a hint."""

import math
from collections.abc import Collection, Iterable, Iterator

import attrs

from ..model.messages import Heartbeat, Join
from ..model.settings import Settings
from ..model.view import NO_VIEW, ViewNumber, Voter


@attrs.define(eq=False)
class Link:
    """Another replica, as this one sees it."""

    replica: int
    closed: float
    """When the connection was lost, in monotonic seconds."""
    voter: Voter | None = None
    """The life of the replica that was connected last."""
    connected: bool = False
    heard: float = 0.0
    heartbeat: Heartbeat | None = None
    """The last heartbeat of this life."""
    join: Join | None = None
    """The last announcement of this life; None once it takes part in a view."""
    exit: bool = False
    """The peer follows no master."""
    exit_since: float = 0.0
    leaving: bool = False
    left_at: ViewNumber = NO_VIEW
    """The last view promised here when the peer announced that it leaves."""
    unfit: bool = False
    """The peer has reported that the state of its application is wrong."""
    suspected: bool = False
    ended: bool = False
    """The process of this life has ended: the operating system said so."""
    writing_since: float | None = None
    """Since when the disk of the peer is slow to confirm what a view change waits for; None if not."""
    foreign: bool = False
    """The peer belongs to another cluster (`View.lineage`); only its heartbeats are received."""

    def forget(self) -> None:
        """Forget what was known of the last life: another one begins."""
        self.heartbeat = None
        self.join = None
        self.exit = False
        self.writing_since = None
        self.leaving, self.left_at = False, NO_VIEW
        self.unfit = False
        self.ended = False
        self.foreign = False


def founds(link: Link, birth: bytes) -> bool:
    """Return whether a replica holds nothing and would found the same cluster as this one."""
    return link.join is not None and link.join.empty and link.join.birth == birth


def writes(since: float | None, now: float, stall_s: float) -> bool:
    """Return whether a disk is slow since a time, and does not hang: that is longer than `stall_s`."""
    return since is not None and now - since < stall_s


MAX_STRANGERS = 32
"""Connections of replicas that do not belong to the cluster, or not any more."""


class Peers:
    """All other replicas: those of the cluster, and others that are connected."""

    def __init__(self, replicas: Iterable[int], now: float, settings: Settings) -> None:
        self.links = {replica: Link(replica, now) for replica in replicas}
        self._suspect_s = settings.suspect_s
        self._verify_s = settings.verify_s
        self._stall_s = settings.stall_s
        # Steps are a heartbeat apart, or a little more. That must not count as a pause, or no silent peer
        # would ever be suspected. At least a quarter of `suspect_s` is left to notice a peer after a pause.
        self._pause_s = max(settings.suspect_s / 4, 2 * settings.heartbeat_s)
        self._last = now

    def follow(self, replicas: Collection[int], now: float) -> None:
        """Replace the replicas of the cluster. A former one is forgotten once its connection is closed."""
        for replica in replicas:
            if replica not in self.links:
                self.links[replica] = Link(replica, now)
        for link in list(self.links.values()):
            if link.replica not in replicas and not link.connected:
                del self.links[link.replica]

    def guest(self, replica: int, now: float) -> Link | None:
        """Return the link of a replica that connects; None if too many strangers are connected."""
        link = self.links.get(replica)
        if link is None and len(self.links) < MAX_STRANGERS:
            if not self.links:
                self._last = now
            link = self.links[replica] = Link(replica, now)
        return link

    def __iter__(self) -> Iterator[Link]:
        return iter(self.links.values())

    def link(self, voter: Voter) -> Link | None:
        """Return the link of this life of a replica; None if it is not connected, or foreign."""
        link = self.links.get(voter.replica)
        there = link is not None and link.connected and link.voter == voter and not link.foreign
        return link if there else None

    def suspects(self, voter: Voter) -> bool:
        """Return whether this life of another replica seems to be gone."""
        link = self.links.get(voter.replica)
        return link is None or link.suspected or (link.voter != voter and link.voter is not None)

    def writes(self, voter: Voter, now: float) -> bool:
        """Return whether the disk of this life of another replica is slow, and does not hang."""
        link = self.link(voter)
        return link is not None and not link.suspected and writes(link.writing_since, now, self._stall_s)

    def departs(self, voter: Voter) -> bool:
        """Return whether this life of another replica seems to be gone, or has announced that it leaves."""
        link = self.links.get(voter.replica)
        return self.suspects(voter) or (link is not None and link.leaving)

    def retires(self, voter: Voter) -> bool:
        """Return whether this life of another replica cannot stay a member: it departs, or is unfit."""
        link = self.links.get(voter.replica)
        return self.departs(voter) or (link is not None and link.unfit)

    def ended(self, voter: Voter) -> bool:
        """Return whether this life has certainly ended: its process has, or a later life was connected."""
        link = self.links.get(voter.replica)
        if link is None or link.voter is None:
            return False
        return link.ended if link.voter == voter else link.voter > voter

    def paused(self, now: float) -> float:
        """Return for how many seconds this replica did not run, and extend the time of its peers by them."""
        gap, self._last = now - self._last, now
        # Without peers there are no heartbeats, so that steps may be far apart.
        if gap < self._pause_s or not self.links:
            return 0.0
        for link in self:
            # Not beyond now: the peer may have been heard, or have gone, since this replica runs again.
            link.heard = min(link.heard + gap, now)
            link.closed = min(link.closed + gap, now)
        return gap

    def review(self, now: float) -> list[tuple[Link, str]]:
        """Decide again which peers to suspect; return those that changed, each with the reason."""
        changes: list[tuple[Link, str]] = []
        for link in self.links.values():
            if link.connected:
                suspected = link.foreign or now - link.heard >= self._suspect_s
            else:
                # A connection that was closed because its peer was silent does not make the peer alive.
                suspected = (
                    link.suspected or link.foreign or link.ended or now >= link.closed + self._verify_s
                )
            if suspected != link.suspected:
                link.suspected = suspected
                changes.append((link, self._reason(link, now) if suspected else "alive"))
        return changes

    @staticmethod
    def _reason(link: Link, now: float) -> str:
        if link.foreign:
            return "belongs to another cluster"
        if link.connected:
            return f"silent for {now - link.heard:.2f} s"
        return "its process has ended" if link.ended else f"no connection for {now - link.closed:.2f} s"

    def deadline(self) -> float | None:
        """Return when the next peer without connection will be suspected; None if no peer will."""
        closed = math.inf
        for link in self.links.values():
            if not link.connected and not link.suspected and link.closed < closed:
                closed = link.closed
        return closed + self._verify_s if closed < math.inf else None
