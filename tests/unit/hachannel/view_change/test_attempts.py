"""What a proposer keeps of a log that it fetches, from one attempt to the next."""

from quorate.hachannel import View, ViewNumber, Voter
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import Tag
from quorate.hachannel.view_change.attempts import Fetched
from quorate.hachannel.view_change.choice import Activation, Choice

VOTERS = tuple(Voter(replica, replica + 1) for replica in range(3))
N1, N2 = (ViewNumber(counter, *VOTERS[0]) for counter in (1, 2))
ENTRIES = [Entry(N1, index, 0, b"%d" % index) for index in range(6, 10)]


def choice(last: int, number: ViewNumber = N1) -> Choice:
    """To adopt a log of this view up to entry `last`, from the replica that has most of it."""
    return Choice(View(number, VOTERS, VOTERS, 3, 0), Activation.ACTIVE, VOTERS[2], Tag(N1, last), VOTERS)


def begun() -> Fetched:
    """A proposer that has five entries has got four more."""
    return Fetched(N1, 5, list(ENTRIES), 0.5)


def test_the_next_attempt_goes_on_where_this_one_was_interrupted() -> None:
    for last in (9, 12):
        fetched = begun().resume(choice(last), 5, 0.1)
        assert (fetched.entries, fetched.reached, fetched.again_s) == (ENTRIES, 9, 0.5)


def test_what_goes_beyond_the_log_that_is_to_be_adopted_now_is_forgotten() -> None:
    """Who had more of it is gone: of those who answer another one has the longest."""
    for count in range(len(ENTRIES)):
        fetched = begun().resume(choice(5 + count), 5, 0.1)
        assert (fetched.entries, fetched.reached) == (ENTRIES[:count], 5 + count)


def test_what_is_of_another_view_or_begins_elsewhere_is_fetched_anew() -> None:
    for number, base in ((N2, 5), (N1, 4), (N1, 6)):
        fetched = begun().resume(choice(12, number), base, 0.1)
        assert (fetched.source, fetched.reached, fetched.entries) == (number, base, [])
