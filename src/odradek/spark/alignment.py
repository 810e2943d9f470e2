"""Cutting micro-batches at one record time in all partitions (`maxTimestampSpanPerTrigger`).

Spark has one watermark for all partitions: the latest event time seen anywhere, less a delay. When
a backlog is read, a cut by numbers of records takes the same *share* of each partition, and equal
shares are not equal times: a partition that was busier in its early days is days behind the others
after a few batches. What it brings then is behind the watermark, counts as late, and is dropped.

So a batch ends at one record time T in all partitions:

    T = (earliest timestamp of any record waiting) + span
    end of a partition = offset of its first record with a timestamp >= T, its head if there is none

Partitions then advance through record time together, as they did when they were written. T is
derived from the start offsets alone, so a restart cuts the same batches. T is beyond a waiting
record by construction, so every batch makes progress.

Record timestamps need not be ordered within a partition: the cut is where the first younger record
stands (as ListOffsets finds it), and what lies behind it waits for its turn.
"""

from __future__ import annotations

from odradek.client.simple.cluster import NO_OFFSET, Cluster
from odradek.client.simple.range_fetcher import RangeFetcher
from odradek.model.ids import TopicPartition
from odradek.protocol.record_batch import batches, records_of
from odradek.spark.offsets import Offsets

ABOUT_ONE_BATCH_BYTES = 65_536


def align(cluster: Cluster, begin: Offsets, heads: Offsets, span_ms: int) -> Offsets:
    """`heads`, cut at one record time. `begin` has every partition of `heads`."""
    waiting = {p: begin[p] for p, head in heads.items() if begin[p] < head}
    if not waiting:
        return heads
    first = first_timestamps(cluster, waiting, heads)
    if not first:
        return heads
    cut_ms = min(first.values()) + span_ms
    found = cluster.list_offsets(dict.fromkeys(waiting, cut_ms))
    return {
        p: end_of(begin[p], head, found[p].offset, first.get(p, cut_ms) < cut_ms)
        if p in waiting
        else head
        for p, head in heads.items()
    }


def end_of(begin: int, head: int, cut: int, waits: bool) -> int:
    """Where a partition's part of the batch ends.

    `cut`: the first offset at or beyond T, -1 if there is none; `waits`: the next record is before
    T.
    """
    if cut == NO_OFFSET:
        return head
    if cut < begin and waits:
        # Timestamps out of order: the record at the cut has been read already, and says nothing.
        return head
    return max(begin, min(cut, head))


def first_timestamps(
    cluster: Cluster, waiting: Offsets, heads: Offsets
) -> dict[TopicPartition, int]:
    """The timestamp of the next record of each partition."""
    found: dict[TopicPartition, int] = {}

    def gone(partition: TopicPartition, position: int) -> int:
        """Trimmed meanwhile: `partitions` reports it; here the partition just has no say."""
        return heads[partition]

    fetcher = RangeFetcher(
        cluster,
        {p: (begin, begin + 1) for p, begin in waiting.items()},
        out_of_range=gone,
        max_partition_bytes=ABOUT_ONE_BATCH_BYTES,
    )
    for fetched in fetcher:
        data = fetched.records
        for header in batches(data.data, data.start, data.end):
            if header.is_control or fetched.topic_partition in found:
                continue
            for record in records_of(data.data, header):
                if record.offset >= fetched.position:
                    found[fetched.topic_partition] = record.timestamp
                    break
    return found
