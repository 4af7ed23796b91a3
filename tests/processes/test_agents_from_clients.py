"""Agents that clients create, find, pause and delete, on one real server."""

import asyncio

import pytest

from quorate.client import NotCreated, UnknownAgentError, aconnect, connect

from .conftest import MakeSite
from .replicas import Part, Site

pytestmark = pytest.mark.processes

CLASS = "ledger:Ledger"


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    return make_site(Part("s0"), administrators="root")


def test_the_life_of_agents_in_the_blocking_and_the_asyncio_face(site: Site) -> None:
    with connect(site.url(), user="root", password="root") as connection:
        first = connection.create(CLASS, name="first", key="one")
        assert connection.create(CLASS, name="first", key="one") == first
        with pytest.raises(NotCreated, match="is taken"):
            connection.create(CLASS, name="first")
        with pytest.raises(NotCreated, match="1 of 3 agents were not created") as caught:
            connection.create_all(CLASS, {"first": {}, "second": {}, "third": {}})
        assert caught.value.created.keys() == {"second", "third"}
        many = connection.create_all(CLASS, {f"many{number:04}": {} for number in range(1500)})
        assert len(set(many.values())) == 1500
        assert [row.name for row in connection.agents(CLASS, name="many*", limit=1100)] == sorted(many)[:1100]
        connection.pause("first")
        found = connection.find("first")
        assert found is not None
        assert (found.id, found.paused) == (first, True)
        assert connection.find(first, server="s0") == found
        assert connection.resume("first@s0") == 0
        assert connection.delete(first) == first
        assert connection.find("first") is None
        with pytest.raises(UnknownAgentError):
            connection.pause("first")
    asyncio.run(_asyncio(site.url()))


async def _asyncio(url: str) -> None:
    async with aconnect(url, user="root", password="root") as connection:
        made = await connection.create_all(CLASS, {"a1": {}, "a2": {}})
        assert [row.id async for row in connection.agents(name="a*")] == list(made.values())
        assert await connection.pause("a1") == made["a1"]
        assert await connection.resume("a1") == 0
        assert await connection.delete("a1") == made["a1"]
        assert await connection.find("a1") is None
