"""The command `quorate`, called in the process of a test."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from quorate.__main__ import cli


def quorate(*words: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(cli, [*map(str, words)])


def roles(config: Path) -> dict[int, str]:
    """Return the roles of the replicas of the first server, by their ids."""
    found = json.loads(quorate("status", config, "--json", "--wait", "0").stdout)
    return {each["replica"]: each["role"] for each in found["servers"][0]["replicas"]}
