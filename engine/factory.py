"""The factory agent of a server: creates and deletes agents on request."""

from collections.abc import Callable
from typing import Final

import attrs

from ..agents import (
    FAILURES,
    FIRST_CONNECTION_STAMP,
    FIRST_FREE_STAMP,
    FIRST_PAGE_STAMP,
    Agent,
    AgentError,
    AgentId,
    AgentSpec,
    Create,
    Created,
    CreateFailed,
    Delete,
    Deleted,
    ExceptionNotification,
    Note,
    Notification,
    RefuseCreate,
    UnknownAgent,
    connection_manager,
    decode,
    encode,
    factory,
    outside,
)
from ..agents.ids import MAX_AGENT_NAME, is_agent_name
from ..agents.lifecycle import DECLARED_KEY
from ..agents.notification import UNREADABLE
from .agent_index import is_platform
from .cell import Cell, upgraded
from .class_loading import Unloadable
from .class_versions import ClassMissing, UpgradePending, VersionTable
from .current_reaction import CurrentReaction, Skipped
from .directory import Directory
from .error_text import error_text, located, reason_of
from .settings import EngineSettings

__all__ = ["Factory", "FactoryResult"]

_PLATFORM: Final = Agent.__module__.rpartition(".")[0] + "."
"""The package of the built-in agents."""


@attrs.frozen
class FactoryResult:
    """The result of a request to the factory."""

    next_stamp: int
    answer: Notification | None = None
    created: Cell | None = None
    deleted: Cell | None = None
    error: str = ""


@attrs.define(eq=False)
class Factory:
    """Creates and deletes agents. A request with a key that was served before gets the same answer."""

    server: int
    _load: Callable[[str], AgentSpec]
    _settings: EngineSettings
    _classes: VersionTable
    keys: dict[str, AgentId] = attrs.field(factory=dict[str, AgentId])
    declared: dict[str, AgentId] = attrs.field(factory=dict[str, AgentId])
    """The keys of agents that the configuration declares, which are not forgotten: each is made once."""

    def react(
        self, note: Note, directory: Directory, stamp: int, position: int, current: CurrentReaction
    ) -> FactoryResult:
        """Serve `Create` or `Delete`. Other notifications are answered with `ExceptionNotification`.

        `position` is that of this reaction; `current` shows it to other threads while code of an agent runs.
        Raises Unloadable.
        """
        try:
            if note.type == Create.type_name:
                return self._create(note, decode(Create, note.payload), directory, stamp, position, current)
            if note.type == RefuseCreate.type_name:
                return self._refuse(decode(RefuseCreate, note.payload), stamp)
            if note.type == Delete.type_name:
                return self._delete(note, decode(Delete, note.payload), directory, stamp)
        except UNREADABLE as error:
            return self._failed(note, stamp, "Unfit", f"the payload does not fit {note.type}: {error}")
        return self._failed(
            note, stamp, "Unhandled", f"the factory creates and deletes agents, and got {note.type}"
        )

    def _failed(self, note: Note, stamp: int, error: str, message: str) -> FactoryResult:
        """Answer that a notification failed, unless it is such an answer itself."""
        failure = ExceptionNotification(factory(self.server), note.type, error, message)
        return FactoryResult(stamp, answer=None if note.type in FAILURES else failure, error=message)

    def checked(self, note: Note) -> Note:
        """Return a notification to this factory as the master submits it.

        A `Create` of a class that cannot be loaded here becomes a `RefuseCreate` with the reason; one of a
        class with a name gets its version. Everything else is returned as it is.
        """
        if note.type != Create.type_name:
            return note
        try:
            ask = decode(Create, note.payload)
        except UNREADABLE:
            return note
        try:
            spec = self._load(ask.class_name)
        except BaseException as error:  # also SystemExit, which must not end the process
            refusal = RefuseCreate(ask.class_name, reason_of(error), ask.key)
            return Note(note.to, note.sender, refusal.type_name, encode(refusal), note.request, note.cause)
        if spec.version and not ask.version:
            pinned = attrs.evolve(ask, version=spec.version)
            return Note(note.to, note.sender, note.type, encode(pinned), note.request, note.cause)
        return note

    def _refuse(self, ask: RefuseCreate, stamp: int) -> FactoryResult:
        known = self._known(ask.key)
        if known is not None:
            return FactoryResult(stamp, answer=Created(known))
        return self._refused(stamp, ask.class_name, ask.reason)

    def _loaded(self, class_name: str) -> AgentSpec:
        """Load a class that the master could load. Raises Unloadable."""
        try:
            return self._load(class_name)
        except BaseException as error:  # also SystemExit: the replica stops in order
            raise Unloadable(class_name, error) from error

    def _create(
        self,
        note: Note,
        ask: Create,
        directory: Directory,
        stamp: int,
        position: int,
        current: CurrentReaction,
    ) -> FactoryResult:
        known = self._known(ask.key)
        if known is not None:
            return self._created_before(known, ask, directory, stamp)
        try:
            current.check(position)
            self._check_key(note, ask)
            there = self._existing(ask, directory) if ask.once else None
            if there is not None:
                return FactoryResult(stamp, answer=Created(there))
            self._check_name(ask.name, directory)
            identity, next_stamp = self._identity(note, ask, directory, stamp)
            spec = self._loaded(ask.class_name)
            self._check_class(spec, note, ask)
            used = self._classes.in_use(spec, ask.version)
            current.running = (position, note, None)
            if spec.name in used.former:
                # Its creator gives the arguments of the version that it knows.
                state = upgraded(used, spec.name, spec.save(spec.build(ask.state)))
            else:
                state = used.save(used.build(ask.state))
            cell = Cell.create(identity, ask.name, used, state)
            current.running = None
            current.check(position)
        except (Unloadable, ClassMissing, UpgradePending):
            raise
        except BaseException as error:  # also SystemExit, which must not end the process
            current.running = None
            reason = _reason(ask, _settled(error, position, current))
            return self._refused(stamp, ask.class_name, reason)
        self._classes.created(used)
        self._remember(ask.key, identity)
        # An agent that chose the id knows it, and would have to react to the answer.
        answer = None if ask.id is not None and note.sender != outside(self.server) else Created(identity)
        return FactoryResult(next_stamp, answer=answer, created=cell)

    def _known(self, key: str) -> AgentId | None:
        """Return the agent that was created with a key; None if there was none, or it is forgotten."""
        return (self.declared if key.startswith(DECLARED_KEY) else self.keys).get(key) if key else None

    def _created_before(self, known: AgentId, ask: Create, directory: Directory, stamp: int) -> FactoryResult:
        """Answer a `Create` with a key that was used before; an agent with another name is not meant."""
        cell = directory.find(known)
        if cell is not None and ask.name is not None and ask.name != cell.name:
            reason = (
                f"the key {ask.key!r} has created the agent {cell.name or known}, and {ask.name!r} is "
                "another one; give each agent a key of its own"
            )
            return self._refused(stamp, ask.class_name, reason)
        return FactoryResult(stamp, answer=Created(known))

    def _remember(self, key: str, identity: AgentId) -> None:
        if not key:
            return
        declared = key.startswith(DECLARED_KEY)
        keys, most = (
            (self.declared, self._settings.max_declared_keys)
            if declared
            else (self.keys, self._settings.max_created_keys)
        )
        keys[key] = identity
        if len(keys) > most:
            del keys[next(iter(keys))]

    def _check_key(self, note: Note, ask: Create) -> None:
        if ask.key.startswith(DECLARED_KEY) and note.sender != outside(self.server):
            raise ValueError(
                f"keys that begin with {DECLARED_KEY!r} belong to the configuration; choose another"
            )

    def _existing(self, ask: Create, directory: Directory) -> AgentId | None:
        """Return the agent with the id and the name that a `Create` gives, None if there is none.

        Raises ValueError if there is one that differs from what is asked for.
        """
        holder = directory.find(ask.id) if ask.id is not None else None
        named = directory.find(ask.name) if ask.name is not None else None
        found = holder or named
        if found is None:
            return None
        if ask.class_name not in (*found.spec.names, found.spec.location):
            raise ValueError(
                f"{found.name or found.identity} is an agent of the class {found.spec.name}; choose another "
                "name or id, or delete that agent"
            )
        wrong_name = ask.name is not None and found is not named
        if wrong_name or (ask.id is not None and found.identity != ask.id):
            raise ValueError(
                f"the agent {found.identity} exists with the name {found.name!r}, and {ask.name!r} with the "
                f"id {ask.id} was asked for; give its own name and id, or delete that agent"
            )
        return found.identity

    def _refused(self, stamp: int, class_name: str, reason: str) -> FactoryResult:
        return FactoryResult(stamp, answer=CreateFailed(class_name, reason), error=reason)

    def _check_class(self, spec: AgentSpec, note: Note, ask: Create) -> None:
        """Check that only the platform creates its agents, each kind with its own ids. Raises ValueError."""
        if not spec.cls.__module__.startswith(_PLATFORM):
            return
        service = note.sender == outside(self.server) and (ask.id is not None or ask.once)
        # A proxy agent gives an id to what it creates itself, and forwards no Create with an id.
        if not (service or (ask.id is not None and self._of_connections(note.sender))):
            raise ValueError(
                f"{spec.name} belongs to the platform, which creates it; deploy agents of your own"
            )

    def _check_name(self, name: str | None, directory: Directory) -> None:
        if name is None:
            return
        if not is_agent_name(name):
            raise ValueError(
                f"{name!r} cannot be a name; use up to {MAX_AGENT_NAME} printable characters without # and @"
            )
        holder = directory.find(name)
        if holder is not None:
            raise ValueError(
                f"the name {name!r} is taken by {holder.identity}; choose another or delete that agent"
            )

    def _identity(self, note: Note, ask: Create, directory: Directory, stamp: int) -> tuple[AgentId, int]:
        """The id of the new agent, and the next free stamp."""
        if ask.id is None:
            return AgentId(self.server, self.server, stamp), stamp + 1
        reserved = ask.id.stamp < FIRST_FREE_STAMP
        if ask.id.host != self.server or ask.id.creator != note.sender.host:
            raise ValueError(f"{ask.id} is not for {note.sender} to give on server {self.server}")
        if reserved and note.sender != outside(self.server):
            raise ValueError(f"{ask.id} is reserved for the services of server {self.server}")
        if ask.id.stamp >= FIRST_CONNECTION_STAMP and not self._of_connections(note.sender):
            raise ValueError(f"{ask.id} is reserved for client connections")
        if directory.find(ask.id) is not None:
            raise ValueError(f"there is an agent {ask.id} already")
        return ask.id, stamp

    def _of_connections(self, sender: AgentId) -> bool:
        """Return whether the sender creates agents for client connections: the manager, or a proxy agent."""
        proxy = sender.host == self.server and FIRST_CONNECTION_STAMP <= sender.stamp < FIRST_PAGE_STAMP
        return proxy or sender == connection_manager(self.server)

    def _delete(self, note: Note, ask: Delete, directory: Directory, stamp: int) -> FactoryResult:
        try:
            address: AgentId | str = AgentId.parse(ask.agent) if ask.agent.startswith("#") else ask.agent
        except ValueError:
            address = ask.agent
        cell = directory.find(address)
        if cell is None and address != factory(self.server):
            return FactoryResult(
                stamp, answer=UnknownAgent(ask.agent, Delete.type_name), error=f"no agent {ask.agent}"
            )
        if cell is None or is_platform(cell.identity):
            message = f"{ask.agent} belongs to the platform and cannot be deleted"
            return self._failed(note, stamp, "PermissionError", message)
        return FactoryResult(stamp, answer=Deleted(cell.identity), deleted=cell)


def _settled(error: BaseException, position: int, current: CurrentReaction) -> BaseException:
    """Return Skipped in place of any other error of a reaction that the administrator skips."""
    try:
        current.check(position)
    except Skipped as skipped:
        return skipped
    return error


def _reason(ask: Create, error: BaseException) -> str:
    if isinstance(error, (AgentError, ValueError)):
        return error_text(error)
    return f"{ask.class_name} cannot be created: {located(error)}"
