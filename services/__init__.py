"""Services that a server runs while it is master: users, client connections, and services of your own.

A service of your own derives from `Service`; docs/services.md is the guide.
"""

from ..hachannel.transport.ports import DelayedCallPort, ListeningPort, ReactorPort
from .activities import ActivityService, activity
from .activity_attempts import ActivityCall, PermanentError
from .base import (
    ASK_TIMEOUT_S,
    MAX_THREADS,
    EmissionCallback,
    NotMaster,
    ReplicaInfo,
    Role,
    RoleCallback,
    Service,
    ServiceContext,
    ServiceError,
)

__all__ = [
    "ASK_TIMEOUT_S",
    "MAX_THREADS",
    "ActivityCall",
    "ActivityService",
    "DelayedCallPort",
    "EmissionCallback",
    "ListeningPort",
    "NotMaster",
    "PermanentError",
    "ReactorPort",
    "ReplicaInfo",
    "Role",
    "RoleCallback",
    "Service",
    "ServiceContext",
    "ServiceError",
    "activity",
]
