"""Calls spread over processes, for work that needs only processors."""

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
    """Return the results of `function` for these arguments, in order, from `jobs` new processes.

    Raises the exception of a call. If it is closed early or interrupted, it ends the processes without
    waiting for calls that have begun.
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
    """Ignore Ctrl-C, which is for the parent: it ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
