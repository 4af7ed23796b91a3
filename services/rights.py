"""The rights of users, from a file that is read again when it has changed."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ..agents.rights import Grant, Rights, parse_rights
from ..text_files import read_text, reason
from ..tls.files import stamp
from .base import ServiceError

__all__ = ["RIGHTS_FILE_PROPERTY", "RightsFile"]

RIGHTS_FILE_PROPERTY: Final = "rights_file"
MAX_BYTES: Final = 1024 * 1024


class RightsFile:
    """A file with the rights of users. Without one, everybody may do everything."""

    def __init__(self, file: str, log: Callable[[str], None]) -> None:
        """Raises ServiceError for a file that cannot be read."""
        self._path = Path(file) if file else None
        self._log = log
        self._rights = Rights()
        self._stamp: tuple[int, int, int] | None = None
        self._problem = ""
        if self._path is not None:
            try:
                self._read(self._path)
            except (OSError, ValueError) as error:
                raise ServiceError(f"the file of rights {file} cannot be read: {reason(error)}") from None

    def of(self, user: str, groups: Iterable[str]) -> list[Grant] | None:
        """Return the rows that concern a user; None if there is no file."""
        return None if self._path is None else list(self._rights.of(user, groups))

    def refresh(self) -> bool:
        """Read the file again if it has changed, and return whether it has. A wrong one changes nothing."""
        if self._path is None:
            return False
        try:
            if stamp(self._path) == self._stamp:
                return False
            self._read(self._path)
        except (OSError, ValueError) as error:
            problem = (
                f"the file of rights {self._path} cannot be read, and the former rights stay: {reason(error)}"
            )
            if problem != self._problem:
                self._problem = problem
                self._log(problem)
            return False
        self._problem = ""
        self._log(f"the rights of {self._path} were read again: {len(self._rights.rows)} rows")
        return True

    def _read(self, path: Path) -> None:
        self._stamp = stamp(path)
        self._rights = parse_rights(read_text(path, MAX_BYTES))
