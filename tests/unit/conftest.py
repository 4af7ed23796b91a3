"""An authority, and certificates that it signs, in files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quorate.tls import TlsFiles
from quorate.tls.authority import Authority


class Certificates:
    """Makes certificates in a directory, of one authority or of others."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.late = timedelta(0)
        self.ca = self.authority("ca")

    def authority(self, name: str) -> Authority:
        place = self.directory
        return Authority.create(place / f"{name}.pem", place / f"{name}.key", name, self.now)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.late

    def server(self, name: str, *hosts: str, by: Authority | None = None, days: int = 10) -> TlsFiles:
        (by or self.ca).server(self.path(name), self.path(name, "key"), name, hosts, days)
        return TlsFiles(self.path(name), self.path(name, "key"), self.path("ca"))

    def client(self, user: str) -> TlsFiles:
        self.ca.client(self.path(user), self.path(user, "key"), user, 10)
        return TlsFiles(self.path(user), self.path(user, "key"), self.path("ca"))

    def path(self, name: str, suffix: str = "pem") -> Path:
        return self.directory / f"{name}.{suffix}"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)
