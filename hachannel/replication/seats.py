"""The replicas that belong to the cluster, as one replica knows them. No clock, no output."""

from ..model.view import NO_VIEW, Seat, View, ViewNumber, watching


class Seats:
    """The seats of the last view accepted, or heard of from outside; and those that leave with it."""

    def __init__(self, me: int, configured: tuple[Seat, ...], accepted: View | None) -> None:
        """me: this replica's id. configured: the seats of its file. accepted: the view on its disk."""
        self._me = me
        self._configured = configured
        self._departing: tuple[Seat, ...] = ()
        """Seats of the view before, whose voters may be needed until the one accepted is active."""
        self.as_of = NO_VIEW
        """The view that has these seats; NO_VIEW while they are the configured ones."""
        self.listed: tuple[Seat, ...] = ()
        self.witnesses: frozenset[int] = frozenset()
        """Replica ids of the seats that vote and hold no log."""
        self.witness = False
        """This replica is a witness: it accepts no view and proposes none, it only promises and records."""
        self.unlisted = False
        """The master said that this replica does not belong to the cluster."""
        self._list(configured)
        if accepted is not None and accepted.seats:
            self._list(accepted.seats)
            self.as_of = accepted.number

    def _list(self, seats: tuple[Seat, ...]) -> None:
        """Replace the seats. A replica that has none is a witness if it was configured to be one."""
        self.listed = seats
        self.witnesses = watching(seats)
        listed = any(seat.replica == self._me for seat in seats)
        self.witness = self._me in (self.witnesses if listed else watching(self._configured))

    @property
    def connected(self) -> tuple[Seat, ...]:
        """The seats to be connected with, this replica's own included."""
        return (*self.listed, *self._departing)

    @property
    def others(self) -> list[int]:
        """The replica ids to be connected with."""
        return sorted({seat.replica for seat in self.connected} - {self._me})

    def replace(self, number: ViewNumber, seats: tuple[Seat, ...], *, active: bool = False) -> bool:
        """Learn the seats of a view; return whether they, or those to be connected with, have changed.

        Until the view is active the votes of the seats that leave with it may be needed.
        """
        if not seats or number < self.as_of:
            return False
        first, self.as_of = self.as_of == NO_VIEW, number
        if not first and seats == self.listed:
            return False
        stay = {seat.replica for seat in seats}
        leave = () if active else (*self._departing, *self.listed)
        self._departing = tuple(seat for seat in leave if seat.replica not in stay)
        self._list(seats)
        return True

    def settle(self) -> bool:
        """Forget the seats that leave, once the view is active; return whether there were any."""
        had, self._departing = bool(self._departing), ()
        return had
