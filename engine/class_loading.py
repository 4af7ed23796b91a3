"""Finding the class of an agent by its name."""

import importlib
import re
from typing import Final

from ..agents import Agent, AgentError, AgentSpec, agent_spec

__all__ = ["load_class"]

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


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
            f"module {error.name} cannot be found; put its directory on the PYTHONPATH of every replica"
        ) from error
    except (Exception, SystemExit) as error:
        raise AgentError(f"importing {module_name} failed: {type(error).__name__}: {error}") from error
    for part in path.split("."):
        holder, found = found, getattr(found, part, None)
        if found is None:
            raise AgentError(
                f"{getattr(holder, '__name__', holder)} has no {part}, so there is no {class_name}; if it "
                "was added while this server ran, start the server again, for a module is read only once"
            )
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise AgentError(f"{class_name} is not an agent class; derive it from quorate.Agent")
    return agent_spec(found)
