"""The guard of a test: reports what reactions use that is not the same on every replica.

Three sources are watched while the code of an agent runs, and at no other time: calls of built-in and Python
functions, by `sys.setprofile`; files, sockets, processes and threads, by an audit hook, which sees also what
an extension in C does; and `hash`, whose argument decides, by a function in its place. What is found belongs
to the line of the agent's own code from which it came. What a library of logging or the like uses for itself
is no finding.

The calls of the guard nest in those of the reaction: a watched reaction can nest some ten calls less.
"""

import builtins
import dis
import site
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import CodeType, FrameType
from typing import Any, Final, cast

from ...agents import AgentId, Note
from ...engine import CurrentReaction
from ...engine.current_reaction import RunningAgent
from .calls import audited, builtin_called, code_entered
from .findings import Finding, NondeterministicReaction

__all__ = ["Guard", "GuardedReaction"]

MAX_FINDINGS: Final = 100
"""Different findings that a guard keeps until they are raised."""
HARMLESS: Final = frozenset(
    {
        # They write what they need for a line of a log, or of an error.
        *("logging", "warnings", "traceback", "linecache", "tokenize", "inspect", "structlog", "loguru"),
        # They look up modules and classes, and remember objects by their identity while they run.
        *("importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport"),
        *("encodings", "codecs", "typing", "functools", "abc", "enum", "weakref"),
        *("copy", "json", "pprint", "reprlib", "dataclasses", "attr", "attrs", "msgspec", "pydantic"),
        # They watch the test.
        *("coverage", "pydevd", "_pydevd_bundle", "_pytest", "pytest", "hypothesis", "quorate"),
    }
)
"""Top-level modules whose own use of clocks, files and identities changes nothing in a reaction."""

_WITHIN_KEYS: Final = frozenset({"__hash__", "__eq__", "__repr__", "__str__", "__deepcopy__"})
"""Methods in which hash() and id() are usual: what they return decides about no output by itself."""
_SAME_EVERYWHERE: Final = (int, float, complex, timedelta)
_real_hash: Final = builtins.hash


class GuardedReaction(CurrentReaction):
    """The current reaction of an engine, for a guard that watches while `running` is set."""

    # The name of the slot in the base class is taken by the property.
    __slots__ = ("_guard", "_running")

    def __init__(self, guard: "Guard") -> None:
        self._guard = guard
        self._running: tuple[int, Note, RunningAgent | None] | None = None
        super().__init__()

    @property
    def running(self) -> tuple[int, Note, RunningAgent | None] | None:
        """Position, notification and agent of the reaction; None between reactions."""
        return self._running

    @running.setter
    def running(self, value: tuple[int, Note, RunningAgent | None] | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._running = value
        if value is not None and value[2] is not None:
            self._guard.begin(value[2].spec.cls, value[1])
        else:
            self._guard.end()


class Guard:
    """Collects findings; `raise_findings` raises them.

    allow: names of top-level modules that may use what they like, for example a library of metrics.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.findings: list[Finding] = []
        """The findings since the last `raise_findings`, each place once."""
        self._harmless = HARMLESS | frozenset(allow)
        self._reaction: tuple[type, Note] | None = None
        self._thread = 0
        self._places: set[tuple[str, int, str]] = set()
        self._globals_seen: weakref.WeakSet[CodeType] = weakref.WeakSet()

    def reaction_of(self) -> CurrentReaction:
        """Return the `CurrentReaction` of an engine that this guard watches."""
        return GuardedReaction(self)

    def begin(self, cls: type, note: Note) -> None:
        """Watch from now on: an agent of this class reacts to this notification."""
        _hook_audits()
        _active[:] = [self]
        self._reaction = (cls, note)
        self._thread = threading.get_ident()
        builtins.hash = self._hash
        before: Any = sys.getprofile()
        # A profiler of another kind cannot be called from here: it goes on, and calls are not watched.
        if before is None or before == self._profile:
            sys.setprofile(self._profile)

    def end(self) -> None:
        """Watch no more. To be called after each reaction, also if none has begun."""
        if self._reaction is None:
            return
        if sys.getprofile() == self._profile:
            sys.setprofile(None)
        builtins.hash = _real_hash
        self._reaction = None
        _active.clear()

    def raise_findings(self) -> None:
        """Raise NondeterministicReaction if there are findings, and forget them."""
        if self.findings:
            found, self.findings = self.findings, []
            raise NondeterministicReaction(found)

    # What is seen while a reaction runs

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            found = builtin_called(argument)
            if found is not None:
                self._found(frame, *found)
        elif event == "call":
            found = code_entered(frame)
            if found is not None:
                self._found(frame.f_back, *found)
            elif frame.f_code not in self._globals_seen:
                self._check_globals(frame)

    def _hash(self, value: object, /) -> int:
        """Stand in for the built-in `hash`."""
        if self._reaction is not None and threading.get_ident() == self._thread:
            frame = _frame(1)
            if frame.f_code.co_name not in _WITHIN_KEYS and not _same_hash(value):
                self._found(frame, "hash", f"hash() of {type(value).__name__}")
        return _real_hash(value)

    def audit(self, event: str) -> None:
        """Record an audit event of the reaction."""
        kind = audited(event)
        if kind is not None and threading.get_ident() == self._thread:
            self._found(_frame(2), kind, _EVENT_NAMES.get(event, event))

    def _check_globals(self, frame: FrameType) -> None:
        """Report the assignments to global variables in a function of the agent's code that is called."""
        code = frame.f_code
        self._globals_seen.add(code)
        if code.co_name == "<module>" or not self._own(frame):
            return
        line = code.co_firstlineno
        for instruction in dis.get_instructions(code):
            line = _line_of(instruction) or line
            if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self._add(frame, line, "global", f"the global variable {instruction.argval}, assigned there")

    def _found(self, frame: FrameType | None, kind: str, used: str) -> None:
        """Record the use of something at the line of the agent's own code from which it came."""
        direct = True
        while frame is not None:
            module = _top_module(frame)
            if self._own(frame):
                if direct or kind not in ("identity", "hash"):
                    if kind == "identity" and frame.f_code.co_name in _WITHIN_KEYS:
                        return
                    self._add(frame, frame.f_lineno, kind, used)
                return
            if module in self._harmless:
                return
            direct = False
            frame = frame.f_back

    def _own(self, frame: FrameType) -> bool:
        """Return whether a frame runs code of the program that is tested, not of a library."""
        module, file = _top_module(frame), frame.f_code.co_filename
        reaction = self._reaction
        if file.startswith("<") or reaction is None or module in self._harmless:
            return False
        if module == reaction[0].__module__.partition(".")[0]:
            return True
        return module not in sys.stdlib_module_names and not file.startswith(_LIBRARIES)

    def _add(self, frame: FrameType, line: int, kind: str, used: str) -> None:
        reaction = self._reaction
        place = (frame.f_code.co_filename, line, used)
        if reaction is None or place in self._places or len(self.findings) >= MAX_FINDINGS:
            return
        self._places.add(place)
        cls, note = reaction
        agent = f"{cls.__module__}:{cls.__qualname__}"
        function = frame.f_code.co_qualname
        self.findings.append(Finding(place[0], line, function, kind, used, agent, note.type))


_frame: Final[Callable[[int], FrameType]] = cast("Any", sys)._getframe
_EVENT_NAMES: Final = {
    "_thread.start_new_thread": "a thread",
    "_thread.start_joinable_thread": "a thread",
    "open": "open()",
    "socket.__new__": "a socket",
}
_LIBRARIES: Final = tuple(
    {
        *(path for path in site.getsitepackages()),
        site.getusersitepackages(),
        *(sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")),
    }
)
_active: Final[list[Guard]] = []
"""The guard of the reaction that runs now, if there is one."""
_hooked: Final[list[Callable[..., None]]] = []


def _hook_audits() -> None:
    """Add the audit hook, once in a process: there is no way to remove it."""
    if not _hooked:
        _hooked.append(_audit)
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    del arguments
    if _active:
        _active[0].audit(event)


def _top_module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line_of(instruction: dis.Instruction) -> int | None:
    """Return the line that begins with an instruction; None if it continues one."""
    line = cast("Any", instruction).starts_line
    if line is True:
        return cast("int | None", getattr(instruction, "line_number", None))
    return line if isinstance(line, int) and line is not False else None


def _same_hash(value: object) -> bool:
    """Return whether the hash of a value is the same in every process."""
    if isinstance(value, AgentId):
        return True
    if isinstance(value, tuple):
        return all(map(_same_hash, cast("tuple[object, ...]", value)))
    if isinstance(value, str | bytes):
        return not value
    return isinstance(value, _SAME_EVERYWHERE) or type(value).__module__ in ("decimal", "fractions")
