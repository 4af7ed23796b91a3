"""The operations of the Twisted connection that create and administer agents."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

from ..agents.ids import AgentId
from ..agents.lifecycle import AgentRow
from .agent_operations import AgentClass, Server, all_created
from .errors import ReactionError
from .lifecycle import Operation, creation, creations, deletion, failure, finding, listing, pausing, resuming

__all__ = ["TwistedAgents"]

T = TypeVar("T")

TWISTED_LIMIT: Final = 10_000
"""Most agents that ``TwistedConnection.agents`` returns, unless it is asked for another number."""


class TwistedAgents:
    """Creates and administers agents, with Deferreds. `BlockingAgents` describes the operations."""

    def request(self, *args: Any, **kwargs: Any) -> "Deferred[Any]":
        """Send a notification; the Deferred fires with the answer."""
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
    ) -> "Deferred[AgentId]":
        """Create an agent from the arguments of its constructor, once whatever fails; fires with its id."""
        return self._run(self._made(lambda: creation(cls, name, server, key, state), timeout))

    def create_all(
        self,
        cls: AgentClass,
        states: Mapping[str, Mapping[str, Any]],
        *,
        server: Server = None,
        timeout: float | None = None,
    ) -> "Deferred[dict[str, AgentId]]":
        """Create an agent for each name, with its state, many in one entry of the log."""
        return self._run(self._create_all(cls, states, server, timeout))

    async def _create_all(
        self,
        cls: AgentClass,
        states: Mapping[str, Mapping[str, Any]],
        server: Server,
        timeout: float | None,
    ) -> dict[str, AgentId]:
        results: list[tuple[str, AgentId | Exception]] = []
        for names, operations in creations(cls, states, server):
            # All are sent before the first answer is awaited.
            asked = [self._run(self._operate(operation, timeout)) for operation in operations]
            for name, deferred in zip(names, asked, strict=True):
                try:
                    results.append((name, await deferred))
                except Exception as error:
                    results.append((name, error))
        return all_created(results)

    def find(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> "Deferred[AgentRow | None]":
        """Fire with what the list of agents says of one agent, None if there is none."""
        return self._run(self._made(lambda: finding(agent, server), timeout))

    def agents(
        self,
        cls: AgentClass | None = None,
        *,
        name: str = "",
        limit: int = TWISTED_LIMIT,
        server: Server = None,
        timeout: float | None = None,
    ) -> "Deferred[list[AgentRow]]":
        """Fire with the agents, at most `limit`: of a class, of a name or ``prefix*``, or all."""
        return self._run(self._agents(cls, name, limit, server, timeout))

    async def _agents(
        self, cls: AgentClass | None, name: str, limit: int, server: Server, timeout: float | None
    ) -> list[AgentRow]:
        rows: list[AgentRow] = []
        after = ""
        while len(rows) < limit:
            page = await self._operate(listing(cls, name, server, limit - len(rows), after), timeout)
            rows += page.agents
            after = page.next
            if not after:
                break
        return rows

    def delete(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> "Deferred[AgentId]":
        """Delete an agent; fires with its id."""
        return self._run(self._made(lambda: deletion(agent, server), timeout))

    def pause(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> "Deferred[AgentId]":
        """Pause an agent; fires with its id."""
        return self._run(self._made(lambda: pausing(agent, server), timeout))

    def resume(
        self, agent: AgentId | str, *, server: Server = None, timeout: float | None = None
    ) -> "Deferred[int]":
        """Resume an agent; fires with how many notifications had waited."""
        return self._run(self._made(lambda: resuming(agent, server), timeout))

    async def _made(self, make: "Callable[[], Operation[T]]", timeout: float | None) -> T:
        return await self._operate(make(), timeout)

    async def _operate(self, operation: Operation[T], timeout: float | None) -> T:
        try:
            answer = await self.request(operation.to, operation.ask, reply=operation.replies, timeout=timeout)
        except ReactionError as error:
            raise failure(error) from None
        return operation.result(answer)

    @staticmethod
    def _run(coroutine: "Coroutine[Any, Any, T]") -> "Deferred[T]":
        return Deferred.fromCoroutine(coroutine)
