"""The check of what a master is about to submit: classes of agents to be created must be loadable."""

from typing import Final

import msgspec

from ..agents import AgentId, Create, Note, factory
from ..agents.ids import FACTORY_ADDRESS
from ..agents.notification import UNREADABLE
from ..agents.proxy import CLIENT_INPUT, ProxyAgent, decode_input
from .recursion import FRAMES_TO_REACTION, FixedDepth
from .state import EngineState

__all__ = ["InputCheck"]

_MAY_CREATE: Final = frozenset((Create.type_name, CLIENT_INPUT))
"""Types that may be or contain a `Create` when they come from outside."""
_CREATE: Final = Create.type_name.encode()


class InputCheck(EngineState):
    """The part of the engine that looks at notifications before they are ordered."""

    def checked(self, notes: list[Note]) -> list[Note]:
        """Return notifications as a master submits them: each `Create` of a class that cannot be loaded here
        is replaced by a `RefuseCreate`, which every replica answers alike.

        Imports the modules of these classes. To be called for input of administrators, services and
        configured servers only.
        """
        if not any(note.type in _MAY_CREATE for note in notes):
            return notes
        with FixedDepth(FRAMES_TO_REACTION):
            return [self._checked(note) for note in notes]

    def _checked(self, note: Note) -> Note:
        if note.type == CLIENT_INPUT and _CREATE in note.payload:
            cell = self.find(note.to)
            # Nobody else may have a module imported.
            if (
                cell is not None
                and isinstance(cell.agent, ProxyAgent)
                and cell.agent.permissions.administrator
            ):
                return self._checked_input(note)
        return self._factory.checked(note) if self._to_factory(note) else note

    def _checked_input(self, note: Note) -> Note:
        """Return the input of a client with its requests to the factory of this server checked."""
        try:
            frame = decode_input(note.payload)
        except UNREADABLE:
            return note
        notes = list(frame.notes)
        for place, each in enumerate(notes):
            asked = Note(self._client_address(each.to), note.sender, each.type, each.payload)
            if self._to_factory(asked):
                checked = self._factory.checked(asked)
                if checked is not asked:
                    notes[place] = msgspec.structs.replace(each, type=checked.type, payload=checked.payload)
        if notes == frame.notes:
            return note
        payload = msgspec.msgpack.encode(msgspec.structs.replace(frame, notes=notes))
        return msgspec.structs.replace(note, payload=payload)

    def _client_address(self, to: AgentId | str) -> AgentId | str:
        """Return the address of the factory if a client has named it so, otherwise `to`."""
        name, at, server = to.partition("@") if isinstance(to, str) else ("", "", "")
        if name != FACTORY_ADDRESS:
            return to
        try:
            return factory(self.resolve(server) if at else self.server)
        except ValueError:
            return to

    def _to_factory(self, note: Note) -> bool:
        try:
            return self._routing.locate(note.to) == (self.server, self._factory_id)
        except ValueError:
            return False
