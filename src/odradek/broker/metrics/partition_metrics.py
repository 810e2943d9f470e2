"""Metrics of single partitions, on a page of their own: there may be a hundred thousand.

A partition whose log is not open (its directory failed, or its files could not be read) has only
`odradek_partition_offline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.metrics.metric import PAUSE, Kind, Metric, Read, Sample, View

if TYPE_CHECKING:
    from odradek.broker.metrics.scrape import Scrape
    from odradek.replication.partition import Partition

LABELS = ("topic", "partition")


def of_open_logs(value: Callable[[Partition], int]) -> Read:
    """Read a value of each partition whose log is open."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for partition in scrape.partitions:
            if partition.failure:
                yield PAUSE
            else:
                yield partition.topic_partition, value(partition)

    return read


def of_partitions(value: Callable[[Partition], int]) -> Read:
    """Read a value of each partition."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for partition in scrape.partitions:
            yield partition.topic_partition, value(partition)

    return read


def row(name: str, kind: Kind, unit: str, help_text: str, read: Read) -> Metric:
    return Metric(name, kind, unit, LABELS, help_text, read, View.PARTITIONS)


ROWS = (
    row(
        "odradek_partition_offline",
        Kind.GAUGE,
        "boolean",
        "1 if the partition's log cannot be used: its data directory failed or its files are "
        "damaged.",
        of_partitions(lambda partition: int(bool(partition.failure))),
    ),
    row(
        "odradek_partition_log_start_offset",
        Kind.GAUGE,
        "offset",
        "The first offset that can be read.",
        of_open_logs(lambda partition: partition.log.log_start_offset),
    ),
    row(
        "odradek_partition_high_watermark",
        Kind.GAUGE,
        "offset",
        "The offset up to which consumers read.",
        of_open_logs(lambda partition: partition.high_watermark),
    ),
    row(
        "odradek_partition_flushed_offset",
        Kind.GAUGE,
        "offset",
        "The offset up to which the log is on disk.",
        of_open_logs(lambda partition: partition.log.flushed_offset),
    ),
    row(
        "odradek_partition_log_end_offset",
        Kind.GAUGE,
        "offset",
        "The offset that the next record gets.",
        of_open_logs(lambda partition: partition.log.log_end_offset),
    ),
    row(
        "odradek_partition_log_size_bytes",
        Kind.GAUGE,
        "bytes",
        "Bytes of the log's segments.",
        of_open_logs(lambda partition: partition.log.segments.size),
    ),
    row(
        "odradek_partition_appended_records_total",
        Kind.COUNTER,
        "records",
        "Records appended since the log was opened.",
        of_open_logs(lambda partition: partition.log.appended_records),
    ),
    row(
        "odradek_partition_appended_bytes_total",
        Kind.COUNTER,
        "bytes",
        "Bytes appended since the log was opened.",
        of_open_logs(lambda partition: partition.log.appended_bytes),
    ),
    row(
        "odradek_partition_fetched_bytes_total",
        Kind.COUNTER,
        "bytes",
        "Bytes of records in the responses to fetches.",
        of_partitions(lambda partition: partition.fetched_bytes),
    ),
    row(
        "odradek_partition_segments",
        Kind.GAUGE,
        "segments",
        "Segments of the log.",
        of_open_logs(lambda partition: len(partition.log.segments)),
    ),
)
