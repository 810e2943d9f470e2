"""What of a producer's settings concerns sending."""

from __future__ import annotations

INT_MAX = 2**31 - 1


class SenderSettings:
    """What of the producer's settings concerns sending."""

    def __init__(
        self,
        *,
        acks: int = -1,
        max_in_flight: int = 5,
        max_request_bytes: int = 1_048_576,
        request_timeout_ms: int = 30_000,
        retries: int = INT_MAX,
    ) -> None:
        self.acks = acks
        self.max_in_flight = max_in_flight
        self.max_request_bytes = max_request_bytes
        self.request_timeout_ms = request_timeout_ms
        self.retries = retries
