"""A subscription of a client: which messages it has and has not acknowledged. No I/O."""

from typing import Final

import attrs

__all__ = ["AUTO", "CLIENT", "INDIVIDUAL", "Subscription"]

AUTO: Final = "auto"
"""A message counts as done with when it is sent."""
CLIENT: Final = "client"
"""An ACK acknowledges a message and all before it."""
INDIVIDUAL: Final = "client-individual"
"""An ACK acknowledges one message."""


@attrs.define
class Subscription:
    """One subscription."""

    name: str
    """Its header ``id``; in version 1.0 without one its destination."""
    destination: str
    mode: str = AUTO
    named: bool = True
    """The client has given an id."""
    unsettled: dict[int, str] = attrs.field(factory=dict[int, str])
    """Message ids by the numbers that the destination has given, in the order of delivery."""
    _numbers: dict[str, int] = attrs.field(factory=dict[str, int])

    def delivered(self, number: int, message_id: str) -> None:
        """Remember a message that has to be settled."""
        self.unsettled[number] = message_id
        self._numbers[message_id] = number

    def number_of(self, message_id: str) -> int | None:
        """Return the number of a message that is not settled."""
        return self._numbers.get(message_id)

    def take(self, number: int) -> tuple[int, ...]:
        """Remove what an ACK or NACK of a message concerns: in mode ``client`` all up to it. Return it."""
        if number not in self.unsettled:
            return ()
        taken = [number]
        if self.mode == CLIENT:
            taken.clear()
            for each in self.unsettled:
                taken.append(each)
                if each == number:
                    break
        for each in taken:
            self._numbers.pop(self.unsettled.pop(each), None)
        return tuple(taken)

    def give_back(self, messages: dict[int, str]) -> None:
        """Remember messages again, which a transaction had acknowledged."""
        merged = sorted({**self.unsettled, **messages}.items())
        self.unsettled = dict(merged)
        self._numbers = {message_id: number for number, message_id in merged}
