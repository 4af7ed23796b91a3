"""The deterministic engine: runs the agents of a server from the ordered log."""

from .batch import BatchError, Item, NetAck, NetInput, NetPeer, Posts, Tick, decode_batch, encode_batch
from .capture import Capture
from .cell import Cell, Nondeterministic, Unstorable
from .classes import load_class
from .directory import AgentState
from .effects import Effects
from .engine import Engine, EngineStopped
from .rerun import Rerun
from .settings import EngineSettings
from .snapshot import SnapshotError
from .trace import Reaction

__all__ = [
    "AgentState",
    "BatchError",
    "Capture",
    "Cell",
    "Effects",
    "Engine",
    "EngineSettings",
    "EngineStopped",
    "Item",
    "NetAck",
    "NetInput",
    "NetPeer",
    "Nondeterministic",
    "Posts",
    "Reaction",
    "Rerun",
    "SnapshotError",
    "Tick",
    "Unstorable",
    "decode_batch",
    "encode_batch",
    "load_class",
]
