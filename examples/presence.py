"""A chat that shows who is there.

Everybody sees the same lines, arrivals and departures in the same order, and who is out of reach for a
moment. The chat is a group of clients: there is no agent and no code on the servers::

    quorate up examples/groups.xml
    python -m examples.presence alice
    python -m examples.presence bob

Type lines. Stop bob with Ctrl-Z: a few seconds later alice reads that bob is out of reach; with ``fg`` he is
back. End him: half a minute later he is gone, for everybody at the same place of the conversation.
"""

import sys
import threading

from quorate import QuorateClientError, connect
from quorate.groups import Group, GroupEvent, Membership, Message, Suspicion, Trust, View

URL = "quorate://localhost:2560,localhost:2561,localhost:2562"


def told(event: GroupEvent, names: dict[object, str]) -> str:
    """Return the line for an event. `names` has the names of all that were members so far."""
    if isinstance(event, View):
        names.update({each.id: each.label for each in event.members})
        came = [f"{each.label} is here" for each in event.joined]
        went = [f"{names.get(each.id, '?')} has gone ({reason})" for each, reason in event.left]
        return f"* {', '.join(came + went)}; {len(event.members)} in the room"
    if isinstance(event, Message):
        return f"{names.get(event.sender, '?')}: {event.payload.decode(errors='replace')}"
    if isinstance(event, Suspicion):
        return f"* {names[event.member.id]} is out of reach"
    if isinstance(event, Trust):
        return f"* {names[event.member.id]} is back"
    return ""


def show(membership: Membership) -> None:
    """Print what happens in the room, until this program leaves it."""
    names: dict[object, str] = {}
    try:
        for event in membership:
            print(told(event, names), flush=True)
    except QuorateClientError as error:
        print(f"* the room is closed: {error}", flush=True)


def main(arguments: list[str]) -> str | None:
    """Enter the room. Return what went wrong, None if nothing did."""
    if not 1 <= len(arguments) <= 2:
        return "usage: python -m examples.presence NAME [URL]"
    name, url = arguments[0], arguments[1] if arguments[1:] else URL
    try:
        with connect(url, user="root", password="root") as connection:
            room = Group(connection, "room")
            with room.join(label=name) as membership:
                threading.Thread(target=show, args=(membership,), daemon=True).start()
                for line in sys.stdin:
                    room.cast(line.rstrip("\n").encode())
    except QuorateClientError as error:
        return str(error)
    except KeyboardInterrupt:
        pass
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
