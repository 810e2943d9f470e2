"""A record that could not be taken in at once: it waits for metadata, then for memory.

    start ─► the topic is known? ─► it has the partition? ─► append ─┬─► done: the record's future
      ▲          ▲    no: ask again ─┘                        ▲      └─► no memory: stand in the
      │          └── UNKNOWN_TOPIC_OR_PARTITION: ask again    └─────────  queue for it ─┐
      └── the topic was forgotten meanwhile ────────────────────────────────────────────┘

It ends once, with its waiter: in a future, in an error that will not pass, or after `max.block.ms`
for both waits together. Who no longer wants it fails the waiter; then nothing was queued, and
whatever memory it was given in the meantime goes back.

Owner thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.client.cluster_image import ClusterImage
from odradek.client.errors import KafkaError, MaxBlockTimeout, UnknownTopicOrPartition, error_for
from odradek.client.metadata import Metadata
from odradek.client.producer.buffer_pool import Buffer, MemoryWaiter
from odradek.client.producer.delivery import FutureRecordMetadata
from odradek.client.producer.producer_record import ProducerRecord
from odradek.client.topic_names import checked_topic
from odradek.client.waiter import Waiter
from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.client.producer.producer import ProducerCore


GIVEN_UP = KafkaError("nobody wants this memory any more")


class PendingSend:
    """One record on its way in."""

    def __init__(self, core: ProducerCore, record: ProducerRecord, max_block_ms: int) -> None:
        self.waiter: Waiter[FutureRecordMetadata] = Waiter()
        self.record = record
        self._core = core
        self._max_block_ms = max_block_ms
        self._memory: MemoryWaiter | None = None
        self._task = core.engine.timer.call_later(max_block_ms, self._late)
        self.waiter.add_callback(self._ended)

    def start(self) -> None:
        """Take the record in, or wait until that can be done."""
        if self.waiter.done:
            return
        core, record = self._core, self.record
        try:
            checked_topic(record.topic)
        except KafkaError as error:
            self.waiter.fail(error)
            return
        metadata = core.engine.metadata
        info = metadata.image.topics.get(record.topic)
        if metadata.fatal is not None:
            self.waiter.fail(metadata.fatal)
        elif info is not None and info.error and not info.error.retriable:
            self.waiter.fail(error_for(info.error, f"topic {record.topic}"))
        elif info is None or info.error or record.partition >= info.count:
            version = metadata.image.version
            if info is not None:
                metadata.request_update()
            metadata.add_topic(record.topic)
            metadata.newer_than(version).add_callback(self._metadata_came)
        else:
            core.topic_known(metadata.image, info)
            self._append(None)

    def _metadata_came(self, waiter: Waiter[ClusterImage]) -> None:
        if waiter.error is not None:
            self.waiter.fail(waiter.error)
        else:
            self.start()

    def _append(self, spare: Buffer | None) -> None:
        try:
            future = self._core.routing.append(self.record, spare)
        except Exception as error:
            self.waiter.fail(error)
            return
        if future is not None:
            self.waiter.complete(future)
            return
        self._memory = self._core.wait_for_memory(self.record)
        self._memory.waiter.add_callback(self._memory_came)

    def _memory_came(self, waiter: Waiter[Buffer]) -> None:
        self._memory = None
        if waiter.error is not None:
            self.waiter.fail(waiter.error)
        elif self._core.routing.knows_topic(self.record):
            self._append(waiter.result())
        else:
            self._core.accumulator.pool.put_back(waiter.result())
            self.start()

    def _ended(self, waiter: Waiter[FutureRecordMetadata]) -> None:
        """It is in, or somebody has had enough; then it makes way for others who want memory."""
        self._task.cancel()
        memory, self._memory = self._memory, None
        if memory is not None:
            self._core.accumulator.pool.give_up(memory, GIVEN_UP)

    def _late(self) -> None:
        self.waiter.fail(self._why())

    def _why(self) -> KafkaError:
        """What there was to wait for until the end."""
        record, metadata = self.record, self._core.engine.metadata
        within = f"within max.block.ms={self._max_block_ms}"
        if self._memory is not None:
            pool = self._core.accumulator.pool
            return MaxBlockTimeout(
                f"there was no room {within} for a record for {record.topic}: {pool.charged_bytes} "
                f"of buffer.memory={pool.total_bytes} bytes are in use. What to do: send more "
                "slowly, raise buffer.memory, or see why the brokers do not take more"
            )
        info = metadata.image.topics.get(record.topic)
        if info is None or info.error:
            return topic_unknown(record.topic, metadata, self._max_block_ms)
        return UnknownTopicOrPartition(
            f"topic {record.topic} has no partition {record.partition}, but 0 to {info.count - 1}, "
            f"and got none {within}. What to do: give one of those, or none",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )


def topic_unknown(topic: str, metadata: Metadata, max_block_ms: int) -> KafkaError:
    """Why a topic did not become known."""
    within = f"within max.block.ms={max_block_ms}"
    info = metadata.image.topics.get(topic)
    if info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicOrPartition(
            f"there is no topic {topic}, and none was made {within}. "
            f"What to do: {UnknownTopicOrPartition.advice}",
            info.error,
        )
    said = metadata.trouble or (info.error.name if info is not None else "no answer")
    return MaxBlockTimeout(
        f"nothing could be learnt {within} of topic {topic}: {said}. What to do: check "
        "bootstrap.servers and the brokers, or raise max.block.ms"
    )
