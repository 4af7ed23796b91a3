"""A transport for Kombu, so that Celery runs on Quorate: ``quorate://user:password@host:port,host:port``.

Importing this package makes the schemes ``quorate`` and ``quorates`` known to Kombu. It is for the programs
of users: nothing on a server imports it. It needs Kombu, the extra ``quorate[celery]``.
"""

from .facade import ALIASES
from .transport import Transport

__all__ = ["Transport"]

ALIASES.update(dict.fromkeys(("quorate", "quorates"), f"{__name__}:Transport"))
