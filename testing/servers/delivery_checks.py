"""Checks of what servers deliver to each other's agents, at every reaction of a simulation.

| invariant | |
|---|---|
| one reaction | the reactions of a server follow each other without gap |
| delivery | a server gets only what was sent to it, and nothing is a dead letter |
| once | an order is carried out once |
| FIFO | a server gets what another one has sent to it in the order of sending, each once, without gap |
| causal order | a server gets a notification after all that were sent to it in the causal past of that one |

The causal past is computed from the reactions alone, by what each server knows of the notifications that any
server has sent (Raynal, Schiper, Toueg: The causal ordering abstraction, 1991).
"""

from collections.abc import Callable

import attrs

from ...agents import Agent, Context, Notification, decode, reacts
from ...engine import Reaction

__all__ = ["Courier", "DeliveryChecker", "Dispatch", "Parcel"]

Life = tuple[int, int]
"""A server, and its birth: a server that has lost its state begins another life."""


@attrs.frozen
class Dispatch(Notification):
    """Order to send a parcel along a path of servers."""

    number: int
    path: list[int]


@attrs.frozen
class Parcel(Notification):
    """A parcel that has yet to visit these servers, one after the other."""

    number: int
    path: list[int]


@attrs.define
class Courier(Agent):
    """Sends parcels to the couriers of other servers, and passes on those that it gets."""

    sent: int = 0
    received: int = 0

    @reacts
    def dispatch(self, ctx: Context, note: Dispatch) -> None:
        """Send a parcel off."""
        self._send(ctx, note.number, note.path)

    @reacts
    def parcel(self, ctx: Context, note: Parcel) -> None:
        """Count a parcel, and pass it on."""
        self.received += 1
        if note.path:
            self._send(ctx, note.number, note.path)

    def _send(self, ctx: Context, number: int, path: list[int]) -> None:
        self.sent += 1
        ctx.send(f"courier@s{path[0]}", Parcel(number, path[1:]))


@attrs.define(eq=False)
class _Sent:
    source: Life
    target: int
    place: int
    """Counts what that life of the source has sent to the target, from 1."""
    past: dict[tuple[Life, int], int]
    """What was sent in its causal past: by (source, target) the last place."""


class DeliveryChecker:
    """Follows the reactions of the couriers of all servers."""

    def __init__(self, violation: Callable[[str, str], Exception], *, causal: bool) -> None:
        """`violation` makes an error of the name of an invariant and a text. `causal`: check that order."""
        self.delivered: dict[tuple[Life, int], int] = {}
        """The last place that any life of a target has got, by (source, target)."""
        self.sent: dict[tuple[Life, int], int] = {}
        """The last place that was sent, by (source, target)."""
        self.dispatched: set[int] = set()
        """The numbers of the parcels that were sent off."""
        self._violation = violation
        self._causal = causal
        self._reactions: dict[Life, int] = {}
        """The position of the last reaction of each life."""
        self._parcels: dict[tuple[int, int], _Sent] = {}
        """By number and length of the path that was left when it was sent."""
        self._knows: dict[Life, dict[tuple[Life, int], int]] = {}
        self._got: dict[tuple[Life, Life], int] = {}
        """By source and life of the target, the last place that it got."""
        self._births: dict[int, int] = {}

    def reacted(self, server: int, birth: int, reaction: Reaction) -> None:
        """Check a reaction of a server, the first time that one of its replicas has it."""
        place = self._reactions.get((server, birth), 0) + 1
        if reaction.position != place:
            raise self._violation("one reaction", f"reaction {place} of server {server} is left out")
        self._reactions[server, birth] = place
        self._births[server] = max(birth, self._births.get(server, 0))
        if reaction.kind == "react":
            self._new(server, birth, reaction)
        elif reaction.kind == "deadletter":
            raise self._violation("delivery", f"server {server} has a dead letter: {reaction}")

    def _new(self, server: int, birth: int, reaction: Reaction) -> None:
        here = (server, birth)
        if reaction.type == Dispatch.type_name:
            order = decode(Dispatch, reaction.payload)
            if order.number in self.dispatched:
                raise self._violation("once", f"parcel {order.number} was sent off twice")
            self.dispatched.add(order.number)
            self._send(here, order.number, order.path)
        elif reaction.type == Parcel.type_name:
            parcel = decode(Parcel, reaction.payload)
            sent = self._parcels.get((parcel.number, len(parcel.path)))
            if sent is None or sent.target != server or sent.source[0] != reaction.sender.host:
                raise self._violation("delivery", f"server {server} got what nobody sent: {parcel}")
            self._deliver(here, sent)
            if parcel.path:
                self._send(here, parcel.number, parcel.path)

    def _send(self, source: Life, number: int, path: list[int]) -> None:
        key = (source, path[0])
        place = self.sent[key] = self.sent.get(key, 0) + 1
        knows = self._knows.setdefault(source, {})
        past = dict(knows) if self._causal else {}
        self._parcels[number, len(path) - 1] = _Sent(source, path[0], place, past)
        knows[key] = place

    def _deliver(self, here: Life, sent: _Sent) -> None:
        source, place = sent.source, sent.place
        key = (source, here[0])
        got, most = self._got.get((source, here)), self.delivered.get(key, 0)
        # A new life of the target gets what no life before it had acknowledged.
        if not (place == got + 1 if got is not None else place <= most + 1):
            text = f"{source} to {here}: got {place} after {got}, of which {most} were got before"
            raise self._violation("FIFO", text)
        self._got[source, here] = place
        self.delivered[key] = max(most, place)
        if self._causal:
            self._check_past(here, sent)
            knows = self._knows.setdefault(here, {})
            for pair, last in [*sent.past.items(), (key, place)]:
                knows[pair] = max(knows.get(pair, 0), last)

    def _check_past(self, here: Life, sent: _Sent) -> None:
        for (source, target), last in sent.past.items():
            if target != here[0] or self._births[source[0]] != source[1]:
                continue  # What a lost state had not delivered may be lost with it.
            if self.delivered.get((source, target), 0) < last:
                text = (
                    f"server {target} got {sent.place} of {sent.source} before {last} of {source}, which was "
                    "sent earlier"
                )
                raise self._violation("causal order", text)

    def outstanding(self) -> dict[tuple[Life, int], int]:
        """Return how much was sent by servers that still live and not delivered, by (source, target)."""
        return {
            key: last - self.delivered.get(key, 0)
            for key, last in self.sent.items()
            if last > self.delivered.get(key, 0) and self._births[key[0][0]] == key[0][1]
        }
