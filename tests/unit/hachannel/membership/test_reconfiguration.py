"""All executions of a few proposals on small configurations: active views form one chain.

Logs and members are left out; voters, promises, acceptances and changes of the configuration are all there
is. Proposals are taken in the order of their numbers. That loses nothing: a voter accepts a view before it
promises a higher one or never, so what it tells a proposer is the highest view below that it ever accepts.
"""

import itertools

import pytest

from quorate.hachannel import View, ViewNumber, Voter
from quorate.hachannel.model.messages import Reconfig
from quorate.hachannel.model.view import majority, present
from quorate.hachannel.view_change.choice import activated, reconfigured

ALL = [Voter(replica, 1) for replica in range(5)]


def view(counter, config):
    # One member, the proposer of all: what members hold is not the subject here.
    return View(ViewNumber(counter, 0, 1), config, (), 0, 0)


class Rules:
    """The rules of decision 10, each of which can be dropped."""

    def __init__(self, *, one_change=True, by_active=True, old_majority=True, new_majority=True):
        self.one_change = one_change
        self.by_active = by_active
        self.old_majority = old_majority
        self.new_majority = new_majority

    def active(self, have, source, new):
        if self.old_majority and self.new_majority:
            return activated(have, source, True, new)
        old = not self.old_majority or present(have, source.config) >= majority(source.config)
        return old and (not self.new_majority or present(have, new.config) >= majority(new.config))

    def configs(self, source, active, change, voters):
        """What a view may have that replaces `source`: (configuration, the change that makes it)."""
        yield source.config, None
        if not active and self.by_active:
            return
        changes = [Reconfig(voter not in source.config, *voter) for voter in voters]
        for other in changes if change is None else [change]:
            config = reconfigured(source.config, other)
            if config:
                yield config, other
        if not self.one_change:
            for one, other in itertools.combinations(changes, 2):
                config = reconfigured(reconfigured(source.config, one), other)
                if config:
                    yield config, one


def explore(config, proposals, rules, width):
    """Try everything; returns two views that are active beside each other, None if there are none."""
    voters = ALL[:width]
    first = view(1, tuple(config))
    accepted = tuple(1 if voter in config else 0 for voter in voters)
    # Of every view: itself, whom it replaces, whether it is active, the change appended in it.
    states = {(accepted, ((first.config, 0, True, None),))}
    for counter in range(2, 2 + proposals):
        following = set()
        for accepted, views in states:
            for at in {count for count in accepted if count}:
                source_config, _, active, change = views[at - 1]
                source = view(at, source_config)
                could = [voter for voter, has in zip(voters, accepted, strict=True) if has <= at]
                if present(could, source.config) < majority(source.config):
                    continue
                # Not to know the highest active view is what must not happen.
                highest = max(index for index, known in enumerate(views, 1) if known[2])
                ancestors = set()
                walk = at
                while walk:
                    ancestors.add(walk)
                    walk = views[walk - 1][1]
                for new_config, made in rules.configs(source, active, change, voters):
                    new = view(counter, new_config)
                    known = list(views)
                    if made is not None and change is None:
                        known[at - 1] = (source_config, known[at - 1][1], active, made)
                    for chosen in itertools.product((False, True), repeat=width):
                        have = [voter for voter, takes in zip(voters, chosen, strict=True) if takes]
                        alive = rules.active(have, source, new) and bool(have)
                        if alive and highest not in ancestors:
                            return views[highest - 1], (new_config, at)
                        after = tuple(
                            counter if takes else has for takes, has in zip(chosen, accepted, strict=True)
                        )
                        following.add((after, (*known, (new_config, at, alive, None))))
        states = following
    return None


CASES = [(1, 2, 4), (2, 3, 3), (3, 4, 2), (2, 4, 2), (4, 4, 2), (3, 3, 3)]
"""Voters at first, voters there are, proposals."""


@pytest.mark.parametrize(("voters", "width", "proposals"), CASES)
def test_active_views_form_one_chain(voters, width, proposals):
    assert explore(ALL[:voters], proposals, Rules(), width) is None


@pytest.mark.parametrize(
    ("rules", "case"),
    [
        (Rules(one_change=False), (1, 3, 3)),
        (Rules(by_active=False), (1, 3, 4)),
        (Rules(old_majority=False, new_majority=False), (3, 3, 2)),
        (Rules(old_majority=False, by_active=False), (1, 3, 3)),
    ],
    ids=["two changes", "change of a view that was not active", "no majority", "new majority only"],
)
def test_without_one_of_the_rules_they_do_not(rules, case):
    voters, width, proposals = case
    assert explore(ALL[:voters], proposals, rules, width) is not None


@pytest.mark.parametrize("rules", [Rules(old_majority=False), Rules(new_majority=False)])
def test_one_of_the_majorities_would_do_where_the_other_rules_hold(rules):
    assert explore(ALL[:2], 3, rules, 3) is None


def test_majorities_of_configurations_that_differ_by_one_voter_meet():
    for size in range(1, 8):
        config = [Voter(replica, 1) for replica in range(size)]
        more = [*config, Voter(size, 1)]
        for one in itertools.combinations(config, majority(config)):
            for other in itertools.combinations(more, majority(more)):
                assert set(one) & set(other)
