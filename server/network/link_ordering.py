"""The order of a domain, in the hellos of its servers: both ends of a connection must have the same."""

from collections.abc import Mapping
from typing import Any, Final

from .hello import refusal

__all__ = ["CAUSAL", "check_ordering", "ordering_field"]

CAUSAL: Final = "causal"
FIFO: Final = "fifo"


def ordering_field(causal: bool) -> dict[str, str]:
    """Return the field of a hello: none for FIFO order."""
    return {"ordering": CAUSAL} if causal else {}


def check_ordering(peer: int, here: int, fields: Mapping[str, Any], causal: bool) -> None:
    """Raise ProtocolError if the hello of server `peer` names another order than this server has."""
    theirs, ours = fields.get("ordering", FIFO), CAUSAL if causal else FIFO
    if theirs != ours:
        raise refusal(
            f"Server {peer} has the order {str(theirs)[:20]!r} in the domain that connects it with server "
            f"{here}, which has {ours!r}: start both with the same file."
        )
