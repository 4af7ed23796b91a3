"""The listener of an asyncio connection: a task that calls the callback."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from .driver import Driver
from .errors import QuorateClientError
from .frames import ServerNote
from .listener import EndCallback, ListenerState
from .pending import Received

__all__ = ["ListenerTask"]


class ListenerTask(ListenerState):
    """Calls a callback with each notification, one at a time, in a task of the running loop."""

    def __init__(
        self,
        driver: Driver,
        callback: Callable[[Received], Awaitable[object] | None],
        ended: EndCallback | None,
    ):
        super().__init__(driver, ended)
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[list[ServerNote]] | None = None
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Pass no further notification to the callback, and wait until it is done; not in the callback."""
        self.stopped = True
        if asyncio.current_task() is self._task:
            return
        if self._waiter is not None and not self._waiter.done():
            self._driver.pending.cancel_receive(self._waiter)
            self._waiter.set_result([])
        await asyncio.wait([self._task])

    async def join(self, timeout_s: float | None) -> None:
        """Wait until the task has ended, for at most `timeout_s`; not in the task itself."""
        if asyncio.current_task() is not self._task:
            await asyncio.wait([self._task], timeout=timeout_s)

    async def _run(self) -> None:
        pending = self._driver.pending
        while not self.stopped:
            waiter = self._waiter = self._loop.create_future()
            pending.hold(waiter, 1)
            try:
                held = await waiter
            except QuorateClientError:
                self.end()
                return
            except asyncio.CancelledError:
                pending.cancel_receive(waiter)
                raise
            self._waiter = None
            if self.stopped:
                pending.put_back(held)
                return
            await self._process(held)

    async def _process(self, held: list[ServerNote]) -> None:
        try:
            result = self._callback(self.message(held[0]))
            if inspect.isawaitable(result):
                await result
            else:
                # Other tasks have their turn, also while many notifications wait.
                await asyncio.sleep(0)
        except Exception as error:
            self.failed(error)
        finally:
            self._driver.release(held)
