"""The settings of a producer as its parts need them; `arguments` makes them of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from odradek.client.producer.record_appender import AccumulatorSettings
from odradek.client.producer.sender_settings import SenderSettings

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
