"""Service classes: the names a configuration may use for them, their args, whether they can be imported."""

import contextlib
import importlib
import sys

from .model import CONNECTION_MANAGER, TCP_PROXY_SERVICE
from .report import quoted, suggestion

BUILT_IN = {
    CONNECTION_MANAGER: "ConnectionManager",
    TCP_PROXY_SERVICE: "TcpProxyService",
}

ALIASES = {
    "org.objectweb.joram.mom.proxies.ConnectionManager": CONNECTION_MANAGER,
    "org.objectweb.joram.mom.proxies.tcp.TcpProxyService": TCP_PROXY_SERVICE,
}

_JAVA = ("org.objectweb.", "org.ow2.", "fr.dyade.", "com.scalagent.", "java.", "javax.")


def resolve(declared: str) -> str | None:
    """``module:Class`` for the text of a ``class`` attribute, which may be an alias or ``module.Class``."""
    if declared in ALIASES:
        return ALIASES[declared]
    module, colon, name = declared.partition(":")
    if not colon:
        module, _, name = declared.rpartition(".")
    parts = [*module.split("."), *name.split(".")]
    return f"{module}:{name}" if all(part.isidentifier() for part in parts) else None


def class_problem(declared: str, check_import: bool) -> str | None:
    """What is wrong with the text of a ``class`` attribute, as one sentence; None if it names a service."""
    class_name = resolve(declared)
    if class_name in BUILT_IN:
        return None
    if declared.startswith(_JAVA):
        return f"{quoted(declared)} is a Java service that Quorate does not have{_known(declared)}."
    if class_name is None:
        return f"{quoted(declared)} is not the name of a class; write package.module:Class{_known(declared)}."
    return _import_problem(class_name) if check_import else None


def _known(declared: str) -> str:
    names = list(ALIASES)
    near = suggestion(
        declared.replace(":", ".").rpartition(".")[2], [name.rpartition(".")[2] for name in names]
    )
    return near or f"; the services it has are {' and '.join(BUILT_IN.values())}"


def _import_problem(class_name: str) -> str | None:
    """Import the class as a server would. The code is the user's: whatever it raises is an answer."""
    from ...services.base import Service

    module_name, _, qualname = class_name.partition(":")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found: object = importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(missing + "."):
            return (
                f"the service {class_name} is unknown: there is no module {missing!r} here; "
                "install it, or run quorate in the directory that holds it."
            )
        return f"the service {class_name} cannot be imported: it needs the module {missing!r}; install it."
    except AttributeError as error:
        return f"the service {class_name} cannot be used: {_one_line(error)}; correct the name of the class."
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit of a script without a guard, too.
        kind = type(error).__name__
        return f"the service {class_name} cannot be imported: {kind}: {_one_line(error)}; mend its module."
    if not (isinstance(found, type) and issubclass(found, Service)):
        return f"{class_name} is not a service; make it a subclass of quorate.services.base.Service."
    return None


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= 200 else text[:197] + "..."


def args_problem(class_name: str, args: str) -> str | None:
    """What is wrong with the args of a built-in service, as one sentence."""
    words = args.split()
    if class_name == TCP_PROXY_SERVICE and port_of(words[0] if words else "") is None:
        if not words:
            return 'TcpProxyService needs the port clients connect to; write args="2560".'
        return f"the args of TcpProxyService must begin with a port from 1 to 65535, not {quoted(words[0])}."
    if class_name == TCP_PROXY_SERVICE and (len(words) > 2 or (words[1:] and not _idle_timeout(words[1]))):
        return 'TcpProxyService takes a port and an idle timeout in seconds, no more; write args="2560 60".'
    if class_name == CONNECTION_MANAGER:
        if not words or len(words) % 2:
            return 'ConnectionManager needs pairs of user and password; write args="user password".'
        if len(set(words[::2])) < len(words) // 2:
            return "a user stands twice in the args of ConnectionManager; keep one."
    return None


def _idle_timeout(text: str) -> bool:
    return number_of(text, 1, 10**7) is not None


def port_of(text: str) -> int | None:
    """The port a text names, None if it is not a whole number from 1 to 65535."""
    return number_of(text, 1, 65535)


def number_of(text: str, low: int, high: int) -> int | None:
    """The decimal number a text names, None if it is none or outside low..high."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    return number if low <= (number := int(text)) <= high else None
