"""The deterministic engine: runs the agents of a server from the ordered log."""

from .batch import BatchError, Item, NetAck, NetInput, NetPeer, Posts, Tick, decode_batch, encode_batch
from .capture import Capture
from .cell import AgentState, Cell, Nondeterministic, Ran, Unstorable
from .classes import load_class
from .effects import Effects
from .engine import Engine, EngineStopped
from .passes import Action, Marker, Passes
from .reckoning import Reckoning
from .rerun import Rerun
from .settings import EngineSettings
from .snapshot import SnapshotError
from .trace import Reaction
from .transfer import Source, Staging, Taken

__all__ = [
    "Action",
    "AgentState",
    "BatchError",
    "Capture",
    "Cell",
    "Effects",
    "Engine",
    "EngineSettings",
    "EngineStopped",
    "Item",
    "Marker",
    "NetAck",
    "NetInput",
    "NetPeer",
    "Nondeterministic",
    "Passes",
    "Posts",
    "Ran",
    "Reaction",
    "Reckoning",
    "Rerun",
    "SnapshotError",
    "Source",
    "Staging",
    "Taken",
    "Tick",
    "Unstorable",
    "decode_batch",
    "encode_batch",
    "load_class",
]
