"""Calls spread over processes, for what takes long and needs no more than a processor."""

import signal
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

__all__ = ["spread"]

T = TypeVar("T")


def spread(
    jobs: int, function: Callable[..., T], calls: Iterable[tuple[Any, ...]]
) -> Generator[T, None, None]:
    """The results of a function for these arguments, in order, from so many new processes.

    Raises what a call raises. Closed early, or interrupted, it ends the processes and waits for no call that
    has begun.
    """
    others = set(active_children())
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin) as pool:
        try:
            for future in [pool.submit(function, *arguments) for arguments in calls]:
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()
            raise


def _begin() -> None:
    """Ctrl-C is for the parent, which ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
