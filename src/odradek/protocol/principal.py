"""The principal of a client as one broker tells it to another, in Kafka's own form.

    version i16 (0) · type · name · token authenticated · tags         all flexible

Without security every client is `User:ANONYMOUS`.
"""

from __future__ import annotations

from odradek.model.errors import ProtocolError
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import message

VERSION = 0
VERSION_BYTES = 2


@message(api=-1, versions=(0, 0), flexible=0)
class DefaultPrincipalData:
    """A user, or another kind of principal."""

    type: str
    name: str
    token_authenticated: bool = False


def encode_principal(principal: DefaultPrincipalData) -> bytes:
    """Return the bytes of a principal."""
    return VERSION.to_bytes(VERSION_BYTES, "big") + encode_bytes(principal, VERSION)


def decode_principal(data: bytes) -> DefaultPrincipalData:
    """Return the principal in these bytes. Raises `ProtocolError`."""
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version != VERSION:
        raise ProtocolError(f"a principal of version {version} with {len(data)} bytes")
    return decode(DefaultPrincipalData, version, data, VERSION_BYTES)


ANONYMOUS = DefaultPrincipalData(type="User", name="ANONYMOUS")
