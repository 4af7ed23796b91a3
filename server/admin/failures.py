"""The sentence for a failure that the platform or an agent reports."""

from ...agents import CreateFailed, ExceptionNotification, UnknownAgent, decode

__all__ = ["failure_sentence", "missing_agent"]


def missing_agent(type: str, payload: bytes) -> str | None:
    """Return the address of the agent that a notification reports as missing; None if it reports something
    else. Raises ValueError if it cannot be read."""
    return decode(UnknownAgent, payload).agent if type == UnknownAgent.type_name else None


def failure_sentence(type: str, payload: bytes) -> str | None:
    """Return what a notification reports, as one sentence; None if it reports no failure.

    Raises ValueError if it cannot be read.
    """
    if type == ExceptionNotification.type_name:
        failed = decode(ExceptionNotification, payload)
        return f"{failed.agent} failed on {failed.type}: {failed.error}: {failed.message}"
    if type == CreateFailed.type_name:
        return decode(CreateFailed, payload).reason
    missing = missing_agent(type, payload)
    return None if missing is None else f"There is no agent {missing}."
