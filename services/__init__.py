"""What a server offers while it is master: users, client connections, and services that people write."""

from .base import Service, ServiceContext, ServiceError

__all__ = ["Service", "ServiceContext", "ServiceError"]
