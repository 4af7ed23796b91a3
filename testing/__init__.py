"""The test kit of quorate.

`Harness` runs the agents of one server in a test, on a clock that the test moves. `Guard` watches their
reactions, and reports what differs between replicas as a `Finding`. `ServiceHarness` also runs services
as a master does, and lets it fail. `SimulatedCluster` runs servers of agents with clients and faults on
virtual time.

`simulate` runs a cluster of replicas on a virtual clock, network and disk, injects the faults of a
`Schedule`, and checks every invariant in `CHECKERS` after every step; it returns a `Result` or raises a
`Violation`. `draw` returns the random schedule of a seed, and `shrink` the faults that a violation does not
need. `Shape` is the cluster and `Weather` its network. The other classes are faults, listed by name in
`FAULTS`. docs/simulation.md is the guide.
"""

from .channel.cluster_shape import Shape
from .channel.network import Weather
from .channel.violation import Violation
from .checks import CHECKERS
from .determinism.findings import Finding, NondeterministicReaction
from .determinism.guard import Guard
from .determinism.hash_seeds import HashSeedError
from .faults import FAULTS, Fault
from .faults.disks import CorruptDisk, FullDisk, LoseDisk, SlowDisk, TornWrite
from .faults.membership import Add, Remove
from .faults.networks import (
    Break,
    Cut,
    Deaf,
    Delay,
    Duplicate,
    Garbage,
    Isolate,
    Loss,
    Mute,
    OneWay,
    Partition,
    Reorder,
)
from .faults.processes import (
    Crash,
    CrashAll,
    CrashProposer,
    CrashStep,
    CrashTransfer,
    Disqualify,
    Heal,
    Leave,
    Pause,
    RefusePart,
    Start,
    Submit,
)
from .harness import Harness
from .schedules.random_schedules import draw
from .schedules.schedule import Schedule, ScheduleError
from .schedules.shrink import shrink
from .schedules.simulation import Result, simulate
from .servers.cluster_watch import Invariant, ReplicaView
from .servers.simulated_client import PendingReply, SimulatedClient
from .servers.simulated_cluster import SimulatedCluster
from .service_harness import ServiceHarness

__all__ = [
    "CHECKERS",
    "FAULTS",
    "Add",
    "Break",
    "CorruptDisk",
    "Crash",
    "CrashAll",
    "CrashProposer",
    "CrashStep",
    "CrashTransfer",
    "Cut",
    "Deaf",
    "Delay",
    "Disqualify",
    "Duplicate",
    "Fault",
    "Finding",
    "FullDisk",
    "Garbage",
    "Guard",
    "Harness",
    "HashSeedError",
    "Heal",
    "Invariant",
    "Isolate",
    "Leave",
    "LoseDisk",
    "Loss",
    "Mute",
    "NondeterministicReaction",
    "OneWay",
    "Partition",
    "Pause",
    "PendingReply",
    "RefusePart",
    "Remove",
    "Reorder",
    "ReplicaView",
    "Result",
    "Schedule",
    "ScheduleError",
    "ServiceHarness",
    "Shape",
    "SimulatedClient",
    "SimulatedCluster",
    "SlowDisk",
    "Start",
    "Submit",
    "TornWrite",
    "Violation",
    "Weather",
    "draw",
    "shrink",
    "simulate",
]
