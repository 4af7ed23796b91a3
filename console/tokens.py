"""The file of tokens, with which programs use the HTTP API. A token is shown once; the file has its hash."""

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from ..text_files import read_text, write_private

__all__ = ["PREFIX", "SCOPES", "Token", "hash_token", "new_token", "read_tokens", "write_tokens"]

PREFIX: Final = "quorate_"
"""All tokens begin so: programs that look for secrets in texts find them."""
SCOPES: Final = ("all", "read")
NEVER: Final = "never"
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
HEAD: Final = "# Tokens, a line each: name, scope, end, hash. `quorate token` writes this file.\n"


@attrs.frozen
class Token:
    """One token of a file."""

    hashed: str
    scope: str
    """``all``, or ``read`` for one that changes nothing."""
    expires: datetime | None = None

    def expired(self, now: datetime) -> bool:
        """Return whether it is not valid any more."""
        return self.expires is not None and now >= self.expires


def new_token() -> str:
    """Return a token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return what is kept of a token. It is random, so that a fast hash is enough."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def read_tokens(path: Path) -> dict[str, Token]:
    """Read a file of tokens, by name. Raises OSError, or ValueError with a sentence that names the line."""
    found: dict[str, Token] = {}
    for number, line in enumerate(read_text(path, MAX_FILE_BYTES).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 4:
            raise ValueError(f"line {number} has not name, scope, end and hash")
        name, scope, end, hashed = words
        if scope not in SCOPES:
            raise ValueError(f"line {number}: the scope is {scope!r}, not {' or '.join(SCOPES)}")
        if len(hashed) != 64 or set(hashed) - set("0123456789abcdef"):
            raise ValueError(f"line {number} has no hash of a token")
        if name in found:
            raise ValueError(f"line {number}: the token {name!r} is there twice")
        found[name] = Token(hashed, scope, _end(number, end))
    return found


def _end(number: int, text: str) -> datetime | None:
    if text == NEVER:
        return None
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"line {number}: {text!r} is no time") from None
    return end if end.tzinfo is not None else end.replace(tzinfo=UTC)


def write_tokens(path: Path, tokens: Mapping[str, Token]) -> None:
    """Write a file of tokens in the place of the former one, for its owner only. Raises OSError."""
    lines = [
        f"{name} {each.scope} {each.expires.isoformat() if each.expires else NEVER} {each.hashed}\n"
        for name, each in sorted(tokens.items())
    ]
    write_private(path, HEAD + "".join(lines))
