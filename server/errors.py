"""Errors that end the start of a replica, each with one sentence for the user."""

__all__ = ["StartError", "StartInterrupted"]


class StartError(Exception):
    """The replica cannot start. The text is one sentence that says what to do."""

    exit_code = 1


class StartInterrupted(StartError):
    """The replica was asked to stop before it had started; this is no failure."""
