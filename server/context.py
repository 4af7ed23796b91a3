"""The context of a replica: the configuration, the settings and the tools that all of its parts share."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..hachannel.transport.direct_write import DirectWriteReactor
from ..tls.layer import secured
from .config import Config, Replica, Server
from .metrics import Metrics
from .settings import ReplicaSettings

if TYPE_CHECKING:
    from ..tls.reactor import ServerTls

__all__ = ["ReplicaContext"]


@attrs.frozen
class ReplicaContext:
    """Everything that stays the same while the process of a replica runs."""

    config: Config
    server: Server
    replica: Replica
    """The declaration of this replica in the configuration."""
    settings: ReplicaSettings
    directory: Path
    """The directory in which the replica keeps its data."""
    incarnation: int
    """The incarnation with which this process begins: higher than those of all earlier processes."""
    reactor: Any
    metrics: Metrics
    log: Callable[[str], None]
    """Write a line to the log."""
    announce: Callable[[str], None]
    """Write a line to the log, and show it to the user who started the replica."""
    accept_code_change: bool = False
    """Entries that end otherwise than before, when they are applied again at this start, are accepted."""
    clock: Callable[[], float] = time.monotonic
    """The clock of the node, in monotonic seconds."""
    started_at: float = attrs.field(factory=time.monotonic)
    """The time at which the process began with the replica, in monotonic seconds."""
    wall_ns: Callable[[], int] = time.time_ns
    """Returns the present time in nanoseconds since the epoch."""
    jitter: random.Random | None = None
    """Spreads the attempts to connect; None for random numbers that no test can repeat."""
    tls: "ServerTls | None" = None
    """The certificates of this replica; None: nothing is encrypted."""

    @property
    def peer_reactor(self) -> Any:
        """The reactor for connections with other replicas, servers and administrators."""
        return secured(DirectWriteReactor(self.reactor), self.tls)
