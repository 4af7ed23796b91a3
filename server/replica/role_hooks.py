"""The callbacks of services for the roles of a replica: see `Service.on_replica`."""

from ...engine.error_text import described
from ...services.base import ReplicaInfo, Role, RoleCallback
from ..config import ServiceSpec
from ..context import ReplicaContext
from ..master.service_class import load_service

__all__ = ["RoleHooks"]

_PLATFORM = __name__.partition(".")[0] + "."
"""Beginning of the names of built-in services, which have no such callbacks."""


class RoleHooks:
    """Calls the services of a replica with each of its roles. What they raise is logged, and ends nothing."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._callbacks: list[tuple[str, RoleCallback]] = []
        self._role: Role | None = None

    @property
    def any(self) -> bool:
        """Whether a service wants to know the roles."""
        return bool(self._callbacks)

    def open(self) -> None:
        """Ask each service for its callback. Call this once, when the replica starts."""
        for spec in self._context.replica.services:
            if not spec.class_name.startswith(_PLATFORM):
                self._ask(spec)

    def follow(self, role: Role) -> None:
        """Call the callbacks with a role, if it is another one than before."""
        if role is self._role or self._role is Role.STOPPED:
            return
        self._role = role
        for name, callback in self._callbacks:
            try:
                callback(role)
            except (Exception, SystemExit) as error:
                self._report(f"the callback of {name} for the role {role} failed", error)

    def _ask(self, spec: ServiceSpec) -> None:
        context, name = self._context, spec.short_name
        info = ReplicaInfo(
            context.server.id,
            context.server.name,
            context.replica.id,
            spec.args,
            context.reactor,
            lambda line: context.log(f"{name}: {line}"),
        )
        try:
            callback = load_service(spec.class_name).on_replica(info)
        except (Exception, SystemExit) as error:
            self._report(f"on_replica of {name} failed", error)
            return
        if callback is not None:
            self._callbacks.append((name, callback))

    def _report(self, what: str, error: BaseException) -> None:
        self._context.metrics.count("service_errors")
        self._context.log(f"{what}: {': '.join(described(error))}")
