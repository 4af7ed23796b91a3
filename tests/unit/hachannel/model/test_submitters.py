"""The table of last numbers."""

from quorate.hachannel.model.submitters import Source, Submitters


def test_numbers_follow_each_other_and_another_process_begins_with_one():
    submitters = Submitters()
    first = Source(1, 7, 1, 1)
    assert submitters.expected(first) == 1
    submitters.add(first)
    assert submitters.expected(first) == 2
    assert submitters.expected(Source(1, 7, 2, 9)) == 1
    assert submitters.expected(Source(1, 8, 1, 9)) == 1
    assert submitters.expected(Source(2, 7, 1, 9)) == 1


def test_an_earlier_process_has_nothing_more_to_say():
    submitters = Submitters([Source(1, 7, 2, 5)])
    assert submitters.expected(Source(1, 7, 1, 6)) == 0
    assert submitters.expected(Source(1, 6, 9, 6)) == 0
    assert submitters.last(1, 7, 2) == 5
    assert submitters.last(1, 7, 1) == 0


def test_there_is_one_row_for_each_replica():
    submitters = Submitters()
    for incarnation in range(1, 100):
        submitters.add(Source(1, incarnation, 1, 1))
    assert submitters.rows == (Source(1, 99, 1, 1),)


def test_the_same_rows_are_the_same_object_until_something_is_added():
    submitters = Submitters([Source(2, 1, 1, 4), Source(0, 1, 1, 3)])
    rows = submitters.rows
    assert [row.replica for row in rows] == [0, 2]
    assert submitters.rows is rows
    other = submitters.copy()
    other.add(Source(2, 1, 1, 5))
    assert submitters.rows is rows
    assert other.rows[1].oseq == 5


def test_the_table_of_a_shorter_log_follows_from_the_end_that_it_lacks():
    submitters = Submitters()
    log = [Source(0, 1, 1, 1), None, Source(1, 5, 1, 1), Source(0, 1, 1, 2), Source(1, 6, 1, 1), None]
    tables = [submitters.rows]
    for source in log:
        if source is not None:
            submitters.add(source)
        tables.append(submitters.rows)
    for length, table in enumerate(tables):
        known = Submitters(submitters.before(log[length:]))
        for row in table:
            # The row of a process that was replaced among the rest may be missing: the rest replaces it.
            replaced = any(source is not None and source[:2] > row[:2] == (1, 5) for source in log[length:])
            assert row in known.rows or replaced
        for row in known.rows:
            assert row in table
