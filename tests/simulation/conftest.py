"""The mutants as a fixture: this directory is no package."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mutants():
    path = Path(__file__).with_name("mutants.py")
    spec = importlib.util.spec_from_file_location("channel_mutants", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
