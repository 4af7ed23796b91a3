"""Services that a server runs while it is master: users, client connections, and services of your own."""

from ..hachannel.transport.ports import DelayedCallPort, ListeningPort, ReactorPort
from .base import Service, ServiceContext, ServiceError

__all__ = ["DelayedCallPort", "ListeningPort", "ReactorPort", "Service", "ServiceContext", "ServiceError"]
