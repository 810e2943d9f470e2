"""SaslHandshake (key 17, versions 0 to 1): choose the mechanism of SASL (KIP-43).

1: SaslAuthenticate requests follow, instead of bare tokens (KIP-152).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, message


@message(api=17, versions=(0, 1), flexible=None)
class SaslHandshakeRequest:
    """Choose a mechanism."""

    mechanism: str


@message(api=17, versions=(0, 1), flexible=None)
class SaslHandshakeResponse:
    """The error or none, and the mechanisms that the listener has."""

    error_code: i16
    mechanisms: list[str] = field(factory=list)
