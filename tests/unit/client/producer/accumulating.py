"""An accumulator with a clock of its own, and helpers for its batches."""

from __future__ import annotations

import random
from typing import Any

from librt.threading import Lock

from odradek.client.producer.buffer_pool import BufferPool
from odradek.client.producer.futures import CoroutineWait, ProduceRequestResult
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.settings import AccumulatorSettings
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.records import NO_HEADERS

BATCH_BYTES = 1_000
ROOMY = 1 << 20
BACKOFF_MS = 100


class SetClock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return 1_000_000 + self.now_ms


class Queues:
    """An accumulator with topic `t`, whose partitions have these leaders."""

    def __init__(
        self,
        leaders: tuple[int, ...] = (1,),
        buffer_bytes: int = ROOMY,
        linger_ms: int = 0,
        delivery_timeout_ms: int = 120_000,
        availability_timeout_ms: int = 0,
    ) -> None:
        self.clock = SetClock()
        self.pool = BufferPool(buffer_bytes, BATCH_BYTES, Lock())
        self.woken = 0
        self.accumulator = RecordAccumulator(
            AccumulatorSettings(
                batch_bytes=BATCH_BYTES,
                linger_ms=linger_ms,
                delivery_timeout_ms=delivery_timeout_ms,
                codec=0,
                level=None,
                adaptive=True,
                availability_timeout_ms=availability_timeout_ms,
            ),
            self.pool,
            Lock(),
            CoroutineWait(),
            self.clock,
            random.Random(1),
            ExponentialBackoff(BACKOFF_MS, BACKOFF_MS, random.Random(1)),
        )
        self.accumulator.wake = self._wake
        self.lead(*leaders)

    def _wake(self) -> None:
        self.woken += 1

    def lead(self, *leaders: int, topic: str = "t", epoch: int = 0) -> None:
        """Set the leaders of the topic's partitions."""
        self.accumulator.update_topic(topic, [(leader, epoch) for leader in leaders])

    def append(
        self, value: bytes, partition: int = 0, topic: str = "t", spare: Any = None
    ) -> tuple[ProduceRequestResult | None, int]:
        return self.accumulator.append(
            self.accumulator.topics[topic], partition, 1, None, value, NO_HEADERS, None, spare
        )

    def fill(self, value: bytes, partition: int = 0) -> ProduceRequestResult:
        """Append a record that nearly fills a batch."""
        result, index = self.append(value * 900, partition)
        assert result is not None and index == 0
        return result

    def ready(self) -> list[int]:
        return list(self.accumulator.ready(self.clock.now_ms).ready_nodes)

    def drain(self, *nodes: int, max_bytes: int = ROOMY) -> list[ProducerBatch]:
        """Drain the batches of one or several nodes as a sender does, as one list."""
        self.ready()
        drained = self.accumulator.drain(nodes or (1,), max_bytes, self.clock.now_ms)
        return [batch for batches in drained.values() for batch in batches]

    def finish(self, *batches: ProducerBatch) -> None:
        """Complete batches as written."""
        for batch in batches:
            batch.complete(0, -1)
            self.accumulator.deallocate(batch)


def first_bytes(batches: list[ProducerBatch]) -> list[bytes]:
    """Return the first byte of the first value of each batch."""
    return [values(batch)[0][:1] for batch in batches]


def values(batch: ProducerBatch) -> list[bytes]:
    header = RecordBatchHeader(batch.data, 0)
    return [record.value or b"" for record in records_of(batch.data, header)]


def partitions(batches: list[ProducerBatch]) -> list[int]:
    return [batch.topic_partition.partition for batch in batches]
