"""The operations of the blocking and the asyncio connection that create and administer agents."""

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..agents.agent import Agent
from ..agents.ids import AgentId
from ..agents.lifecycle import AgentPage, AgentRow
from .errors import NotCreated, QuorateClientError, ReactionError
from .lifecycle import (
    Operation,
    creation,
    creations,
    deletion,
    failure,
    finding,
    listing,
    pausing,
    resuming,
)

__all__ = ["AgentClass", "AsyncAgents", "BlockingAgents", "Server", "all_created"]

T = TypeVar("T")

AgentClass = type[Agent] | str
Server = str | int | None


class BlockingAgents:
    """Creates and administers agents; the user of the connection needs the right to do so.

    `server` is the name or id of another server than that of the connection; it is not needed where an id, or
    a name with ``@server``, says it. All operations raise `NotPermitted` if the user has not the right.
    """

    def request(self, *args: Any, **kwargs: Any) -> Any:
        """Send a notification and return the answer."""
        raise NotImplementedError

    def _requests_all(self, operations: Sequence[Operation[T]], timeout: float | None) -> list[T | Exception]:
        """Send all requests before waiting for the first answer. Return the results or errors, in order."""
        raise NotImplementedError

    def create(
        self,
        cls: AgentClass,
        *,
        name: str | None = None,
        server: Server = None,
        key: str = "",
        timeout: float | None = None,
        **state: Any,
    ) -> AgentId:
        """Create an agent from the arguments of its constructor, once whatever fails, and return its id.

        cls: an agent class that the server can import, or its ``module:Class``. name: unique on its server.
        key: a creation with the same key gives the same agent, also on another connection.
        Raises `NotCreated`, with the reason, and AgentError for a class or a state that cannot be used.
        """
        return self._operate(creation(cls, name, server, key, state), timeout)

    def create_all(
        self,
        cls: AgentClass,
        states: Mapping[str, Mapping[str, Any]],
        *,
        server: Server = None,
        timeout: float | None = None,
    ) -> dict[str, AgentId]:
        """Create an agent for each name, with its state, many in one entry of the log. Return their ids.

        Raises `NotCreated` with the agents that were created if some were not.
        """
        results: list[tuple[str, AgentId | Exception]] = []
        for names, operations in creations(cls, states, server):
            answers = self._requests_all(operations, timeout)
            results += zip(names, answers, strict=True)
        return all_created(results)

    def find(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> AgentRow | None:
        """Return what the list of agents says of one agent, None if there is none of that name or id."""
        return self._operate(finding(agent, server), timeout)

    def agents(
        self,
        cls: AgentClass | None = None,
        *,
        name: str = "",
        limit: int | None = None,
        server: Server = None,
        timeout: float | None = None,
    ) -> Iterator[AgentRow]:
        """Return an iterator over the agents, page by page: of a class, of a name or ``prefix*``, or all.

        They come by name if a name is given, otherwise by id. `timeout` is for each page.
        """
        operation = listing(cls, name, server, limit)
        return self._pages(operation, cls, name, server, limit, timeout)

    def _pages(
        self,
        operation: Operation[AgentPage],
        cls: AgentClass | None,
        name: str,
        server: Server,
        limit: int | None,
        timeout: float | None,
    ) -> Iterator[AgentRow]:
        while limit != 0:
            page = self._operate(operation, timeout)
            yield from page.agents
            limit = None if limit is None else limit - len(page.agents)
            if not page.next:
                return
            operation = listing(cls, name, server, limit, page.next)

    def delete(self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None) -> AgentId:
        """Delete an agent and return its id. Raises `UnknownAgentError`."""
        return self._operate(deletion(agent, server), timeout)

    def pause(self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None) -> AgentId:
        """Pause an agent and return its id: what is sent to it waits. Raises `UnknownAgentError`."""
        return self._operate(pausing(agent, server), timeout)

    def resume(self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None) -> int:
        """Resume an agent and return how many notifications had waited. Raises `UnknownAgentError`."""
        return self._operate(resuming(agent, server), timeout)

    def _operate(self, operation: Operation[T], timeout: float | None) -> T:
        try:
            answer = self.request(operation.to, operation.ask, reply=operation.replies, timeout=timeout)
        except ReactionError as error:
            raise failure(error) from None
        return operation.result(answer)


class AsyncAgents:
    """Creates and administers agents, in asyncio. `BlockingAgents` describes the operations."""

    def request(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Send a notification and return the answer."""
        raise NotImplementedError

    async def create(
        self,
        cls: AgentClass,
        *,
        name: str | None = None,
        server: Server = None,
        key: str = "",
        timeout: float | None = None,
        **state: Any,
    ) -> AgentId:
        """Create an agent from the arguments of its constructor, once whatever fails, and return its id."""
        return await self._operate(creation(cls, name, server, key, state), timeout)

    async def create_all(
        self,
        cls: AgentClass,
        states: Mapping[str, Mapping[str, Any]],
        *,
        server: Server = None,
        timeout: float | None = None,
    ) -> dict[str, AgentId]:
        """Create an agent for each name, with its state, many in one entry of the log. Return their ids."""
        import asyncio

        results: list[tuple[str, AgentId | Exception]] = []
        for names, operations in creations(cls, states, server):
            asked = [self._operate(operation, timeout) for operation in operations]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for name, answer in zip(names, answers, strict=True):
                if isinstance(answer, BaseException) and not isinstance(answer, Exception):
                    raise answer
                results.append((name, answer))
        return all_created(results)

    async def find(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> AgentRow | None:
        """Return what the list of agents says of one agent, None if there is none of that name or id."""
        return await self._operate(finding(agent, server), timeout)

    async def agents(
        self,
        cls: AgentClass | None = None,
        *,
        name: str = "",
        limit: int | None = None,
        server: Server = None,
        timeout: float | None = None,
    ) -> AsyncIterator[AgentRow]:
        """Iterate over the agents, page by page: ``async for row in connection.agents(Account)``."""
        after = ""
        while limit != 0:
            page = await self._operate(listing(cls, name, server, limit, after), timeout)
            for row in page.agents:
                yield row
            limit = None if limit is None else limit - len(page.agents)
            after = page.next
            if not after:
                return

    async def delete(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> AgentId:
        """Delete an agent and return its id."""
        return await self._operate(deletion(agent, server), timeout)

    async def pause(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> AgentId:
        """Pause an agent and return its id: what is sent to it waits."""
        return await self._operate(pausing(agent, server), timeout)

    async def resume(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> int:
        """Resume an agent and return how many notifications had waited."""
        return await self._operate(resuming(agent, server), timeout)

    async def _operate(self, operation: Operation[T], timeout: float | None) -> T:
        try:
            answer = await self.request(operation.to, operation.ask, reply=operation.replies, timeout=timeout)
        except ReactionError as error:
            raise failure(error) from None
        return operation.result(answer)


def all_created(results: Sequence[tuple[str, AgentId | Exception]]) -> dict[str, AgentId]:
    """Return the ids by name. Raises the error if none was created, `NotCreated` if some were not."""
    created = {name: each for name, each in results if isinstance(each, AgentId)}
    failed = {name: each for name, each in results if isinstance(each, Exception)}
    if not failed:
        return created
    name, error = next(iter(failed.items()))
    if not isinstance(error, NotCreated) and (not created or not isinstance(error, QuorateClientError)):
        raise error
    reasons = {each: str(reason) for each, reason in failed.items()}
    raise NotCreated(
        f"{len(failed)} of {len(results)} agents were not created; {name!r}: {error}", created, reasons
    )
