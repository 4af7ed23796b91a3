"""Agents that stand for those of a recorded workload: they send as many notifications, of the same sizes."""

from collections.abc import Iterator, Sequence

import attrs

from ..agents import Agent, AgentId, Context, Notification, reacts

__all__ = ["Done", "Load", "StandIn", "Step", "branches", "stand_in_name"]

Step = tuple[int, int, int, int]
"""A notification: number of the server and of the agent that gets it (agent 0: the client), the bytes of its
payload, and how many steps it stands for, itself and all that it causes, which follow it."""
STEP_BYTES = 8
HEAD_BYTES = 60


@attrs.frozen
class Load(Notification, name="quorate.workload.load"):
    """Stands for a notification that was recorded."""

    run: str
    sent_ns: int
    """When the client has sent what this came from, by its clock."""
    client: AgentId | None
    """Who has sent it; None in what the client itself sends."""
    steps: list[Step]
    """What it causes."""
    padding: bytes

    @classmethod
    def of(cls, run: str, sent_ns: int, client: AgentId | None, steps: list[Step], size: int) -> "Load":
        """Return a notification of about `size` bytes."""
        return cls(run, sent_ns, client, steps, bytes(max(0, size - HEAD_BYTES - STEP_BYTES * len(steps))))


@attrs.frozen
class Done(Notification, name="quorate.workload.done"):
    """Stands for what an agent sent to a client."""

    sent_ns: int
    padding: bytes


@attrs.define
class StandIn(Agent, name="quorate.workload.stand-in"):
    """Sends what the agent that it stands for has sent."""

    servers: list[str]
    """The names of the servers by number; "" for that of this agent."""
    reactions: int = 0

    @reacts
    def load(self, ctx: Context, note: Load) -> None:
        """Send what this notification causes."""
        self.reactions += 1
        client = note.client or ctx.sender
        for (server, agent, size, _), below in branches(note.steps):
            if agent:
                to = stand_in_name(note.run, agent, self.servers[server])
                ctx.send(to, Load.of(note.run, note.sent_ns, client, below, size))
            else:
                ctx.send(client, Done(note.sent_ns, bytes(max(0, size - HEAD_BYTES))))


def branches(steps: Sequence[Step]) -> Iterator[tuple[Step, list[Step]]]:
    """Yield the steps that have one cause, each with those that it causes. Raises ValueError for others."""
    at = 0
    while at < len(steps):
        step = steps[at]
        if not 0 < step[3] <= len(steps) - at:
            raise ValueError("these are no steps of a workload")
        yield step, list(steps[at + 1 : at + step[3]])
        at += step[3]


def stand_in_name(run: str, agent: int, server: str = "") -> str:
    """Return the name of an agent, or its address if it is on another server."""
    return f"workload-{run}-{agent}" + (f"@{server}" if server else "")
