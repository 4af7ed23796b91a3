"""Clients and threads in the process of a server: registry, connections without TCP, queues for threads."""

from .registry import local_server
from .server import DirectSend, LocalServer
from .thread_queue import QueueGap, QueueItem, ThreadQueue

__all__ = ["DirectSend", "LocalServer", "QueueGap", "QueueItem", "ThreadQueue", "local_server"]
