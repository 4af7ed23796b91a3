"""Topics on many masters, through partitions. Source: "A Highly Available Message Queue" (Munjal, 2003).

`connect` gives a client for threads, `connect_async` one for asyncio. The guide is docs/mesh.md.
"""

from .client.aio import AsyncMesh, AsyncSubscription, connect_async
from .client.blocking import Mesh, Subscription, connect
from .client.errors import (
    MeshError,
    NoTopic,
    PublishTimeout,
    SubscriptionEnded,
    TopicExists,
    TopicFull,
)
from .client.subscriber import MeshMessage

__all__ = [
    "AsyncMesh",
    "AsyncSubscription",
    "Mesh",
    "MeshError",
    "MeshMessage",
    "NoTopic",
    "PublishTimeout",
    "Subscription",
    "SubscriptionEnded",
    "TopicExists",
    "TopicFull",
    "connect",
    "connect_async",
]
