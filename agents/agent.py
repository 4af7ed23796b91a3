"""Agents: persistent objects that react to notifications."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import attrs
import msgspec
from msgspec import UNSET

from .envelope import Opaque
from .fields import annotations_of, declared_fields, is_decorated, is_frozen
from .names import AgentError, ClassNames, location, names_of, split_name
from .nesting import TOO_DEEP, nested_too_deep
from .notification import Notification, check_notification, reader
from .origin import raised_at
from .rows import RowKind, Rows, row_kind
from .state_types import (
    check_encodable,
    check_no_any,
    decoder,
    encoder,
    hints_of,
    may_hold_sets,
    may_nest,
    without_sets,
)
from .upgrade import UpgradeChain, UpgradeError, upgrade_chain

__all__ = [
    "Agent",
    "AgentError",
    "AgentSpec",
    "agent_definitions",
    "agent_named",
    "agent_spec",
    "agent_upgrading",
    "agent_versions",
    "defined_agents",
    "reacts",
]

F = TypeVar("F", bound=Callable[..., None])

_PLAIN: Final = (int, float, str, bytes, bool, tuple, type(None))
_SCALARS: Final[Mapping[Any, tuple[type, ...]]] = {
    int: (int,),
    float: (float, int),
    str: (str,),
    bytes: (bytes, bytearray, memoryview),
    bool: (bool,),
}
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1
_MARK: Final = "__quorate_reacts__"
_NAMES: Final = "__quorate_names__"
_UPGRADES: Final = "__quorate_upgrades__"
_named: Final["ClassNames[Agent]"] = ClassNames()
"""Agent classes by the names that were given to them."""


def reacts(function: F) -> F:
    """Mark a method ``(self, ctx: Context, note: SomeNotification) -> None`` as a reaction.

    The annotation of the third parameter says what the method reacts to: a notification class, several
    joined by ``|``, or `Opaque` for everything that no other method reacts to.

    Raises AgentError if the method does not have that shape.
    """
    where = function.__qualname__
    parameters = list(inspect.signature(function).parameters.values())
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise AgentError(f"{where}: a reaction runs to its end; write it with def, without async or yield")
    if len(parameters) != 3:
        raise AgentError(
            f"{where}: a reaction takes (self, ctx, notification), not {len(parameters)} parameters"
        )
    annotation = parameters[2].annotation
    if annotation is inspect.Parameter.empty:
        raise AgentError(f"{where}: annotate what it reacts to, as in `{parameters[2].name}: Deposit`")
    if not isinstance(annotation, str):
        _reacted(where, annotation)
    setattr(function, _MARK, True)
    return function


def _reacted(where: str, annotation: Any) -> tuple[type, ...]:
    """Return the classes that an annotation stands for."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    classes = typing.get_args(annotation) if union else (annotation,)
    for cls in classes:
        if cls is Opaque:
            continue
        if not (isinstance(cls, type) and issubclass(cls, Notification)):
            raise AgentError(
                f"{where}: {annotation!r} is not a notification; derive it from quorate.Notification"
            )
        if cls is Notification:
            raise AgentError(f"{where}: name the notification's class, or Opaque to react to all others")
        check_notification(cls)
    return cast("tuple[type, ...]", classes)


class Agent:
    """Base of all agents. State is the annotated attributes of an ``attrs.define`` class::

        @attrs.define
        class Account(Agent):
            balance: int = 0

            @reacts
            def deposit(self, ctx: Context, note: Deposit) -> None:
                self.balance += note.amount

    Every replica of a server runs the same reactions: what a reaction does may depend only on the agent's
    state, the notification and the context. No clock, no randomness but ``ctx.random``, no files, no sockets.

    ``class Account(Agent, name="bank.account")`` gives it a name on the disk that does not depend on its
    module: ``bank.account/1``. `version` (1 unless given) is the number in it. `also` holds whole names of
    former versions, or ``module:Class``, whose stored agents this class loads, too. Stored agents of former
    versions with other attributes are loaded by the functions that are marked with `upgrades`.
    Raises AgentError for what cannot be a name, or is the name of another class.
    """

    __slots__ = ()

    def __init_subclass__(
        cls, *, name: str | None = None, version: int = 1, also: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        # attrs builds a second class when it adds slots, with the attributes of the first and no arguments.
        if is_decorated(cls):
            _check_not_frozen(cls)
        else:
            kinds = annotations_of(cls)
            for attribute in declared_fields(cls):
                check_no_any(kinds[attribute], f"{location(cls)}: {attribute}", within_classes=False)
            names = names_of(cls, name, version, also)
            setattr(cls, _NAMES, names)
            setattr(cls, _UPGRADES, upgrade_chain(cls, names[0], names))
        own = tuple(each for each in _names(cls) if each != location(cls))
        chain = _chain(cls)
        version = (split_name(_names(cls)[0]) or ("", 1))[1]
        _named.add(cls, own, () if chain is None else chain.names, version)


def _check_not_frozen(cls: type[Agent]) -> None:
    if is_frozen(cls):
        raise AgentError(
            f"{location(cls)} cannot be changed by its reactions; decorate the class with @attrs.define"
        )


def _names(cls: type[Agent]) -> tuple[str, ...]:
    return cast("tuple[str, ...]", vars(cls)[_NAMES])


def _chain(cls: type[Agent]) -> UpgradeChain | None:
    return cast("UpgradeChain | None", vars(cls)[_UPGRADES])


def agent_named(name: str) -> type[Agent] | None:
    """Return the agent class to which this name was given, as its own or in `also`.

    Returns None if this process has defined none. The name ``module:Class`` of a class without a name is not
    found. Imports nothing.
    """
    return _named.find(name)


def agent_upgrading(name: str) -> type[Agent] | None:
    """Return the latest agent class that has upgrades from the former version of this name, None if there is
    none in this process. Imports nothing."""
    return _named.upgrading(name)


def agent_versions(base: str) -> dict[int, type[Agent]]:
    """Return the agent classes of this process that load ``base/version`` as it is, by version."""
    return _named.versions(base)


def defined_agents() -> dict[str, list[int]]:
    """Return the versions of all named agent classes of this process, by the name without the version."""
    found: dict[str, list[int]] = {}
    for name, cls in _named:
        parts = split_name(name)
        if parts is not None and name == _names(cls)[0]:
            found.setdefault(parts[0], []).append(parts[1])
    return found


def agent_definitions() -> int:
    """Return the number of agent classes that were defined so far: `defined_agents` changes only with it."""
    return _named.changes


@attrs.frozen
class AgentSpec:
    """An agent class as the engine uses it: its names, handlers and state."""

    cls: type[Agent]
    names: tuple[str, ...]
    """Its own name, then all other names whose stored agents it loads."""
    location: str
    """``module:Class``, from which it can be imported."""
    handlers: Mapping[str, tuple[Callable[..., None], Callable[[bytes], Any]]]
    """The unbound method and the decoder of the payload for each type name."""
    opaque: Callable[..., None] | None
    attributes: tuple[str, ...]
    """The names of the attributes that make up the state."""
    struct: type[msgspec.Struct]
    """The types of the state, member ``f0`` being the first attribute."""
    has_sets: bool
    """Whether the state may hold sets."""
    nests: bool
    """Whether values of its attributes may be nested too deep to be stored."""
    plain: tuple[tuple[str, tuple[type, ...]], ...] = ()
    """Attributes that are numbers, texts, bytes or None, with the classes their values may have."""
    chain: UpgradeChain | None = None
    """Upgrades from former versions."""
    rows: tuple[tuple[str, RowKind], ...] = ()
    """Attributes that are tables beside the state."""
    exact: tuple[tuple[str, tuple[type, ...]], ...] = ()
    """All attributes, if they are plain and agents have nothing else, with the classes whose values are
    loaded as they were saved; empty otherwise."""

    @property
    def former(self) -> Mapping[str, int]:
        """The names of former versions from which it has upgrades, with their versions."""
        return {} if self.chain is None else self.chain.names

    @property
    def name(self) -> str:
        """The name under which its agents are stored and traced: ``bank.account/1`` or ``module:Class``."""
        return self.names[0]

    @property
    def version(self) -> int:
        """The version of a class with a name of its own, 0 for ``module:Class``."""
        return (split_name(self.name) or ("", 0))[1]

    def build(self, state: bytes) -> Agent:
        """Make an agent from its constructor's arguments, a MessagePack map. Raises AgentError."""
        try:
            given = msgspec.msgpack.decode(state, type=dict[str, msgspec.Raw]) if state else {}
            known = {f.alias or f.name: f for f in _attributes(self.cls) if f.init}
            unknown = sorted(set(given) - set(known))
            if unknown:
                raise AgentError(
                    f"{self.name} has no attribute {unknown[0]!r}; it has: {', '.join(known) or 'none'}"
                )
            hints = hints_of(self.cls)
            agent = self.cls(
                **{k: msgspec.msgpack.decode(v, type=hints[known[k].name]) for k, v in given.items()}
            )
            filled = next((name for name, _ in self.rows if getattr(agent, name).changed), None)
            if filled is not None:
                raise AgentError(f"{self.name}: {filled} begins empty; put its first rows in a reaction")
            return agent
        except AgentError:
            raise
        except Exception as error:
            place = raised_at(error)
            kind = f"{type(error).__name__}: " if place else ""
            raise AgentError(
                f"{self.name} cannot be created from this state: {kind}{error}{place}"
            ) from error

    def save(self, agent: Agent) -> bytes:
        """Return the whole state. Dicts keep their order, which agents can see.

        Raises ValueError if a value is nested too deep, and what encoding raises.
        """
        state = encoder.encode({name: getattr(agent, name) for name in self.attributes})
        if self.nests and nested_too_deep(state):
            raise ValueError(TOO_DEEP)
        return state

    def loads_equal(self, agent: Agent) -> bool:
        """Return whether the agent is known to be as `load` makes it from what `save` returns."""
        exact = self.exact
        for name, classes in exact:
            if type(getattr(agent, name)) not in classes:  # pyright: ignore[reportUnknownArgumentType]
                return False
        return bool(exact)

    def canonical(self, agent: Agent) -> bytes:
        """Return the whole state in a form that is equal on every replica, for digests: sets are sorted.

        Dicts keep their order here too: agents can see it, so replicas must not differ in it.
        """
        values = {name: getattr(agent, name) for name in self.attributes}
        return encoder.encode(without_sets(values) if self.has_sets else values)

    def flaw(self, agent: Agent) -> str:
        """Return why the state cannot be stored, judged by its plain attributes only; "" if they are sound.

        The cost does not depend on the size of the state. `save` and `load` check all of it.
        """
        for name, allowed in self.plain:
            value = getattr(agent, name)
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind not in allowed:
                if isinstance(value, allowed) and kind is not bool:
                    continue
                return f"{name} is {kind.__name__}, not {allowed[0].__name__}"
            if kind is int and not _MIN_INT <= value <= _MAX_INT:
                return f"{name} is an integer of more than 64 bits"
        return ""

    def load(self, state: bytes) -> Agent:
        """Make the agent that `save` saved. Raises ValueError if the state does not fit the class."""
        values = msgspec.structs.astuple(decoder(self.struct).decode(state))
        agent = self.cls.__new__(self.cls)
        put = object.__setattr__
        lacking: list[str] = []
        for name, value in zip(self.attributes, values, strict=True):
            if value is UNSET:
                lacking.append(name)
            else:
                put(agent, name, value)
        for name, kind in self.rows:
            put(agent, name, Rows.of(kind))
        for name in lacking:
            put(agent, name, self._default(agent, name))
        return agent

    def upgraded(self, name: str, state: bytes) -> bytes:
        """Return the state of this class for one that was saved under `name`, one of `former`.

        Runs the upgrades, and takes the defaults of attributes that none of them gives. Raises ValueError,
        naming the versions, the upgrade or attribute and what is wrong.
        """
        assert self.chain is not None
        made = self.chain.apply_encoded(name, state)
        try:
            return self.save(self.load(made))
        except (ValueError, TypeError, OverflowError) as error:
            raise UpgradeError(
                f"{name} cannot become {self.name}: what its upgrades made does not fit the class: {error}; "
                "correct the upgrade"
            ) from error

    def _default(self, agent: Agent, name: str) -> Any:
        """Return the value of an attribute that the class did not have when the state was saved."""
        (default,) = [each.default for each in _attributes(self.cls) if each.name == name]
        if default is attrs.NOTHING:
            raise ValueError(
                f"{self.name} did not have the attribute {name} when the state was saved; give it a default"
            )
        if not isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            return default
        factory = cast("Any", default)
        try:
            return factory.factory(agent) if factory.takes_self else factory.factory()
        except Exception as error:
            kind = type(error).__name__
            raise ValueError(
                f"the default of {name} in {self.name} raised {kind}: {error}{raised_at(error)}"
            ) from error


def agent_spec(cls: type[Agent]) -> AgentSpec:
    """Examine an agent class.

    Raises AgentError if it is not an attrs class, an attribute has no type or one that cannot be
    encoded, a handler names an unknown type, or two handlers take the same type.
    """
    return cast("AgentSpec", _examine(cast("Any", cls)))


@functools.lru_cache(maxsize=4096)
def _examine(cls: Any) -> Any:
    if isinstance(cls, str):
        raise AgentError(f"{cls!r} is text; give the class itself")
    name = location(cls)
    if not (isinstance(cls, type) and issubclass(cls, Agent)):
        raise AgentError(f"{name} is not an agent; derive it from quorate.Agent")
    if "__attrs_attrs__" not in vars(cls):
        raise AgentError(f"{name}: decorate the class with @attrs.define, so that its state is known")
    _check_not_frozen(cls)
    hints = hints_of(cls)
    rows = tuple(
        (field.name, kind)
        for field in _attributes(cls)
        if (kind := row_kind(hints.get(field.name), f"{name}: {field.name}"))
    )
    attributes, struct, has_sets, nests = _state(cls, name, {each for each, _ in rows})
    plain = tuple((name, allowed) for name in attributes if (allowed := _scalar(hints[name])))
    exact = () if rows or len(plain) < len(attributes) or _holds_more(cls, attributes) else _exact(plain)
    handlers, opaque = _handlers(cls, name)
    return AgentSpec(
        cls=cls,
        names=_names(cls),
        location=name,
        handlers=handlers,
        opaque=opaque,
        attributes=attributes,
        struct=struct,
        has_sets=has_sets,
        nests=nests,
        plain=plain,
        chain=_chain(cls),
        rows=rows,
        exact=exact,
    )


def _holds_more(cls: type[Agent], attributes: tuple[str, ...]) -> bool:
    """Return whether agents of a class can hold values that are no part of their state."""
    slots = [vars(base).get("__slots__", ("__dict__",)) for base in cls.__mro__[:-1]]
    names = {name for each in slots for name in ((each,) if isinstance(each, str) else each)}
    return not names <= {*attributes, "__weakref__"}


def _exact(
    plain: tuple[tuple[str, tuple[type, ...]], ...],
) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """Return the classes of each plain attribute whose values are the same after saving and loading."""
    none = type(None)
    return tuple((name, tuple(dict.fromkeys((kinds[0], *({none} & {*kinds}))))) for name, kinds in plain)


def _scalar(kind: Any) -> tuple[type, ...]:
    """Return the classes that a value of a plain type may have, () for any other type."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(kind) if part is not type(None)]
        allowed = _SCALARS.get(parts[0], ()) if len(parts) == 1 else ()
        return (*allowed, type(None)) if allowed and len(parts) < len(typing.get_args(kind)) else ()
    return _SCALARS.get(kind, ()) if isinstance(kind, type) else ()


def _attributes(cls: type[Agent]) -> tuple["attrs.Attribute[Any]", ...]:
    return cast("tuple[attrs.Attribute[Any], ...]", attrs.fields(cast("type[attrs.AttrsInstance]", cls)))


def _state(
    cls: type[Agent], name: str, rows: set[str]
) -> tuple[tuple[str, ...], type[msgspec.Struct], bool, bool]:
    for base in cls.__mro__[:-1]:
        for key, value in vars(base).items():
            if key.startswith("__") or (value is None and _reacting(cls, key)):
                continue
            constant = key.isupper() or key.startswith("_") or key in annotations_of(base)
            if type(value) in (list, dict, set) or (type(value) in _PLAIN and not constant):
                raise AgentError(
                    f"{name}: {key} has no type; annotate it, or write {key.upper()} if it never changes"
                )
    hints = hints_of(cls)
    names = tuple(field.name for field in _attributes(cls))
    for base in cls.__mro__[:-1]:
        lost = next((each for each in declared_fields(base) if each not in names), None)
        if lost is not None:
            raise AgentError(
                f"{name}: {lost} of its base {base.__name__} is no part of the state, and would be lost; "
                f"decorate {base.__name__} with @attrs.define, or annotate {lost} in {cls.__name__}, too"
            )
    names = tuple(each for each in names if each not in rows)
    members: list[tuple[str, Any, Any]] = []
    for index, attribute in enumerate(names):
        kind = hints.get(attribute)
        if kind is None:
            raise AgentError(f"{name}: {attribute} has no type; annotate it")
        check_encodable(kind, f"{name}: {attribute}")
        check_no_any(kind, f"{name}: {attribute}")
        # UNSET marks an attribute that an older state does not have; `load` puts the default.
        members.append((f"f{index}", kind, msgspec.field(name=attribute, default=UNSET)))
    has_sets = any(may_hold_sets(kind) for _, kind, _ in members)
    nests = any(may_nest(kind) for _, kind, _ in members)
    return names, msgspec.defstruct("State", members, kw_only=True), has_sets, nests


def _reacted_by(where: str, method: Callable[..., None]) -> tuple[type, ...]:
    """Return the classes to which a marked method reacts. Raises AgentError."""
    try:
        hints = typing.get_type_hints(method)
    except Exception as error:
        raise AgentError(f"{where}: a type cannot be resolved: {error}") from error
    parameter = list(inspect.signature(method).parameters)[2]
    return _reacted(where, hints[parameter])


def _check_keeps_types(cls: type, key: str, where: str, kept: tuple[type, ...]) -> None:
    """Raise AgentError if a method hides one of a base that reacts to something else."""
    for base in cls.__mro__:
        hidden = vars(base).get(key)
        if not getattr(hidden, _MARK, False):
            continue
        for kind in _reacted_by(f"{location(base)}.{key}", cast("Callable[..., None]", hidden)):
            if kind not in kept:
                raise AgentError(
                    f"{where} hides {key} of {base.__name__}, which reacts to {kind.__name__}: that reaction "
                    "would be lost; rename one of the two methods"
                )


def _reacting(cls: type, key: str) -> str:
    """Return the class that first defines `key` as a reaction, among `cls` and its bases; "" if none does."""
    return next((base.__name__ for base in cls.__mro__ if getattr(vars(base).get(key), _MARK, False)), "")


def _handlers(
    cls: type[Agent], name: str
) -> tuple[dict[str, tuple[Callable[..., None], Callable[[bytes], Any]]], Callable[..., None] | None]:
    handlers: dict[str, tuple[Callable[..., None], Callable[[bytes], Any]]] = {}
    owners: dict[str, str] = {}
    opaque: Callable[..., None] | None = None
    for key in sorted({key for base in cls.__mro__ for key in vars(base)}):
        method = getattr(cls, key, None)
        where = f"{name}.{key}"
        if not getattr(method, _MARK, False):
            replaced = _reacting(cls, key)
            if method is not None and replaced:
                raise AgentError(
                    f"{where} replaces a reaction of {replaced}: mark it with @reacts, too, or write "
                    f"{key} = None if the class is not to react"
                )
            continue
        method = cast("Callable[..., None]", method)
        types_of_method = _reacted_by(where, method)
        _check_keeps_types(cls, key, where, types_of_method)
        for reacted in types_of_method:
            if reacted is Opaque:
                if opaque is not None:
                    raise AgentError(f"{where}: another method reacts to Opaque already; keep one of them")
                opaque = method
                continue
            kind = cast("type[Notification]", reacted)
            check_encodable(kind, where)
            for type_name in dict.fromkeys((kind.type_name, *kind.type_names)):
                if type_name in owners:
                    raise AgentError(
                        f"{where}: {owners[type_name]} reacts to {kind.__name__} already; keep one of them"
                    )
                owners[type_name] = key
                handlers[type_name] = (method, reader(kind, type_name))
    if not handlers and opaque is None:
        raise AgentError(f"{name} reacts to nothing; mark a method with @reacts")
    return handlers, opaque
