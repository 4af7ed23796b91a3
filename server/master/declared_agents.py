"""The agents that the configuration declares: the master creates those that were never made."""

from typing import cast

from twisted.python.failure import Failure

from ...agents import (
    Create,
    Created,
    CreateFailed,
    ExceptionNotification,
    Note,
    decode,
    encode,
    factory,
    outside,
)
from ...agents.lifecycle import DECLARED_KEY
from ..config import DeclaredAgent, encoded_state
from ..context import ReplicaContext
from .node_port import NodePort
from .requests import NotServing
from .submissions import Submissions

__all__ = ["DeclaredAgents"]

TIMEOUT_S = 300.0
"""The longest wait for the factory, which answers as soon as the entry is committed."""


class DeclaredAgents:
    """Creates the declared agents of a server, each once in the life of the server.

    The key of a `Create` is the agent's name: an agent that was made is not made again, also after it was
    deleted, or when its class or its arguments in the file change.
    """

    def __init__(self, context: ReplicaContext, port: NodePort, submissions: Submissions) -> None:
        self._declared = context.server.agents
        self._server = context.server.id
        self._log = context.log
        self._port = port
        self._submissions = submissions

    def create(self) -> None:
        """Submit a `Create` for each agent that was never made: this replica is master now.

        What is submitted afterwards, as the input of clients, is ordered behind it.
        """
        engine = self._port.node.engine
        for agent in self._declared:
            key = DECLARED_KEY + agent.name
            if not engine.declared(key):
                self._submit(agent, key)

    def _submit(self, agent: DeclaredAgent, key: str) -> None:
        try:
            state = encoded_state(agent)
        except Exception as error:  # of the user's module
            self._refused(agent, f"{type(error).__name__}: {error}")
            return
        create = Create(agent.class_name, agent.name, state, None, key)
        note = Note(factory(self._server), outside(self._server), create.type_name, encode(create))
        try:
            reply = self._submissions.request(note, TIMEOUT_S)
        except NotServing:
            return
        reply.addCallbacks(self._answered, self._failed, callbackArgs=(agent,), errbackArgs=(agent,))

    def _answered(self, reply: Note, agent: DeclaredAgent) -> None:
        if reply.type == Created.type_name:
            identity = decode(Created, reply.payload).id
            self._log(f"created agent {identity} {agent.name!r} of the configuration")
        elif reply.type == CreateFailed.type_name:
            self._refused(agent, decode(CreateFailed, reply.payload).reason)
        elif reply.type == ExceptionNotification.type_name:
            self._refused(agent, decode(ExceptionNotification, reply.payload).message)

    def _failed(self, failure: Failure, agent: DeclaredAgent) -> None:
        # The next master creates what was not committed.
        error = cast("BaseException", failure.value)  # pyright: ignore[reportUnknownMemberType]
        if not isinstance(error, NotServing):
            self._refused(agent, failure.getErrorMessage())

    def _refused(self, agent: DeclaredAgent, reason: str) -> None:
        self._log(f"agent {agent.name!r}, line {agent.line} of the configuration, is not created: {reason}")
