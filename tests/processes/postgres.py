"""A PostgreSQL server for a test, with nothing in it."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from quorate.server.processes.free_ports import free_ports

from .running import BOUND_S


def unavailable() -> str:
    """Why no server can be started here; "" if one can."""
    if shutil.which("psql") is None or not binary("initdb").exists():
        return "PostgreSQL is not installed: initdb, pg_ctl and psql are needed"
    if os.getuid() == 0 and account() is None:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


def binary(name: str) -> Path:
    """A program of the server, which need not be on the PATH itself."""
    found = shutil.which(name)
    if found is None:
        server = shutil.which("postgres")
        return Path(server).resolve().parent / name if server else Path("/nowhere")
    return Path(found)


def account() -> "pwd.struct_passwd | None":
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return None


@contextlib.contextmanager
def running(*settings: str) -> Iterator[str]:
    """Start a server with these settings, and stop it at the end; gives the address of its database."""
    # Not below the directory of the test: the user of the server may not look into that.
    place = Path(tempfile.mkdtemp(prefix="quorate-postgres-"))
    owner = account() if os.getuid() == 0 else None
    if owner is not None:
        os.chown(place, owner.pw_uid, owner.pw_gid)
    data, (port,) = place / "data", free_ports(1)

    def run(name: str, *arguments: object) -> None:
        subprocess.run(
            [binary(name), *map(str, arguments)],
            user=None if owner is None else owner.pw_uid,
            group=None if owner is None else owner.pw_gid,
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=BOUND_S,
            check=True,
        )

    options = f"-p {port} -k {place} -c listen_addresses=localhost -c fsync=off"
    options = " ".join([options, *(f"-c {each}" for each in settings)])
    try:
        run("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
        run("pg_ctl", "-D", data, "-o", options, "-l", place / "log", "-w", "start")
        try:
            yield f"postgresql://postgres@localhost:{port}/postgres"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def rows(address: str, query: str) -> list[str]:
    """What a query finds, one text for each row."""
    command = ["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", query, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=True)
    return done.stdout.split()
