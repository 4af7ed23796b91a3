"""The log in memory, against a plain list."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.hachannel import MemoryLog, ViewNumber
from quorate.hachannel.model.log import ENTRY_BYTES
from quorate.hachannel.model.messages import RECONFIG, Entry
from quorate.hachannel.model.view import NO_TAG, Tag


def entry(index, view=1, payload=b"xyz", kind=0):
    return Entry(ViewNumber(view, 0, 1), index, 0, payload, kind)


def filled(count):
    log = MemoryLog()
    for index in range(1, count + 1):
        log.append(entry(index))
    return log


def test_an_empty_log_begins_at_nothing():
    log = MemoryLog()
    assert (log.base, log.last, len(log), log.size_bytes) == (NO_TAG, NO_TAG, 0, 0)
    assert log.tag(0) == NO_TAG
    assert not log.recovered().accepted
    for index in (1, -1):
        with pytest.raises(IndexError):
            log.get(index)


def test_a_slice_has_at_least_one_entry_and_no_more_than_fits():
    log = filled(10)
    assert [e.index for e in log.slice(3, 10, 0)] == [4]
    assert [e.index for e in log.slice(3, 10, 2 * (3 + ENTRY_BYTES))] == [4, 5]
    assert [e.index for e in log.slice(3, 5, 1 << 20)] == [4, 5]
    assert log.slice(10, 10, 1 << 20) == []


def test_the_last_change_of_the_configuration_is_remembered_until_it_is_cut_or_trimmed():
    log = filled(5)
    log.append(entry(6, kind=RECONFIG))
    log.append(entry(7))
    assert log.reconfig(0).index == 6
    assert log.reconfig(5).index == 6
    assert log.reconfig(6) is None
    log.truncate(5)
    assert log.reconfig(0) is None
    log.append(entry(6, kind=RECONFIG))
    log.trim(6)
    assert log.reconfig(0) is None


def test_a_reset_log_goes_on_after_the_snapshot():
    log = filled(5)
    log.append(entry(6, kind=1))
    base = Tag(ViewNumber(4, 0, 1), 100)
    log.reset(base)
    assert (log.base, log.last, len(log), log.size_bytes) == (base, base, 0, 0)
    assert log.reconfig(0) is None
    log.append(entry(101, 4))
    assert log.get(101).index == 101
    assert log.tag(100) == base


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "truncate", "trim"]), st.integers(0, 60), st.binary(max_size=5)),
        max_size=60,
    )
)
def test_it_behaves_as_a_list_with_a_base(steps):
    log = MemoryLog()
    model: dict[int, Entry] = {}
    base = 0
    for step, number, payload in steps:
        last = max(model, default=base)
        if step == "append":
            model[last + 1] = entry(last + 1, number + 1, payload)
            log.append(model[last + 1])
        elif step == "truncate" and number >= base:
            model = {index: kept for index, kept in model.items() if index <= number}
            log.truncate(number)
        elif step == "trim":
            log.trim(number)
            if number > base:
                base = min(number, last)
                model = {index: kept for index, kept in model.items() if index > base}
        assert log.last.at == max(model, default=base)
        assert log.base.at == base
        assert len(log) == len(model)
        assert log.size_bytes == sum(len(kept.payload) for kept in model.values())
        assert [log.get(index) for index in sorted(model)] == [model[index] for index in sorted(model)]
