"""The agents of the demo, created on the running servers."""

import uuid
from collections.abc import Mapping

from ..agents import (
    Agent,
    AgentId,
    Create,
    Created,
    CreateFailed,
    agent_spec,
    decode,
    encode,
    factory,
    type_name,
)
from ..server.admin import wire
from ..server.admin.client import ServerAdmin
from ..server.admin.connection import AdminError
from ..server.config import Config
from .cluster import CLUSTER, DemoError
from .data import FlightFile
from .feed import PULSE
from .flights import CARRIER_SERVER, Airport, Carrier, Pulse

REPLY_TIMEOUT_S = 10.0


def deploy(config: Config, flights: FlightFile) -> dict[str, AgentId]:
    """Create an agent for every airport and carrier of the file, and the one for probes; returns name -> id.

    Raises DemoError when a server does not create one.
    """
    wanted: Mapping[str, dict[str, type[Agent]]] = {
        CARRIER_SERVER: dict.fromkeys(flights.carriers, Carrier),
        CLUSTER: dict[str, type[Agent]](dict.fromkeys(flights.origins, Airport)) | {PULSE: Pulse},
    }
    ids: dict[str, AgentId] = {}
    for server, classes in wanted.items():
        admin = ServerAdmin(config, config.server(server))
        for name, cls in classes.items():
            ids[name] = _create(admin, name, cls)
    return ids


def _create(admin: ServerAdmin, name: str, cls: type[Agent]) -> AgentId:
    create = Create(class_name=agent_spec(cls).location, name=name, key=uuid.uuid4().hex)
    call = wire.Request(factory(admin.server.id), type_name(Create), encode(create), REPLY_TIMEOUT_S)
    where = f"{name} on {admin.server.name}"
    try:
        # With the key it is safe to ask again: the answer is the same agent.
        reply = admin.ask_master(call, wire.Reply, repeatable=True)
    except AdminError as error:
        raise DemoError(f"The agent {where} could not be created: {error}") from error
    if reply.type == type_name(Created):
        return decode(Created, reply.payload).id
    reason = (
        decode(CreateFailed, reply.payload).reason if reply.type == type_name(CreateFailed) else reply.type
    )
    raise DemoError(f"The agent {where} could not be created: {reason}")
