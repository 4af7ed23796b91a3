"""The configuration file `a3servers.xml`: read, checked, and turned into a model."""

from .loader import (
    CONNECTION_MANAGER,
    MAX_FILE_BYTES,
    MAX_ID,
    TCP_PROXY_SERVICE,
    Address,
    Config,
    ConfigError,
    Nat,
    Network,
    NoRoute,
    Problem,
    Replica,
    Server,
    ServiceSpec,
    UnknownName,
    load,
)

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
