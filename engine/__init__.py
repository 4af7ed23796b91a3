"""The deterministic engine: runs the agents of a server from the ordered log."""

from .batch import (
    BatchError,
    CausalInput,
    ClassVersions,
    Item,
    NetAck,
    NetInput,
    NetPeer,
    Posts,
    Tick,
    decode_batch,
    encode_batch,
)
from .causal_order import Awaited, StampedNote, replaced
from .cell import AgentState, Cell, Nondeterministic, Ran, Unstorable
from .class_loading import Program, Unloadable, import_modules, load_class
from .class_versions import ClassMissing, UpgradePending, common_versions, version_names
from .current_reaction import SKIPPED, CurrentReaction, Skipped
from .dead_letters import DeadLetter
from .effects import Effects
from .engine import Engine, EngineStopped
from .reaction import Reaction
from .rerun import Rerun
from .settings import EngineSettings
from .snapshot.capture import Capture
from .snapshot.collected import CollectedState
from .snapshot.digest import IncrementalDigest
from .snapshot.header import SnapshotError, SnapshotTooEarly, another_life
from .snapshot.precopy import Action, Marker, PrecopyRounds
from .snapshot.transfer import Source, StagedPart, Staging
from .state_check import StateCheck, StateFinding
from .timers import Timer

__all__ = [
    "SKIPPED",
    "Action",
    "AgentState",
    "Awaited",
    "BatchError",
    "Capture",
    "CausalInput",
    "Cell",
    "ClassMissing",
    "ClassVersions",
    "CollectedState",
    "CurrentReaction",
    "DeadLetter",
    "Effects",
    "Engine",
    "EngineSettings",
    "EngineStopped",
    "IncrementalDigest",
    "Item",
    "Marker",
    "NetAck",
    "NetInput",
    "NetPeer",
    "Nondeterministic",
    "Posts",
    "PrecopyRounds",
    "Program",
    "Ran",
    "Reaction",
    "Rerun",
    "Skipped",
    "SnapshotError",
    "SnapshotTooEarly",
    "Source",
    "StagedPart",
    "Staging",
    "StampedNote",
    "StateCheck",
    "StateFinding",
    "Tick",
    "Timer",
    "Unloadable",
    "Unstorable",
    "UpgradePending",
    "another_life",
    "common_versions",
    "decode_batch",
    "encode_batch",
    "import_modules",
    "load_class",
    "replaced",
    "version_names",
]
