"""Groups under random faults of replicas and clients: many seeds, and rules that are removed on purpose."""

import random
import re
from typing import Any

import attrs
import pytest

from quorate.agents.presence import Suspect
from quorate.agents.proxy import ProxyAgent
from quorate.client import QuorateClientError
from quorate.groups.agents.topic import GroupTopic
from quorate.groups.home_stream import HomeStream
from quorate.testing import SimulatedCluster, Violation
from quorate.testing.servers.group_checks import GroupChecker, GroupClient, GroupViolation

from ..long import amount

SEEDS = range(int(amount("QUORATE_GROUP_SEEDS", 4, 300)))
PROPERTIES = {"balance": "rotate", "digest_every": "20", "client_silence_s": "2", "expire_s": "60"}


class Campaign:
    """Members that join, leave, cast, stand still and die, while replicas fail."""

    def __init__(self, cluster: SimulatedCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(f"groups {seed}")
        self.checker = GroupChecker(cluster, "orders")
        for _ in range(6):
            self.checker.client()
        *self.members, self.publisher = self.checker.clients
        for member in self.members:
            self.checker.join(member)
        cluster.run(1.0)

    def run(self, seconds: float) -> None:
        """Let faults happen for so long, then let everything arrive."""
        cluster = self.cluster
        cluster.inject_faults(seconds, every_s=4.0)
        end = cluster.now + seconds
        while cluster.now < end:
            who = self.random.choice(self.checker.clients)
            for _ in range(self.random.randint(0, 4)):
                self.checker.cast(who)
            self.change(self.random.choice(self.members), self.random.random())
            cluster.run(self.random.uniform(0.01, 0.3))
        for each in self.checker.clients:
            cluster.resume_client(each.client)
        cluster.finish()
        cluster.run(70.0)

    def change(self, member: GroupClient, chance: float) -> None:
        reading = member.reading
        if chance < 0.02 and reading is not None and not member.leaving:
            self.checker.leave(member)
        elif chance < 0.06 and member.leaving and reading is not None and reading.done:
            self.checker.join(member)
        elif chance < 0.08:
            self.cluster.pause_client(member.client)
        elif chance < 0.14:
            self.cluster.resume_client(member.client)
        elif chance < 0.143 and len(self.members) > 3 and not member.leaving:
            self.members.remove(member)
            self.checker.kill(member)


def run(seed: int, seconds: float = 30.0) -> Any:
    with SimulatedCluster(seed=seed, groups=True, properties=PROPERTIES) as cluster:
        campaign = Campaign(cluster, seed)
        campaign.run(seconds)
        description = campaign.checker.settled()
        assert campaign.checker.events > 100
        return description


@pytest.mark.parametrize("seed", SEEDS)
def test_members_agree_on_everything_over_failures(seed: int) -> None:
    run(seed)


def test_the_campaign_has_suspicions_true_and_false() -> None:
    found = [run(seed) for seed in range(100, 103)]
    assert sum(each.false_suspicions for each in found) > 0
    assert sum(each.suspicions - each.false_suspicions for each in found) > 0


def caught(seeds: range = range(12)) -> str:
    """What the first seed finds that finds something."""
    for seed in seeds:
        try:
            run(seed)
        except (GroupViolation, Violation, QuorateClientError) as error:
            return str(error)
    return ""


def test_a_suspicion_of_an_earlier_attempt_that_counts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 10: a suspicion counts for the latest attempt only."""
    suspect = ProxyAgent._suspect

    def suspect_any(self: ProxyAgent, ctx: Any, note: Suspect) -> None:
        suspect(self, ctx, attrs.evolve(note, attempt=self.attempt, expire_s=1.0))

    monkeypatch.setattr(ProxyAgent, "_suspect", suspect_any)
    assert re.search("G7|expired", caught())


def test_an_order_of_its_own_at_each_home_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Total order: a home that shows its own casts before they are ordered is found."""
    append = HomeStream.append

    def swapped(self: HomeStream, first: int, page: Any) -> None:
        if first % 7 == 0 and self.readers and min(self.readers).stamp % 2:
            page = page.__class__(page.count, page.data.replace(b"1", b"2"), page.to)
        append(self, first, page)

    monkeypatch.setattr(HomeStream, "append", swapped)
    assert caught()


def test_a_trim_that_forgets_the_slowest_member_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What some member has not acknowledged is kept."""

    def trim(self: GroupTopic, ctx: Any) -> None:
        del ctx
        low = max([member.acked for member in self.members.values()], default=self.last)
        if low > self.acked:
            self.acked = low
            self.pages.drop(None, self.pages.floor(low))
            self.stored_bytes = sum(len(page.data) for _, page in self.pages.items())

    monkeypatch.setattr(GroupTopic, "_trim", trim)
    assert caught()
