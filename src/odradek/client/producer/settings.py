"""The settings of a producer, as its parts use them; `arguments` makes them of a configuration.

Times are in ms, sizes in bytes. There are no defaults here: `config.producer` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

Partitioner = Callable[[str, bytes | None, bytes | None, int], int | None]
"""(topic, key, value, number of partitions) -> partition; None: as without a partitioner."""


class AccumulatorSettings:
    """The settings of the `RecordAccumulator`. `codec` is a number of the protocol's."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        delivery_timeout_ms: int,
        codec: int,
        level: int | None,
        adaptive: bool,
        availability_timeout_ms: int,
    ) -> None:
        self.batch_bytes: i64 = max(1, batch_bytes)
        self.linger_ms: i64 = linger_ms
        self.delivery_timeout_ms: i64 = delivery_timeout_ms
        self.codec = codec
        self.level = level
        self.adaptive = adaptive
        self.availability_timeout_ms: i64 = availability_timeout_ms


class SenderSettings:
    """What the `Sender` needs to know: acks, sizes and limits of requests, retries."""

    def __init__(
        self,
        *,
        acks: int,
        max_in_flight: int,
        max_request_bytes: int,
        request_timeout_ms: int,
        retries: int,
    ) -> None:
        self.acks = acks
        self.max_in_flight = max_in_flight
        self.max_request_bytes = max_request_bytes
        self.request_timeout_ms = request_timeout_ms
        self.retries = retries


@final
class ProducerSettings:
    """All settings of a producer. A batch is never larger than the buffer."""

    def __init__(
        self,
        accumulator: AccumulatorSettings,
        sender: SenderSettings,
        *,
        buffer_bytes: int,
        max_block_ms: int,
        idempotence: bool,
        ignore_keys: bool,
        partitioner: Partitioner | None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 0,
    ) -> None:
        accumulator.batch_bytes = min(accumulator.batch_bytes, max(1, buffer_bytes))
        self.accumulator = accumulator
        self.sender = sender
        self.buffer_bytes = buffer_bytes
        self.max_block_ms = max_block_ms
        self.idempotence = idempotence
        self.ignore_keys = ignore_keys
        self.partitioner = partitioner
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
