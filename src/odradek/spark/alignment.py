"""Cutting micro-batches at one record time in all partitions (`maxTimestampSpanPerTrigger`).

Spark has one watermark for all partitions: the latest event time of any partition, less a delay. In
a backlog, a cut by numbers of records takes the same *share* of each partition, and equal shares
are not equal times: a partition that was busier in its early days is days behind the others after a
few batches. Its records are then behind the watermark, count as late, and are dropped.

So a batch ends at one record time T in all partitions:

    T = (earliest timestamp of any record waiting) + span
    end of a partition = offset of its first record with a timestamp >= T, its head if there is none

Partitions then advance through record time together, as when they were written. T depends only on
the start offsets, so a restart cuts the same batches. T is beyond a waiting record, so every batch
makes progress.

Record timestamps need not be ordered within a partition: the cut is at the first younger record (as
ListOffsets finds it), and the records behind it are read in later batches.
"""

from __future__ import annotations

from odradek import TopicPartition
from odradek.client.errors import ApiTimeout, OffsetOutOfRange
from odradek.config.consumer import ConsumerConfig
from odradek.spark.connections import FetchOptions, borrow_consumer
from odradek.spark.offsets import Offsets
from odradek.spark.options import ClientOptions
from odradek.spark.topics import NO_OFFSET, Topics

ABOUT_ONE_BATCH_BYTES = 65_536


def align(topics: Topics, begin: Offsets, heads: Offsets, span_ms: int) -> Offsets:
    """Return `heads`, cut at one record time. `begin` has every partition of `heads`."""
    waiting = {p: begin[p] for p, head in heads.items() if begin[p] < head}
    if not waiting:
        return heads
    first = first_timestamps(topics.options.client, waiting, heads)
    if not first:
        return heads
    cut_ms = min(first.values()) + span_ms
    found = topics.admin.list_offsets(dict.fromkeys(waiting, cut_ms))
    return {
        p: end_of(begin[p], head, found[p].offset, first.get(p, cut_ms) < cut_ms)
        if p in waiting
        else head
        for p, head in heads.items()
    }


def end_of(begin: int, head: int, cut: int, waits: bool) -> int:
    """Return the end of a batch in one partition.

    `cut`: the first offset at or beyond T, -1 if there is none; `waits`: the next record is before
    T.
    """
    if cut == NO_OFFSET:
        return head
    if cut < begin and waits:
        # Timestamps out of order: the record at the cut has already been read.
        return head
    return max(begin, min(cut, head))


def first_timestamps(
    client: ClientOptions, waiting: Offsets, heads: Offsets
) -> dict[TopicPartition, int]:
    """Return the timestamp of the next record of each partition that has one."""
    found: dict[TopicPartition, int] = {}
    one_batch = FetchOptions(
        client,
        read_committed=False,
        max_bytes=ConsumerConfig.fetch_max_bytes.default,
        max_partition_bytes=ABOUT_ONE_BATCH_BYTES,
    )
    with borrow_consumer(one_batch) as consumer:
        consumer.assign({p: (begin, heads[p]) for p, begin in waiting.items()})
        while len(found) < len(waiting):
            try:
                record = consumer.poll(client.api_timeout_ms / 1000)
            except OffsetOutOfRange as gone:
                # Trimmed meanwhile: `partitions` reports it; skip the partition here.
                for partition in gone.offsets:
                    consumer.seek(partition, heads[partition])
                continue
            if record is None:
                late = [p for p in waiting if consumer.position(p) < heads[p]]
                if late:
                    raise ApiTimeout(f"{late[0]}: no record within {client.api_timeout_ms} ms")
                break
            partition = record.topic_partition
            found[partition] = record.timestamp_ms
            consumer.seek(partition, heads[partition])
    return found
