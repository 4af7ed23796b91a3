"""Import of the class of a service by its name."""

import importlib
from typing import Any

from ...services.base import Service

__all__ = ["load_service"]


def load_service(class_name: str) -> type[Service]:
    """Import ``module:Class``. Raises ImportError, AttributeError or TypeError."""
    module_name, _, qualified = class_name.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, Service)):
        raise TypeError(f"{class_name} is not a service: derive it from quorate.services.Service")
    return found
