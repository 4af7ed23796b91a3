"""Service classes: their names in a configuration, their arguments, and whether they can be imported."""

import importlib
import ipaddress

from ...agents.origin import raised_at
from .imports import import_problem, one_line
from .joram import ALIASES, is_encrypted, is_java
from .report import quoted, suggestion
from .servers import (
    AMQP_SERVICE,
    CONNECTION_MANAGER,
    HTTP_SERVICE,
    MESH_SERVICE,
    PORT_SERVICES,
    STOMP_SERVICE,
    TCP_PROXY_SERVICE,
)

BUILT_IN = {
    CONNECTION_MANAGER: "ConnectionManager",
    TCP_PROXY_SERVICE: "TcpProxyService",
    MESH_SERVICE: "MeshService",
    STOMP_SERVICE: "StompService",
    AMQP_SERVICE: "AmqpService",
    HTTP_SERVICE: "HttpService",
}
_BY_SHORT_NAME = {short: name for name, short in BUILT_IN.items()}


def resolve(declared: str) -> str | None:
    """Return ``module:Class`` for a ``class`` attribute.

    The attribute may be an alias, the short name of a built-in service, or ``module.Class``.

    None if the text is not the name of a class.
    """
    if declared in ALIASES:
        return ALIASES[declared]
    return _BY_SHORT_NAME.get(declared) or class_name_of(declared)


def class_name_of(declared: str) -> str | None:
    """Return ``module:Class`` for that text or ``module.Class``; None if it is not the name of a class."""
    module, colon, name = declared.partition(":")
    if not colon:
        module, _, name = declared.rpartition(".")
    parts = [*module.split("."), *name.split(".")]
    return f"{module}:{name}" if all(part.isidentifier() for part in parts) else None


def class_problem(declared: str, check_import: bool) -> str | None:
    """Return what is wrong with the text of a ``class`` attribute, as one sentence; None if it is a service.

    check_import: import the class, unless it is built in.
    """
    class_name = resolve(declared)
    if class_name in BUILT_IN:
        return None
    if is_java(declared) and is_encrypted(declared):
        return (
            f"{quoted(declared)} encrypts its connections; declare TcpProxyService instead, which does so "
            "with the properties tls_certificate, tls_key and tls_ca."
        )
    if is_java(declared):
        return f"{quoted(declared)} is a Java service that Quorate does not have{_services_hint(declared)}"
    if class_name is None:
        return (
            f"{quoted(declared)} is not the name of a class; write package.module:Class"
            f"{_services_hint(declared)}"
        )
    return _class_import_problem(class_name) if check_import else None


def _services_hint(declared: str) -> str:
    """Return the end of a sentence: the built-in service with a similar name, or all of them."""
    # A service without encryption is no replacement for one with it.
    names = [] if is_encrypted(declared) else list(BUILT_IN.values())
    near = suggestion(declared.replace(":", ".").rpartition(".")[2], names)
    *others, last = BUILT_IN.values()
    return near or f"; the built-in services are {', '.join(others)} and {last}."


def _class_import_problem(class_name: str) -> str | None:
    """Import a class as a server would, and return why it cannot serve; None if it can."""
    from ...services.base import Service

    module_name, _, qualname = class_name.partition(":")
    problem = import_problem(module_name)
    if problem:
        return f"the service {class_name} cannot be imported: {problem}."
    try:
        found: object = importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        return f"the service {class_name} cannot be used: {one_line(error)}; correct the name of the class."
    except Exception as error:  # a module with a __getattr__ of its own
        where = raised_at(error)
        return f"the service {class_name} cannot be used: {type(error).__name__}: {one_line(error)}{where}."
    if not (isinstance(found, type) and issubclass(found, Service)):
        return f"{class_name} is not a service; make it a subclass of quorate.services.base.Service."
    flaw = found.class_flaw()
    return f"the service {class_name} cannot start: {flaw}." if flaw else None


def args_problem(class_name: str, args: str) -> str | None:
    """Return what is wrong with the args of a built-in service, as one sentence; None if nothing is."""
    words = args.split()
    if class_name in PORT_SERVICES and port_of(words[0] if words else "") is None:
        name = BUILT_IN[class_name]
        if not words:
            return f'{name} needs the port clients connect to; write args="2560".'
        return (
            f"the args of {name} must begin with a port from 1 to 65535, which clients know, "
            f"not {quoted(words[0])}."
        )
    if class_name == TCP_PROXY_SERVICE and (len(words) > 2 or (words[1:] and not _idle_timeout(words[1]))):
        return 'TcpProxyService takes a port and an idle timeout in seconds, no more; write args="2560 60".'
    if class_name == MESH_SERVICE and len(words) > 1:
        return 'MeshService takes a port, no more; write args="2560".'
    if class_name == HTTP_SERVICE and (len(words) > 2 or (words[1:] and not _is_address(words[1]))):
        return (
            "HttpService takes a port and the address of an interface to listen on, no more; "
            'write args="9464", for this host only, or args="9464 0.0.0.0".'
        )
    if class_name == CONNECTION_MANAGER:
        if len(words) % 2:
            return 'ConnectionManager needs pairs of user and password; write args="user password".'
        if len(set(words[::2])) < len(words) // 2:
            return "a user is declared twice in the args of ConnectionManager; keep one."
    return None


def _idle_timeout(text: str) -> bool:
    return number_of(text, 1, 10**7) is not None


def port_of(text: str) -> int | None:
    """Return the port that a text names, None if it is not a whole number from 1 to 65535."""
    return number_of(text, 1, 65535)


def number_of(text: str, low: int, high: int) -> int | None:
    """Return the decimal number that a text names, None if it is not one from `low` to `high`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    return number if low <= (number := int(text)) <= high else None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
