"""The settings of a producer, as its parts use them; `arguments` makes them of a configuration.

Times are in ms, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

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


class AccumulatorSettings:
    """What of the producer's settings concerns the queues; times in ms."""

    def __init__(
        self,
        *,
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
        delivery_timeout_ms: int = 120_000,
        codec: int = 0,
        level: int | None = None,
        adaptive: bool = True,
        availability_timeout_ms: int = 0,
    ) -> None:
        self.batch_bytes: i64 = max(1, batch_bytes)
        self.linger_ms: i64 = linger_ms
        self.delivery_timeout_ms: i64 = delivery_timeout_ms
        self.codec = codec
        self.level = level
        self.adaptive = adaptive
        self.availability_timeout_ms: i64 = availability_timeout_ms


Partitioner = Callable[[str, bytes | None, bytes | None, int], int | None]
"""(topic, key, value, number of partitions) -> partition; None: as if there were no partitioner."""


@final
class ProducerSettings:
    """All that a producer needs to be told; times in ms, sizes in bytes."""

    def __init__(
        self,
        accumulator: AccumulatorSettings,
        sender: SenderSettings,
        *,
        buffer_bytes: int = 33_554_432,
        max_block_ms: int = 60_000,
        idempotence: bool = True,
        ignore_keys: bool = False,
        partitioner: Partitioner | None = None,
    ) -> None:
        accumulator.batch_bytes = min(accumulator.batch_bytes, max(1, buffer_bytes))
        self.accumulator = accumulator
        self.sender = sender
        self.buffer_bytes = buffer_bytes
        self.max_block_ms = max_block_ms
        self.idempotence = idempotence
        self.ignore_keys = ignore_keys
        self.partitioner = partitioner
