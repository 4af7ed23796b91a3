"""Loading of agent classes, by module and by name."""

import importlib
import re
from collections.abc import Callable
from typing import Final

import attrs

from ..agents import (
    Agent,
    AgentError,
    AgentSpec,
    agent_definitions,
    agent_named,
    agent_spec,
    agent_upgrading,
    agent_versions,
    defined_agents,
)
from ..agents.names import split_name
from ..agents.origin import raised_at
from .error_text import located, reason_of

__all__ = ["Program", "Unloadable", "import_modules", "load_class", "stored_class"]

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Unloadable(RuntimeError):
    """Raised when an entry creates an agent whose class this replica cannot load.

    The master has loaded the class before the entry was submitted. A replica that answered otherwise than the
    others would differ from them, so it must stop.
    """

    def __init__(self, class_name: str, error: BaseException) -> None:
        """`error` is the one that loading the class has raised."""
        super().__init__(
            f"it creates an agent of class {class_name}, which this replica cannot load: "
            f"{reason_of(error)}. Then start this replica again"
        )


def load_class(class_name: str) -> AgentSpec:
    """Import ``module:Class`` and examine it.

    Raises AgentError with one sentence: the module cannot be imported, has no such class, or the class
    cannot be an agent.
    """
    if _NAME.fullmatch(class_name) is None:
        raise AgentError(
            f"{class_name!r} is not a class name; write it as module:Class, like examples.bank:Account"
        )
    module_name, _, path = class_name.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise AgentError(
            f"module {error.name} cannot be found{raised_at(error)}; put its directory on the PYTHONPATH of "
            "every replica"
        ) from error
    except (Exception, SystemExit) as error:
        raise AgentError(f"importing {module_name} failed: {located(error)}; correct the module") from error
    for part in path.split("."):
        holder = found
        try:
            found = getattr(found, part, None)
        except (Exception, SystemExit) as error:  # a module may have a __getattr__ of its own
            raise AgentError(f"{class_name} cannot be used: {located(error)}; correct the module") from error
        if found is None:
            raise AgentError(
                f"{getattr(holder, '__name__', holder)} has no {part}, so there is no {class_name}; if it "
                "was added while this server ran, start the server again, for a module is read only once"
            )
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise AgentError(f"{class_name} is not an agent class; derive it from quorate.Agent")
    return agent_spec(found)


@attrs.frozen
class Program:
    """The agent classes of a process: how they are found by location, name and version."""

    load: Callable[[str], AgentSpec] = load_class
    """Imports ``module:Class``, see `load_class`."""
    named: Callable[[str], type[Agent] | None] = agent_named
    upgrading: Callable[[str], type[Agent] | None] = agent_upgrading
    defined: Callable[[], dict[str, list[int]]] = defined_agents
    definitions: Callable[[], int] = agent_definitions
    """These four: see the functions of the same names in `quorate.agents`."""


def import_modules(modules: tuple[str, ...]) -> None:
    """Import modules whose agent classes are to be found by their names.

    Raises AgentError with one sentence if one cannot be imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            raise AgentError(f"importing {module} failed: {located(error)}") from error


def stored_class(program: Program, name: str, location: str) -> AgentSpec:
    """Return the class of a stored or traced agent.

    `name` is the recorded name of the class, `location` the recorded ``module:Class``, "" if that is the
    name. A class that was given the name is found wherever it stands, if its module is imported already;
    otherwise it is imported from its location. If there is no such class then, it is one that has upgrades
    from that name.
    Raises AgentError with one sentence: the class cannot be loaded, has another name now, or is of another
    version without upgrades from the stored one.
    """
    named = program.named(name)
    if named is not None:
        return agent_spec(named)
    source = location or name
    try:
        spec = program.load(source)
    except AgentError as error:
        named = program.named(name) or program.upgrading(name)
        if named is not None:
            return agent_spec(named)
        former = "" if location else f" and list also=({name!r},) in the class"
        raise AgentError(
            f"the class of {name} cannot be loaded from {source}: {error}. If it has moved, name its module "
            f"in the property agent_modules{former}"
        ) from error
    # The import may have defined the class under this name elsewhere, such as the one kept from a release.
    named = program.named(name) or (None if name in spec.names else program.upgrading(name))
    if named is not None:
        return agent_spec(named)
    if name not in spec.names and name not in spec.former:
        _check_version(name)
        raise AgentError(
            f"{source} is called {spec.name}, and the stored agent is a {name}: list also=({name!r},) in the "
            "class if it can load such a state, or give it its former name again"
        )
    return spec


def _check_version(name: str) -> None:
    """Raise AgentError if this process has other versions of a stored class than the one of that name."""
    parts = split_name(name)
    versions = {} if parts is None else agent_versions(parts[0])
    if parts is None or not versions:
        return
    base, stored = parts
    latest, cls = max(versions.items())
    where = agent_spec(cls).location
    if stored > latest:
        raise AgentError(
            f"the stored agent is a {name}, and {where} is version {latest} of {base}: this code is older "
            f"than the state; start code that has version {stored}"
        )
    raise AgentError(
        f"the stored agent is a {name}, and {where} is version {latest} of {base} and has no upgrade from "
        f"version {stored}: add a static method @upgrades(from_version={stored}) to the class, or list "
        f"also=({name!r},) in it if such a state fits as it is"
    )
