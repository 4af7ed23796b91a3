"""What a client says of the source of a link: which messages it wants, and how long they are kept for it."""

from typing import Any, Final, cast

import attrs

from ...messaging.agents.settings import Kind
from ...messaging.client.consumer import ConsumerOptions
from ...messaging.client.destinations import Destination, Topic
from .addresses import kind_of, parse_address
from .engine import Array, Data, Described, Terminus, is_map, symbol, ulong

__all__ = ["GLOBAL", "Source", "capabilities", "read_source", "subscription_name"]

SHARED: Final = "shared"
GLOBAL: Final = "global"
"""A shared subscription that belongs to no client."""
SELECTOR: Final = (symbol("apache.org:selector-filter:string"), ulong(0x0000468C00000004))
NO_LOCAL: Final = (symbol("apache.org:no-local-filter:list"), ulong(0x0000468C00000003))


@attrs.frozen
class Source:
    """What a client wants to receive."""

    destination: Destination
    options: ConsumerOptions
    browses: bool
    filters: dict[Any, Any]
    """Those that are applied."""


def objects(data: Any) -> Any:
    """Return what Proton's data hold."""
    if not isinstance(data, Data):
        return data
    data.rewind()
    return data.get_object() if data.next() is not None else None


def capabilities(data: Any) -> list[str]:
    """Return capabilities, which are one symbol, several, or none."""
    found = objects(data)
    if isinstance(found, Array | list | tuple):
        return [str(each) for each in cast("list[Any]", found)]
    return [] if found is None else [str(found)]


def subscription_name(link_name: str) -> str:
    """Return the name of a subscription: a client tells several links of a shared one apart behind a bar."""
    return link_name.partition("|")[0]


def read_source(source: Any, link_name: str, client_id: str, temporary: Destination | None = None) -> Source:
    """Return what a client wants to receive. Raises ValueError.

    temporary: the destination that was made for the client, where its source has no address.
    """
    wanted = capabilities(source.capabilities)
    destination = temporary or parse_address(source.address or "", kind_of(wanted))
    found = objects(source.filter)
    given = found if is_map(found) else {}
    filters: dict[Any, Any] = {}
    selector, no_local = "", False
    for key, value in given.items():
        if not isinstance(value, Described):
            continue
        if value.descriptor in SELECTOR:
            selector = str(value.value)
        elif value.descriptor in NO_LOCAL:
            no_local = True
        else:
            continue
        filters[key] = value
    browses = source.distribution_mode == Terminus.DIST_MODE_COPY and destination.kind == Kind.QUEUE
    durable = shared = ""
    if isinstance(destination, Topic):
        name = subscription_name(link_name)
        durable = name if source.durability != Terminus.NONDURABLE else ""
        shared = name if SHARED in wanted else ""
    options = ConsumerOptions(
        selector=selector,
        durable=durable,
        shared=shared,
        client_id=client_id if (durable or shared) and GLOBAL not in wanted else "",
        no_local=no_local and isinstance(destination, Topic),
        window=0,
    )
    return Source(destination, options, browses, filters)
