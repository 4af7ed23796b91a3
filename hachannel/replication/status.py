"""Whether a replica serves in an active view: the states of its normal case. A leaf."""

from typing import ClassVar, Final, TypeAlias

import attrs


@attrs.frozen
class Waiting:
    """The replica serves in no view: it joins, or another view is to be agreed on."""

    serving: ClassVar[bool] = False
    leading: ClassVar[bool] = False
    unanimous: ClassVar[bool] = False


@attrs.frozen
class Serving:
    """The replica is a member of `accepted`, which is active, and has promised nothing above it."""

    since: float
    """When it began, in monotonic seconds."""
    leading: bool
    """The replica is the master."""
    unanimous: bool
    """The view commits only what all its members hold."""
    serving: ClassVar[bool] = True


@attrs.frozen
class Ended:
    """The replica has stopped: it sends and receives nothing any more."""

    serving: ClassVar[bool] = False
    leading: ClassVar[bool] = False
    unanimous: ClassVar[bool] = False


Status: TypeAlias = Waiting | Serving | Ended

WAITING: Final = Waiting()
ENDED: Final = Ended()
