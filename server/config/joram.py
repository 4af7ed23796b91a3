"""Names of A3 and Joram in a configuration: the services that Quorate has too, and what it ignores."""

import re
from typing import Final

from .servers import CONNECTION_MANAGER, TCP_PROXY_SERVICE

__all__ = ["ALIASES", "is_encrypted", "is_java", "is_joram_property", "is_joram_service"]

ALIASES: Final = {
    "org.objectweb.joram.mom.proxies.ConnectionManager": CONNECTION_MANAGER,
    "org.objectweb.joram.mom.proxies.tcp.TcpProxyService": TCP_PROXY_SERVICE,
}
"""Java services, by class, and the services of Quorate that replace them."""

_PACKAGES: Final = ("org.objectweb.joram.", "org.ow2.joram.", "fr.dyade.aaa.", "com.scalagent.")
_JAVA: Final = (*_PACKAGES, "org.objectweb.", "org.ow2.", "fr.dyade.", "java.", "javax.")
_OWN_PACKAGES: Final = frozenset(name.rpartition(".")[0] for name in ALIASES)
_ENCRYPTED: Final = re.compile("ssl|tls|https|crypt", re.IGNORECASE)
_PROPERTY: Final = re.compile(
    r"(N|NG|DB|Null)?Transaction(\..*)?|NTLog\w+|NTNo\w+|Engine|A3(CONF|DEBUG)_\w+|\w*Network\..+"
    r"|(fr\.dyade|org\.objectweb|org\.ow2|com\.scalagent)\..+"
)


def is_java(class_name: str) -> bool:
    """Return whether the class is one of Java, A3 or Joram."""
    return class_name.startswith(_JAVA)


def is_joram_service(class_name: str) -> bool:
    """Return whether the class can be a service of A3 or Joram that Quorate does without, such as JNDI.

    A class in the package of a service that Quorate has is none: its name is more likely misspelt.
    """
    return class_name.startswith(_PACKAGES) and class_name.rpartition(".")[0] not in _OWN_PACKAGES


def is_encrypted(class_name: str) -> bool:
    """Return whether the class, of a service or of a network, encrypts its connections, by its name."""
    return _ENCRYPTED.search(class_name.rpartition(".")[2]) is not None


def is_joram_property(name: str) -> bool:
    """Return whether A3 or Joram read the property, such as Transaction or HttpNetwork.ActivationPeriod."""
    return _PROPERTY.fullmatch(name) is not None
