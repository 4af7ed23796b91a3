"""The standard output and error of commands: any character can be written, and a failed output is dropped."""

import codecs
import contextlib
import encodings.ascii
import io
import os
import sys
from typing import TextIO, cast

__all__ = ["drop_output", "escape_unencodable"]

_ESCAPE = "quorate.escape"
_ASCII = "quorate_ascii"
"""ASCII under a name that click does not know: what it knows as ASCII it would write as UTF-8."""


def escape_unencodable() -> None:
    r"""Make the standard output and error write a character that their encoding lacks as ``\u65e5``.

    JSON has the same escapes, so escaped JSON stays JSON.
    """
    codecs.register_error(_ESCAPE, _escaped)
    codecs.register(_find_codec)
    # None: the parent process has closed it.
    for stream in cast("tuple[TextIO | None, ...]", (sys.stdout, sys.stderr)):
        if isinstance(stream, io.TextIOWrapper):
            _reconfigure(stream)  # pyright: ignore[reportUnknownArgumentType]


def _reconfigure(stream: io.TextIOWrapper) -> None:
    name = codecs.lookup(stream.encoding).name
    own = stream.errors in ("strict", "backslashreplace")
    lenient = stream.errors == "surrogateescape" and name != "utf-8"
    # Other ways to handle errors were asked for by the user.
    errors = _ESCAPE if own or lenient else stream.errors
    stream.reconfigure(encoding=_ASCII if name == "ascii" else None, errors=errors)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


def _find_codec(name: str) -> codecs.CodecInfo | None:
    if name != _ASCII:
        return None
    ascii_codec = encodings.ascii.getregentry()
    return codecs.CodecInfo(
        name=_ASCII,
        encode=ascii_codec.encode,
        decode=ascii_codec.decode,
        incrementalencoder=ascii_codec.incrementalencoder,
        incrementaldecoder=ascii_codec.incrementaldecoder,
    )


def drop_output() -> None:
    """Redirect the standard output to nowhere, so that buffered text does not raise again at exit."""
    # AttributeError: the process has no standard output.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
