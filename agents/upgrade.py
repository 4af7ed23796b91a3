"""Upgrade functions: the values of a former version of a class become those of the next version.

A stored agent, and a notification on its way, carry the name and the version of their class. A later version
of the class has one function for each step from version to version. They work on plain maps, because the
former classes need not exist any more.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs
import msgspec

from .names import AgentError, check_whole_name, location, split_name
from .nesting import TOO_DEEP, nested_too_deep
from .origin import raised_at

__all__ = ["UpgradeChain", "UpgradeError", "upgrade_chain", "upgrades"]

F = TypeVar("F", bound="Callable[[dict[str, Any]], dict[str, Any]] | staticmethod[Any, Any]")
UpgradeFunction = Callable[[dict[str, Any]], object]

_MARK: Final = "__quorate_upgrades__"
_encoder: Final = msgspec.msgpack.Encoder()


class UpgradeError(ValueError):
    """Raised for values of a former version that cannot be made those of the present one.

    The text names both versions, the function and what is wrong.
    """


@attrs.frozen
class _Step:
    version: int
    also: tuple[str, ...]


def upgrades(*, from_version: int, also: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Mark a static method of an agent or notification class as the upgrade from a version to the next one::

        @attrs.define
        class Account(Agent, name="bank.account", version=2):
            cents: int = 0

            @staticmethod
            @upgrades(from_version=1)
            def in_cents(values: dict[str, Any]) -> dict[str, Any]:
                values["cents"] = values.pop("balance") * 100
                return values

    The function gets the attributes as they were stored: numbers, texts, bytes, lists and dicts, with tuples
    and sets as lists and objects as dicts. It returns those of version `from_version` + 1; it may change and
    return the dict that it got. Every replica calls it, so its result may depend on nothing else.

    `also` holds other whole names under which that version is stored: ``bank:Account`` from before the class
    had a name, or ``bank.konto/1`` from before it was renamed.
    Raises AgentError for what cannot be a version or a name.
    """
    if type(from_version) is not int or from_version < 1:
        raise AgentError(f"{from_version!r} in @upgrades is not a version; give a number from 1")
    if not isinstance(also, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise AgentError("also in @upgrades is a tuple of names, like ('bank:Account',)")

    def mark(function: F) -> F:
        # The mark of a static method is that of the function in it.
        setattr(getattr(function, "__func__", function), _MARK, _Step(from_version, also))
        return function

    return mark


@attrs.frozen
class UpgradeChain:
    """The upgrades of one class, from the oldest version that it reads to its own."""

    name: str
    """The own name of the class: ``bank.account/3``."""
    steps: Mapping[int, UpgradeFunction]
    """The function for each version but the last."""
    names: Mapping[str, int]
    """The whole names of former versions, with the version."""

    def apply(self, name: str, values: object) -> dict[str, Any]:
        """Return the values of the present version for those stored under `name`, one of `names`.

        Raises UpgradeError.
        """
        first = self.names[name]
        for version in range(first, first + len(self.steps)):
            step = self.steps.get(version)
            if step is None:
                break
            if not isinstance(values, dict):
                raise UpgradeError(f"{name} cannot become {self.name}: its values are no map")
            values = self._stepped(step, name, version, values)  # pyright: ignore[reportUnknownArgumentType]
        return values  # type: ignore[return-value]  # pyright: ignore

    def _stepped(
        self, step: UpgradeFunction, name: str, version: int, values: dict[str, Any]
    ) -> dict[str, Any]:
        where = f"{name} cannot become {self.name}: the upgrade from version {version}"
        function = getattr(step, "__qualname__", "function")
        try:
            made = step(values)
        except (Exception, SystemExit) as error:
            kind = type(error).__name__
            raise UpgradeError(
                f"{where}, {function}, raised {kind}: {error}{raised_at(error)}; correct it"
            ) from error
        if not isinstance(made, dict) or not all(isinstance(key, str) for key in made):  # pyright: ignore
            returned = "a dict with other keys than texts" if isinstance(made, dict) else type(made).__name__
            raise UpgradeError(
                f"{where}, {function}, returned {returned}; return a dict of attributes by name"
            )
        return made  # pyright: ignore[reportUnknownVariableType]

    def apply_encoded(self, name: str, data: bytes) -> bytes:
        """Return the encoded values of the present version. Raises UpgradeError, or what decoding raises."""
        values = self.apply(name, msgspec.msgpack.decode(data))
        try:
            made = _encoder.encode(values)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UpgradeError(
                f"{name} cannot become {self.name}: what its upgrade returned cannot be stored: {error}"
            ) from error
        if nested_too_deep(made):
            raise UpgradeError(f"{name} cannot become {self.name}: {TOO_DEEP}")
        return made


def upgrade_chain(cls: type, own: str, names: tuple[str, ...]) -> UpgradeChain | None:
    """Return the upgrades in the body of a class, None if there are none.

    `own` is the name of the class, `names` all names that it reads as they are.
    Raises AgentError: the class has no name of its own, a version occurs twice, is missing or is not a former
    one, or a name is already in `names`.
    """
    functions = {
        key: value.__func__ if isinstance(value, staticmethod) else value for key, value in vars(cls).items()
    }
    marked = [(key, each) for key, each in functions.items() if isinstance(getattr(each, _MARK, None), _Step)]
    if not marked:
        return None
    where = location(cls)
    parts = split_name(own)
    if parts is None:
        raise AgentError(
            f'{where} has upgrades and no name; write class {cls.__name__}(..., name="...", version=2), and '
            f"list {where!r} in also of the upgrade from version 1"
        )
    base, version = parts
    steps: dict[int, UpgradeFunction] = {}
    former: dict[str, int] = {}
    for key, function in marked:
        step: _Step = getattr(function, _MARK)
        if step.version >= version:
            raise AgentError(
                f"{where}.{key} is an upgrade from version {step.version}, and the class is version "
                f"{version}; give the class the version {step.version + 1} or a later one"
            )
        if step.version in steps:
            raise AgentError(f"{where} has two upgrades from version {step.version}; keep one of them")
        steps[step.version] = function
        for name in (f"{base}/{step.version}", *step.also):
            check_whole_name(name, where)
            if name in names or name in former:
                raise AgentError(
                    f"{where}.{key}: {name} is read in another way by this class, too; list it once"
                )
            former[name] = step.version
    for needed in range(min(steps), version):
        if needed not in steps:
            raise AgentError(
                f"{where} has an upgrade from version {min(steps)}, and none from version {needed}; add a "
                f"static method @upgrades(from_version={needed})"
            )
    return UpgradeChain(own, dict(sorted(steps.items())), former)
