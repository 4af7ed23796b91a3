"""A Celery application for the tests: its workers import it, and find the broker in the environment."""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

import quorate.gateways.kombu  # noqa: F401  it makes the scheme of the URL known


def note(path: str, number: int) -> None:
    """Write down that a task has begun: a line that is there even if the worker is killed."""
    with Path(path).open("a") as file:
        file.write(f"{number}\n")


def new_app(broker: str) -> Celery:
    """Return an application with all tasks."""
    made = Celery("celery_app", broker=broker, backend="rpc://", set_as_current=False)
    made.conf.update(worker_prefetch_multiplier=2, broker_connection_retry_on_startup=True)

    @made.task(name="add", shared=False)
    def add(x: int, y: int) -> int:
        return x + y

    @made.task(name="fail", shared=False)
    def fail() -> None:
        raise ValueError("no such order")

    @made.task(name="third_time", shared=False, bind=True, max_retries=3)
    def third_time(self: Any) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0.1)
        return int(self.request.retries)

    @made.task(name="late", shared=False, acks_late=True, reject_on_worker_lost=True)
    def late(path: str, number: int, seconds: float) -> int:
        again = Path(path).exists() and str(number) in Path(path).read_text().split()
        note(path, number)
        time.sleep(0 if again else seconds)
        return number

    @made.task(name="early", shared=False)
    def early(path: str, number: int, seconds: float = 0) -> int:
        note(path, number)
        time.sleep(seconds)
        return number

    return made


app = new_app(os.environ.get("BROKER", ""))
