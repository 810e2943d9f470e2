"""SaslAuthenticate (key 36, versions 0 to 2): one token of a SASL exchange (KIP-152).

- 1: the lifetime of the session (KIP-368). 2: flexible.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i64, message


@message(api=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    """A token of the client."""

    auth_bytes: bytes


@message(api=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse:
    """The error or none, and a token of the broker."""

    error_code: i16
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: i64 = field(default=0, since=1, ignorable=True, doc="0 for no limit.")
