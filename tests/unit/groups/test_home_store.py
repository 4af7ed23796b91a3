"""The file of a home: what is in it after a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.agents import AgentId
from quorate.groups.agents.items import Page
from quorate.groups.home_store import FiledGroup, FilingBatch, HomeStore

GROUP, OTHER = AgentId(0, 0, 1030), AgentId(0, 0, 1031)
ALICE, BOB = AgentId(0, 0, 10**12), AgentId(0, 0, 10**12 + 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HomeStore]:
    made = HomeStore(tmp_path / "services")
    yield made
    made.close()


def pages(*firsts: int, count: int = 2) -> list[tuple[int, Page]]:
    return [(first, Page(count, b"item %d" % first, [])) for first in firsts]


def test_what_was_written_is_there_after_a_restart(store: HomeStore, tmp_path: Path) -> None:
    store.write(
        [
            FilingBatch(GROUP, pages(1, 3, 5), upto=6, positions={ALICE: 2, BOB: 4}),
            FilingBatch(OTHER, upto=9, positions={BOB: 9}),
        ]
    )
    store.close()
    again = HomeStore(tmp_path / "services")
    assert again.groups() == {1030: FiledGroup(6, {ALICE: 2, BOB: 4}), 1031: FiledGroup(9, {BOB: 9})}
    assert again.read(GROUP, 0, 0, 1000) == (pages(1, 3, 5), False)
    again.close()


def test_a_read_begins_with_the_page_of_the_next_item_and_ends_at_a_bound(store: HomeStore) -> None:
    store.write([FilingBatch(GROUP, pages(1, 3, 5, 7), upto=8)])
    assert store.read(GROUP, 3, 0, 1000) == (pages(3, 5, 7), False)
    assert store.read(GROUP, 2, 7, 1000) == (pages(3, 5), False)
    assert store.read(GROUP, 0, 0, 1) == (pages(1), True)
    assert store.read(GROUP, 8, 0, 1000)[0] in ([], pages(7))


def test_items_that_all_members_have_are_dropped(store: HomeStore) -> None:
    store.write([FilingBatch(GROUP, pages(1, 3, 5), upto=6)])
    store.write([FilingBatch(GROUP, drop_upto=4, gone=[ALICE])])
    assert store.read(GROUP, 0, 0, 1000) == (pages(5), False)
    store.write([FilingBatch(GROUP, forget=True)])
    assert store.groups() == {}
    assert store.read(GROUP, 0, 0, 1000) == ([], False)


def test_a_batch_is_written_as_a_whole_or_not_at_all(store: HomeStore) -> None:
    broken = FilingBatch(OTHER, positions={ALICE: object()})  # type: ignore[dict-item]
    with pytest.raises(Exception, match="type"):
        store.write([FilingBatch(GROUP, pages(1), upto=2), broken])
    assert store.groups() == {}
