"""The configuration file `a3servers.xml`: read, checked, and turned into a model."""

from .errors import ConfigError, NoRoute, Problem, UnknownName
from .loader import load
from .model import Config
from .servers import (
    CONNECTION_MANAGER,
    MAX_ID,
    TCP_PROXY_SERVICE,
    Address,
    Nat,
    Network,
    Replica,
    Server,
    ServiceSpec,
)
from .xml import MAX_FILE_BYTES

__all__ = [
    "CONNECTION_MANAGER",
    "MAX_FILE_BYTES",
    "MAX_ID",
    "TCP_PROXY_SERVICE",
    "Address",
    "Config",
    "ConfigError",
    "Nat",
    "Network",
    "NoRoute",
    "Problem",
    "Replica",
    "Server",
    "ServiceSpec",
    "UnknownName",
    "load",
]
