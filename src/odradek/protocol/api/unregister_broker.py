"""UnregisterBroker (key 64, version 0): remove a broker's registration from the cluster."""

from __future__ import annotations

from odradek.protocol.schema import i16, i32, message


@message(api=64, versions=(0, 0), flexible=0)
class UnregisterBrokerRequest:
    """The broker to remove."""

    broker_id: i32


@message(api=64, versions=(0, 0), flexible=0)
class UnregisterBrokerResponse:
    """The error or none."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
