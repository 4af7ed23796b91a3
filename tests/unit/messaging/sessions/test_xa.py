"""XA sessions: what may be done at which step."""

from collections.abc import Awaitable, Callable

import pytest

from quorate.messaging import AsyncSession, AsyncXASession, MessagingError, NoSuchTransaction, Xid

from .sites import Site


@pytest.fixture(scope="module")
def site() -> Site:
    """Return a site that all tests of this file share."""
    return Site(0, "work")


def in_session(site: Site, steps: Callable[[AsyncXASession], Awaitable[None]]) -> None:
    """Run steps in an XA session."""
    client = site.client()

    async def main() -> None:
        async with AsyncXASession(client.connection) as session:
            await steps(session)

    client.run(main())


def depth(site: Site) -> int:
    """Return how many messages wait."""
    client = site.client()

    async def main() -> int:
        async with AsyncSession(client.connection) as session:
            return len([each async for each in session.browse("work")])

    return client.run(main())


def test_without_a_branch_nothing_is_prepared_or_ended(site: Site) -> None:
    async def steps(session: AsyncXASession) -> None:
        for call in (session.tpc_prepare, session.tpc_commit, session.tpc_rollback):
            with pytest.raises(MessagingError, match="no transaction is under way"):
                await call()
        with pytest.raises(NoSuchTransaction, match="no prepared transaction 1/gone/q"):
            await session.tpc_commit(Xid(1, "gone", "q"))

    in_session(site, steps)


def test_within_a_branch_only_its_own_steps_end_it(site: Site) -> None:
    before = depth(site)

    async def steps(session: AsyncXASession) -> None:
        session.tpc_begin(session.xid(1, "one", "q"))
        with pytest.raises(MessagingError, match="one is under way"):
            session.tpc_begin(session.xid(1, "two", "q"))
        for call in (session.commit, session.rollback):
            with pytest.raises(MessagingError, match="end it with tpc_commit or tpc_rollback"):
                await call()
        await session.send("work", "a")
        assert await session.tpc_prepare()
        with pytest.raises(MessagingError, match="is prepared already"):
            await session.tpc_prepare()
        with pytest.raises(MessagingError, match="end it before anything else"):
            await session.send("work", "late")
        await session.tpc_commit()
        await session.send("work", "alone")
        await session.commit()

    in_session(site, steps)
    assert depth(site) == before + 2


def test_a_branch_without_work_is_read_only_and_one_that_is_not_prepared_ends_in_one_phase(
    site: Site,
) -> None:
    before = depth(site)

    async def steps(session: AsyncXASession) -> None:
        session.tpc_begin(session.xid(1, "empty", "q"))
        assert not await session.tpc_prepare()
        session.tpc_begin(session.xid(1, "short", "q"))
        await session.send("work", "a")
        await session.tpc_commit()
        session.tpc_begin(session.xid(1, "given up", "q"))
        await session.send("work", "b")
        await session.tpc_rollback()
        assert await session.tpc_recover() == []

    in_session(site, steps)
    assert depth(site) == before + 1


@pytest.mark.parametrize("parts", [(-1, "a", "b"), (1, "", "b"), (1, "a" * 65, "b"), (1, "a", "\n")])
def test_an_identifier_that_cannot_be_one_is_refused(parts: tuple[int, str, str]) -> None:
    with pytest.raises(ValueError, match=r"transaction"):
        Xid(*parts)
