"""Envelope (key 58, version 0): a client's request that a broker sends on to the active controller.

The request inside is whole: its header, with the client's correlation id and client id, and its
body, as they came. The answer inside is whole likewise. An error of the envelope is for the broker
that sent it on: NOT_CONTROLLER means that the request was not handled and may be sent to another
node, UNSUPPORTED_VERSION that the controller does not serve it (KIP-590).
"""

from __future__ import annotations

from odradek.protocol.schema import i16, message


@message(api=58, versions=(0, 0), flexible=0)
class EnvelopeRequest:
    """The request of a client, and who sent it."""

    request_data: bytes
    """Header and body, without the length."""
    request_principal: bytes | None
    """The client's principal (`protocol.principal`)."""
    client_host_address: bytes
    """The client's IP address: 4 or 16 bytes."""


@message(api=58, versions=(0, 0), flexible=0)
class EnvelopeResponse:
    """The answer to the request inside, or why there is none."""

    response_data: bytes | None = None
    """Header and body, without the length; null with an error."""
    error_code: i16 = 0
