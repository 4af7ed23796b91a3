"""Why a connection failed in TLS, as a sentence: from the codes and texts of OpenSSL."""

from typing import Final

__all__ = ["alert_reason", "verification_reason"]

EXPIRED: Final = 10
NOT_YET_VALID: Final = 9
SELF_SIGNED: Final = frozenset({18, 19})
NO_ISSUER: Final = frozenset({2, 20, 21, 27})
WRONG_PURPOSE: Final = 26
WRONG_HOST: Final = frozenset({62, 64})
"""The codes of OpenSSL for what is wrong with a certificate."""

ALERTS: Final = (
    ("certificate required", "it wants a certificate, and this side has none"),
    ("peer did not return a certificate", "it has no certificate"),
    ("alert certificate expired", "it says that the certificate of this side has expired"),
    ("alert unknown ca", "it does not know the authority of this side's certificate, or expects another one"),
    ("alert bad certificate", "it refuses the certificate of this side"),
    ("alert certificate unknown", "it refuses the certificate of this side"),
    ("alert unsupported certificate", "it refuses the certificate of this side for this purpose"),
    ("alert handshake failure", "it has no cipher in common with this side"),
    ("no shared cipher", "it has no cipher in common with this side"),
    ("protocol version", "it speaks another version of TLS; 1.2 and 1.3 are allowed"),
    ("unsupported protocol", "it speaks another version of TLS; 1.2 and 1.3 are allowed"),
    ("wrong version number", "it does not speak TLS"),
    ("http request", "it does not speak TLS, but HTTP"),
    ("packet length too long", "it does not speak TLS"),
    ("record layer failure", "it does not speak TLS"),
    ("unexpected eof", "it closed the connection before TLS was ready"),
)
"""Parts of the texts of OpenSSL, and what they mean."""


def verification_reason(code: int, text: str, depth: int, ended: str = "") -> str:
    """Say what is wrong with a certificate of the other side.

    code, text: of OpenSSL. depth: 0 for its own certificate, above for an authority. ended: when it expired.
    """
    whose = "its certificate" if depth == 0 else "the certificate of its authority"
    match code:
        case _ if code == EXPIRED:
            return f"{whose} has expired{f', on {ended}' if ended else ''}; renew it there"
        case _ if code == NOT_YET_VALID:
            return f"{whose} is not valid yet; compare the clocks"
        case _ if code in SELF_SIGNED or code in NO_ISSUER:
            return "its certificate comes from an authority that is not among those believed here"
        case _ if code == WRONG_PURPOSE:
            return f"{whose} is not meant for this purpose"
        case _ if code in WRONG_HOST:
            return "its certificate is for another host"
        case _:
            return f"{whose} cannot be believed ({text})"


def alert_reason(texts: str) -> str:
    """Say why TLS failed, from the texts of OpenSSL's errors."""
    lower = texts.lower()
    for part, sentence in ALERTS:
        if part in lower:
            return sentence
    return f"TLS failed ({texts or 'no reason is known'})"
