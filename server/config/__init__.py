"""The configuration file `a3servers.xml`: read, checked, and turned into a model."""

from .declared_agents import encoded_state, json_state
from .errors import ConfigError, NoRoute, Problem, UnknownName
from .loader import load
from .model import Config
from .servers import (
    CLIENT_SERVICES,
    CONNECTION_MANAGER,
    HTTP_SERVICE,
    MAX_ID,
    PORT_SERVICES,
    REPLICA_SERVICES,
    TCP_PROXY_SERVICE,
    Address,
    DeclaredAgent,
    Nat,
    Network,
    Replica,
    Server,
    ServiceSpec,
)
from .xml import MAX_FILE_BYTES

__all__ = [
    "CLIENT_SERVICES",
    "CONNECTION_MANAGER",
    "HTTP_SERVICE",
    "MAX_FILE_BYTES",
    "MAX_ID",
    "PORT_SERVICES",
    "REPLICA_SERVICES",
    "TCP_PROXY_SERVICE",
    "Address",
    "Config",
    "ConfigError",
    "DeclaredAgent",
    "Nat",
    "Network",
    "NoRoute",
    "Problem",
    "Replica",
    "Server",
    "ServiceSpec",
    "UnknownName",
    "encoded_state",
    "json_state",
    "load",
]
