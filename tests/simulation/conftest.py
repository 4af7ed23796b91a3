"""The mutants as a fixture: this directory is no package."""

from pathlib import Path

import pytest

from quorate.testing import mutation


@pytest.fixture(scope="session")
def mutants():
    mutation.load(sorted(Path(__file__).parent.glob("mutants_*.py")))
    return mutation.MUTANTS
