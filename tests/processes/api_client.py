"""A client of the HTTP API, for tests."""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import attrs

from .running import BOUND_S


@attrs.define
class ApiClient:
    """Requests to one replica; `login` first, or set the token."""

    port: int
    token: str = ""
    host: str = "127.0.0.1"

    def login(self, user: str = "root", password: str = "root") -> "ApiClient":
        """Log in."""
        code, found = self.ask("POST", "/session", {"user": user, "password": password})
        assert code == 200, found
        self.token = found["token"]
        return self

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Make a request; return the status, and the decoded body."""
        url = f"http://{self.host}:{self.port}/api/v1{path}"
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text else None

    def get(self, path: str) -> Any:
        """Return the result of a GET that is answered."""
        code, found = self.ask("GET", path)
        assert code == 200, found
        return found

    def post(self, path: str, body: object = None) -> Any:
        """Return the result of a POST that is answered."""
        code, found = self.ask("POST", path, body)
        assert code in (200, 204), found
        return found


def quoted(text: str) -> str:
    """Return a text as a part of a path."""
    return urllib.parse.quote(text, safe="")
