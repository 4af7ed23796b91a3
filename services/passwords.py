"""Passwords as they are kept: hashed with scrypt, and the file that holds those of the users of a server."""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from ..text_files import read_text, write_private

__all__ = ["UserEntry", "hash_password", "matches", "read_users", "write_users"]

LOG_N: Final = 14
BLOCK: Final = 8
PARALLEL: Final = 1
"""The cost of a hash: 16 MiB, and some 40 ms of a processor."""
MAX_LOG_N: Final = 17
MAX_BLOCK: Final = 16
MAX_PARALLEL: Final = 4
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
SCHEME: Final = "scrypt"
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
HEAD: Final = "# Users, a line each: name, hash of the password, groups. `quorate passwd` writes this file.\n"


@attrs.frozen
class UserEntry:
    """One user of a file."""

    hashed: str
    """The hash of the password, from `hash_password`."""
    groups: tuple[str, ...] = ()


def hash_password(password: str) -> str:
    """Return what is kept of a password: scheme, cost, a random salt and the hash."""
    salt = os.urandom(SALT_BYTES)
    hashed = _scrypt(password, salt, LOG_N, BLOCK, PARALLEL)
    return f"{SCHEME}:{LOG_N}:{BLOCK}:{PARALLEL}:{_text(salt)}:{_text(hashed)}"


def matches(hashed: str, password: str) -> bool:
    """Return whether this is the password. It takes some 40 ms and 16 MiB. Raises ValueError for no hash."""
    log_n, block, parallel, salt, wanted = _parts(hashed)
    return hmac.compare_digest(_scrypt(password, salt, log_n, block, parallel), wanted)


def _scrypt(password: str, salt: bytes, log_n: int, block: int, parallel: int) -> bytes:
    n = 1 << log_n
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"),
        salt=salt,
        n=n,
        r=block,
        p=parallel,
        maxmem=129 * block * (n + parallel + 2),
        dklen=HASH_BYTES,
    )


def _parts(hashed: str) -> tuple[int, int, int, bytes, bytes]:
    parts = hashed.split(":")
    if len(parts) != 6 or parts[0] != SCHEME:
        raise ValueError("it is no hash of a password")
    try:
        log_n, block, parallel = map(int, parts[1:4])
        salt, wanted = (base64.b64decode(part, validate=True) for part in parts[4:])
    except (ValueError, binascii.Error):
        raise ValueError("it is no hash of a password") from None
    if not (1 <= log_n <= MAX_LOG_N and 1 <= block <= MAX_BLOCK and 1 <= parallel <= MAX_PARALLEL):
        raise ValueError("the hash of the password has a cost that is not allowed")
    if len(wanted) != HASH_BYTES:
        raise ValueError("it is no hash of a password")
    return log_n, block, parallel, salt, wanted


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read_users(path: Path) -> dict[str, UserEntry]:
    """Read a file of users. Raises OSError, or ValueError with a sentence that names the line."""
    text = read_text(path, MAX_FILE_BYTES)
    found: dict[str, UserEntry] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2:
            raise ValueError(f"line {number} has no hash of a password")
        try:
            _parts(words[1])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if words[0] in found:
            raise ValueError(f"line {number}: the user {words[0]!r} is there twice")
        found[words[0]] = UserEntry(words[1], tuple(words[2:]))
    return found


def write_users(path: Path, users: Mapping[str, UserEntry]) -> None:
    """Write a file of users in the place of the former one, for its owner only. Raises OSError."""
    lines = [" ".join((name, each.hashed, *each.groups)) + "\n" for name, each in sorted(users.items())]
    write_private(path, HEAD + "".join(lines))
