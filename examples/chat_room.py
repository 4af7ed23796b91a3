"""A chat whose room is an agent: members come and go, and the room and its lines survive the masters.

Start the servers, create the room, and run the program in several terminals, with a name in each::

    quorate up a3servers.xml
    quorate deploy a3servers.xml --server s0 examples.chat_room:Room --name lobby
    python -m examples.chat_room ann
    python -m examples.chat_room bob

All members get the same lines in the same order, and each line once. A member that joins gets the last lines.
Type lines; Ctrl-D leaves. A chat without servers, among the members themselves, is examples/group_chat.py.
"""

import asyncio
import sys
import threading
from itertools import chain

import attrs

from quorate import (
    Agent,
    AgentId,
    AsyncConnection,
    Context,
    ExceptionNotification,
    Notification,
    QuorateClientError,
    UnknownAgent,
    aconnect,
    reacts,
)

URL = "quorate://localhost:2560,localhost:2561,localhost:2562"
ROOM = "lobby"
KEPT_LINES = 100
MAX_TEXT = 2000
"""Characters of a line."""
MAX_NAME = 40
"""Characters of a member's name."""


@attrs.frozen
class Join(Notification, name="chat-room.join"):
    """Request to become a member; answered with `Joined` or `NotAllowed`."""

    name: str


@attrs.frozen
class Line(Notification, name="chat-room.line"):
    """A line of the chat. Every member gets it; it answers no request."""

    number: int
    author: str
    text: str


@attrs.frozen
class Joined(Notification, name="chat-room.joined"):
    """Answer: the client is a member, and gets the lines after these."""

    lines: list[Line]


@attrs.frozen
class Say(Notification, name="chat-room.say"):
    """Request to add a line; answered with `Said` or `NotAllowed`."""

    text: str


@attrs.frozen
class Said(Notification, name="chat-room.said"):
    """Answer: the line has this number."""

    number: int


@attrs.frozen
class NotAllowed(Notification, name="chat-room.not-allowed"):
    """Answer: nothing was changed."""

    reason: str


@attrs.frozen
class Leave(Notification, name="chat-room.leave"):
    """Command: the client is a member no longer."""


@attrs.define
class Room(Agent, name="chat-room.room"):
    """The members of a chat and its last lines."""

    max_members: int = 100
    members: dict[AgentId, str] = attrs.field(factory=dict[AgentId, str])
    """Names of the members, by the ids of their connections."""
    lines: list[Line] = attrs.field(factory=list[Line])
    """The last lines, the oldest first."""
    said: int = 0

    @reacts
    def join(self, ctx: Context, note: Join) -> None:
        """Add a member, and answer with the last lines. A name belongs to one member at a time."""
        name = note.name.strip()
        if not 0 < len(name) <= MAX_NAME:
            ctx.send(ctx.sender, NotAllowed(f"a name has 1 to {MAX_NAME} characters"))
        elif ctx.sender in self.members:
            ctx.send(ctx.sender, NotAllowed(f"you are here as {self.members[ctx.sender]}"))
        elif name in self.members.values():
            ctx.send(ctx.sender, NotAllowed(f"{name} is here already; take another name"))
        elif len(self.members) >= self.max_members:
            ctx.send(ctx.sender, NotAllowed("the room is full"))
        else:
            ctx.send(ctx.reply_to, Joined(self.lines))
            self.members[ctx.sender] = name
            self._add(ctx, name, "(has come)")

    @reacts
    def say(self, ctx: Context, note: Say) -> None:
        """Add a line, and send it to all members."""
        if ctx.sender not in self.members:
            ctx.send(ctx.sender, NotAllowed("you are not a member; join first"))
        elif len(note.text) > MAX_TEXT:
            ctx.send(ctx.sender, NotAllowed(f"a line has at most {MAX_TEXT} characters"))
        else:
            self._add(ctx, self.members[ctx.sender], note.text)
            ctx.send(ctx.reply_to, Said(self.said))

    @reacts
    def leave(self, ctx: Context, _: Leave) -> None:
        """Remove a member."""
        self._remove(ctx, ctx.sender)

    @reacts
    def gone(self, ctx: Context, note: UnknownAgent) -> None:
        """Remove a member whose connection has ended: a line could not be delivered."""
        self._remove(ctx, AgentId.parse(note.agent))

    @reacts
    def overrun(self, ctx: Context, note: ExceptionNotification) -> None:
        """Remove a member for whom too much waits: its program reads no more."""
        self._remove(ctx, note.agent)

    def _add(self, ctx: Context, author: str, text: str) -> None:
        self.said += 1
        line = Line(self.said, author, text)
        self.lines = [*self.lines, line][-KEPT_LINES:]
        for member in self.members:
            ctx.send(member, line)

    def _remove(self, ctx: Context, member: AgentId) -> None:
        name = self.members.pop(member, None)
        if name is not None:
            self._add(ctx, name, "(has left)")


def print_line(line: Line) -> None:
    """Print a line; it has the same number for every member."""
    print(f"{line.number:>4} {line.author}: {line.text}", flush=True)


async def show(connection: AsyncConnection) -> None:
    """Print the lines as they come, until the connection is closed."""
    async for received in connection:
        if isinstance(received.notification, Line):
            print_line(received.notification)


async def speak(connection: AsyncConnection) -> None:
    """Send the lines that are typed, until the input ends."""
    typed: asyncio.Queue[str] = asyncio.Queue(maxsize=10)
    threading.Thread(target=read, args=(asyncio.get_running_loop(), typed), daemon=True).start()
    while text := await typed.get():
        said = await connection.request(ROOM, Say(text.rstrip("\n")), reply=(Said, NotAllowed))
        if isinstance(said, NotAllowed):
            print(said.reason, flush=True)
    await connection.send(ROOM, Leave())


def read(loop: asyncio.AbstractEventLoop, typed: "asyncio.Queue[str]") -> None:
    """Put each line of the terminal, then an empty text, into the queue. Only a thread may wait there."""
    for text in chain(sys.stdin, ("",)):
        asyncio.run_coroutine_threadsafe(typed.put(text), loop).result()


async def chat(name: str, url: str) -> None:
    """Join, and print lines and send lines until the input or the connection ends."""
    async with aconnect(url, user="root", password="root") as connection:
        joined = await connection.request(ROOM, Join(name), reply=(Joined, NotAllowed))
        if isinstance(joined, NotAllowed):
            sys.exit(joined.reason)
        if isinstance(joined, Joined):
            for line in joined.lines:
                print_line(line)
        showing, speaking = (asyncio.create_task(each(connection)) for each in (show, speak))
        done, _ = await asyncio.wait((showing, speaking), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    await showing


def main() -> None:
    """Chat under the name that is given."""
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m examples.chat_room NAME [URL]")
    try:
        asyncio.run(chat(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else URL))
    except QuorateClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        # Leave at Ctrl-C. The room notices that the connection has ended.
        return


if __name__ == "__main__":
    main()
