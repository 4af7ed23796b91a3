"""The digest of a configuration, which the processes of all servers compare."""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec

from .servers import Server

AGENT_MODULES_PROPERTY = "agent_modules"
SECRET_PROPERTY = "secret"  # the name of a property, not its value  # noqa: S105
INSECURE_NETWORK_PROPERTY = "insecure_network"
USERS_FILE_PROPERTY = "users_file"
AUTHORITY_PROPERTY = "tls_ca"
TLS_PROPERTIES = ("tls_certificate", "tls_key", AUTHORITY_PROPERTY, "tls_client_ca")
TLS_MODE_PROPERTY = "tls"
RIGHTS_FILE_PROPERTY = "rights_file"
TOKENS_FILE_PROPERTY = "tokens_file"
PLACE_PROPERTIES = (USERS_FILE_PROPERTY, RIGHTS_FILE_PROPERTY, TOKENS_FILE_PROPERTY, *TLS_PROPERTIES)
"""Properties that name a file; a relative name is looked for in the directory of the configuration."""
REPLICATED_PROPERTIES = (
    "answers",
    "digest_every",
    "high_water",
    "max_turn",
    "max_turn_bytes",
    "max_waiting",
    "stop_on_exception",
)
"""Properties that decide how a replica reacts: replicas with other values would drift apart."""


def config_digest(
    domains: Sequence[str],
    causal: Collection[str],
    servers: Sequence[Server],
    setting: Callable[..., str | None],
) -> str:
    """Return a hash that is equal for files that agree in all that processes must agree on.

    `setting` is `Config.setting`. The properties that decide how agents react count, wherever they are set;
    the others concern one process each, which reads them when it starts (`settings_digest`). Left out are
    also nbClusterExpected, which an operator may override at a start; the arguments of services and <nat>;
    and the replicas of clusters, which are added and removed while the cluster runs.
    """
    facts = [
        "a3servers 4",
        sorted(domains),
        *([["causal", *sorted(causal)]] if causal else []),
        [_server_facts(server, setting) for server in sorted(servers, key=lambda server: server.id)],
    ]
    return blake2b(msgspec.json.encode(facts), digest_size=16).hexdigest()


def _server_facts(server: Server, setting: Callable[..., str | None]) -> list[object]:
    return [
        (server.id, server.name, server.clustered, server.transient),
        (server.mode, server.ack, server.durability, server.min_copies),
        *([server.context] if server.context == "local" else []),
        # The replicas of a server do not differ in these: `check_replicas_agree` sees to it.
        [setting(name, server=server.id, replica=server.replicas[0].id) for name in REPLICATED_PROPERTIES],
        sorted(server.domains),
        sorted({service.class_name for each in server.replicas for service in each.services}),
        []
        if server.clustered
        else [
            [
                (replica.id, replica.host, replica.witness),
                sorted((network.domain, network.host, network.port) for network in replica.networks),
            ]
            for replica in server.replicas
        ],
    ]


def settings_digest(*levels: Mapping[str, str]) -> str:
    """Return a hash of the properties of one process, by which a command sees that its file has other ones.

    levels: the properties of the file, of the server and of the replica; the later ones count more. Secrets
    are left out, because the hash is sent in clear, and names of files, which differ between machines.
    """
    merged: dict[str, str] = {}
    for each in levels:
        merged.update(each)
    for name in (SECRET_PROPERTY, "mesh_password", *PLACE_PROPERTIES):
        merged.pop(name, None)
    return blake2b(msgspec.json.encode(sorted(merged.items())), digest_size=16).hexdigest()
