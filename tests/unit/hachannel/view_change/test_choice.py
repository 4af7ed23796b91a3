"""The conclusions that promises allow."""

import msgspec

from quorate.hachannel import View, ViewNumber, Voter
from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import Entry, Promise, Reconfig
from quorate.hachannel.model.view import NO_TAG, Tag, majority, present, required
from quorate.hachannel.view_change.choice import (
    Activation,
    activated,
    activation,
    choose,
    quorum_of,
    reconfigured,
    shared_prefixes,
)

A, B, C, D, E = (Voter(replica, 1) for replica in range(5))
NUMBER = ViewNumber(9, 0, 1)


def view(counter, config, members, k=None, boot=0):
    return View(
        ViewNumber(counter, 0, 1), tuple(config), tuple(members), len(members) if k is None else k, 0, boot
    )


def promise(accepted, last, *, active=True, leaving=False, foreseen=False, unfit=False):
    end = Tag(ViewNumber(1, 0, 1), last) if last else NO_TAG
    return Promise(NUMBER, accepted, active, end, 0, leaving, foreseen, unfit)


def said(accepted, *, foreseen=False):
    """Return the promise of a voter that has an empty log and knows of no active view."""
    return promise(accepted, 0, active=False, foreseen=foreseen)


def test_a_majority_and_k():
    assert [majority([A] * n) for n in range(1, 6)] == [1, 2, 2, 3, 3]
    assert required("ALL", [A, B, C]) == 3
    assert required("MAJORITY", [A, B, C]) == 2
    assert required("MAJORITY", [A, B]) == 2
    assert present([A, A, B, E], [A, B, C]) == 2


def test_the_longest_log_of_the_members_is_adopted():
    one = view(1, [A, B, C], [A, B, C])
    choice = choose({B: promise(one, 3), C: promise(one, 5)}, B)
    assert (choice.holder, choice.last.at, choice.members) == (C, 5, (B, C))


def test_an_unfit_member_counts_and_its_log_may_be_adopted_but_it_is_not_chosen():
    one = view(1, [A, B, C], [A, B, C])
    choice = choose({B: promise(one, 3), C: promise(one, 5, unfit=True)}, B)
    assert (choice.holder, choice.last.at, choice.members) == (C, 5, (B,))
    assert choose({B: promise(one, 3, unfit=True), C: promise(one, 5, unfit=True)}, B).members == ()


def test_the_proposers_own_log_is_preferred_when_it_is_as_long():
    one = view(1, [A, B, C], [A, B, C])
    assert choose({B: promise(one, 5), C: promise(one, 5)}, C).holder == C
    assert choose({B: promise(one, 5), C: promise(one, 5)}, A).holder == B


def test_the_log_of_a_voter_that_only_recorded_the_view_is_excluded():
    two = view(2, [A, B, C], [A, B])
    choice = choose({B: promise(two, 3), C: promise(two, 50)}, B)
    assert (choice.holder, choice.members) == (B, (B,))


def test_the_log_of_a_member_that_accepted_less_is_excluded():
    one, two = view(1, [A, B, C], [A, B, C]), view(2, [A, B, C], [B, C])
    choice = choose({A: promise(one, 50), B: promise(two, 3), C: promise(one, 40)}, B)
    assert (choice.source, choice.holder, choice.members) == (two, B, (B, C))


def test_too_few_voters_or_members_allow_no_choice():
    one = view(1, [A, B, C, D, E], [A, B, C, D, E], 3)
    assert "voters" in choose({A: promise(one, 3), B: promise(one, 3)}, A)
    small = view(2, [A, B, C, D, E], [A, B, C], 2)
    assert "1 of 2 members" in choose({C: promise(small, 3), D: promise(small, 3), E: promise(small, 3)}, C)
    assert not isinstance(choose({B: promise(small, 3), C: promise(small, 3), E: promise(small, 3)}, C), str)


def test_another_life_of_a_voter_does_not_count():
    one = view(1, [A, B, C], [A, B, C])
    assert "1 of 2 voters" in choose({A: promise(one, 3), Voter(1, 2): promise(None, 0)}, A)


def test_nobody_with_a_view_allows_no_choice():
    assert "nobody" in choose({A: promise(None, 0)}, A)


def test_a_leaving_replica_votes_but_is_no_member():
    one = view(1, [A, B, C], [A, B, C])
    choice = choose({A: promise(one, 5, leaving=True), B: promise(one, 3)}, B)
    assert (choice.holder, choice.members) == (A, (B,))


def test_a_first_view_not_known_to_be_active_needs_who_could_found_another():
    first = view(1, [A, B, C], [A, B, C], boot=3)
    assert quorum_of(first, False) == 3
    assert quorum_of(first, True) == 2
    two = {A: said(first), B: said(first)}
    assert "2 of 3" in choose(two, A)
    two[B] = said(first, foreseen=True)
    assert "2 of 3" in choose(two, A), "that it may be active is not enough"
    two[B] = promise(first, 0)
    assert choose(two, A).activation is Activation.ACTIVE


def test_a_first_view_that_a_member_passed_over_was_never_active():
    first = view(1, [A, B, C], [A, B, C], boot=1)
    assert activation(first, {B: said(first, foreseen=True), D: said(None)}) is Activation.OPEN
    assert activation(first, {B: said(first, foreseen=True), C: said(None)}) is Activation.NEVER


def test_a_first_view_of_which_too_few_can_know_was_never_active():
    """Who has promised more, and does not know of it, will never say that it does."""
    first, later = view(1, [A, B, C], [A, B, C], k=2, boot=2), view(2, [A, B, C], [A, B, C])
    assert activation(first, {B: said(first), D: said(None)}) is Activation.OPEN
    assert activation(first, {B: said(first), C: said(later)}) is Activation.OPEN, (
        "it may have known of it before"
    )
    assert activation(first, {B: said(first), C: said(first)}) is Activation.NEVER


def test_a_first_view_is_as_good_as_active_once_as_many_know_of_it_as_commit_an_entry():
    """Its proposer notes it before it tells anybody, whether it answers or not."""
    first = view(1, [A, B, C], [A, B, C], k=2, boot=3)
    assert activation(first, {B: said(first), C: said(first, foreseen=True)}) is Activation.ACTIVE
    all_of_it = view(1, [A, B, C], [A, B, C], k=3, boot=3)
    assert activation(all_of_it, {B: said(all_of_it, foreseen=True)}) is Activation.OPEN
    one, two = said(all_of_it), said(all_of_it, foreseen=True)
    assert activation(all_of_it, {B: one, C: two}) is Activation.NEVER
    assert activation(all_of_it, {B: two, C: two}) is Activation.ACTIVE
    assert choose({B: two, C: two}, B).activation is Activation.ACTIVE


def test_a_first_view_whose_proposer_is_past_it_was_never_active_unless_others_can_think_so():
    """Two who know of it can, while only its proposer answers here."""
    first, later = view(1, [A, B, C], [A, B, C], k=3, boot=3), view(2, [A, B, C], [B, A, C], k=3)
    told = said(first, foreseen=True)
    assert activation(first, {A: told, D: said(None), E: said(None)}) is Activation.OPEN
    assert activation(first, {A: told, B: told}) is Activation.NEVER
    assert activation(first, {A: told, B: said(later)}) is Activation.OPEN
    assert activation(first, {A: promise(first, 0), B: told}) is Activation.ACTIVE


def test_a_first_view_that_another_one_replaces_was_never_active_unless_that_one_says_so():
    """Who proposed that one has found out."""
    first, other = view(1, [A, B, C], [A, B, C], boot=3), view(2, [B, C, D], [B, C, D], boot=3)
    told = said(first, foreseen=True)
    assert activation(first, {B: told, D: said(other)}) is Activation.NEVER
    unsure = msgspec.structs.replace(other, again=True)
    assert activation(first, {B: told, D: said(unsure)}) is Activation.OPEN
    assert activation(other, {B: told, D: said(other)}) is Activation.NEVER


def test_a_view_is_active_when_all_members_and_both_majorities_know_it():
    before = view(1, [A, B, C, D, E], [A, B, C, D, E])
    after = view(2, [A, B, C, D, E], [A, B])
    assert not activated({A, C, D}, before, True, after)
    assert not activated({A, B}, before, True, after)
    assert activated({A, B, E}, before, True, after)
    grown = view(2, [A, B, C, D, E], [A])
    assert not activated({A, B}, view(1, [A, B, C], [A]), True, grown)
    assert activated({A, B, E}, view(1, [A, B, C], [A]), True, grown)
    assert not activated({A, D, E}, view(1, [A, B, C], [A]), True, grown)


def test_a_first_view_is_active_when_it_meets_all_who_could_found_another():
    """Of five replicas three found a cluster. A majority of the founders misses the three others."""
    first = view(1, [A, D, E], [A], boot=3)
    assert not activated({A, D}, None, False, first)
    assert activated({A, D, E}, None, False, first)


def test_one_voter_comes_or_goes():
    assert reconfigured([C, A], None) == (A, C)
    assert reconfigured([A, B], Reconfig(True, *C)) == (A, B, C)
    assert reconfigured([A, B, C], Reconfig(False, *B)) == (A, C)
    assert reconfigured([A, B], Reconfig(False, *C)) == (A, B)


def test_a_log_is_shared_up_to_its_end_in_the_same_view_and_else_up_to_the_commit_index():
    number = ViewNumber(1, 0, 1)
    source = View(number, (Voter(0, 1), Voter(1, 1)), (Voter(0, 1), Voter(1, 1)), 1, 0)
    log = MemoryLog()
    for index in range(1, 9):
        log.append(Entry(number, index, 0, b""))
    log.trim(2)
    end = Tag(number, 6)
    promises = {
        Voter(0, 1): Promise(NUMBER, source, True, end, 4, False),
        Voter(1, 1): Promise(NUMBER, None, True, end, 4, False),
        Voter(2, 1): Promise(NUMBER, source, True, Tag(number, 9), 4, False),
        Voter(3, 1): Promise(NUMBER, None, True, end, 1, False),
    }
    assert shared_prefixes(promises, source, log) == {Voter(0, 1): 6, Voter(1, 1): 4}
    assert shared_prefixes({Voter(0, 1): promises[Voter(0, 1)]}, None, log) == {Voter(0, 1): 4}
