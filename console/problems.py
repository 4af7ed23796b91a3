"""What the HTTP API answers when it does not do what was asked: problem details, as in RFC 9457. Pure."""

from typing import Final

import msgspec

__all__ = ["PROBLEM_TYPE", "Problem", "ProblemDetails"]

PROBLEM_TYPE: Final = "application/problem+json"

TITLES: Final = {
    "bad-request": "The request cannot be understood.",
    "login-required": "Nobody is logged in.",
    "forbidden": "This is not allowed.",
    "not-found": "There is no such thing.",
    "method-not-allowed": "The method is not for this path.",
    "not-master": "This replica is not the master.",
    "too-large": "The request is too large.",
    "media-type": "The body is no JSON.",
    "refused": "The server has refused it.",
    "too-many": "There are too many requests.",
    "not-yet": "The server cannot do it yet.",
    "timeout": "No answer came in time.",
    "unknown-outcome": "Whether it was done is not known.",
    "fault": "The server has a fault.",
}
"""By code: what kind of problem it is."""


class ProblemDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem, as RFC 9457 has it."""

    status: int
    """The status of the HTTP answer."""
    code: str
    """The kind of problem, for programs."""
    title: str
    """The kind of problem, for people."""
    detail: str
    """What has happened and what to do, in one sentence."""
    master: str = ""
    """With the code ``not-master``: the address of the master, if it is known and has an HTTP port."""


class Problem(Exception):
    """The request was not carried out; the text is one sentence for the user."""

    def __init__(self, status: int, code: str, sentence: str, *, master: str = "") -> None:
        """code: one of `TITLES`."""
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.master = master

    @property
    def details(self) -> ProblemDetails:
        """The body of the answer."""
        return ProblemDetails(self.status, self.code, TITLES[self.code], str(self), self.master)
