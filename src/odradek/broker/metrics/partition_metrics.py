"""Metrics of single partitions, on a page of their own: there may be a hundred thousand.

A partition whose log is not open (its directory failed, or its files could not be read) has only
`odradek_partition_offline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.metrics.metric import Found, Kind, Metric, MetricsPage, Read, SampleColumn

if TYPE_CHECKING:
    from odradek.broker.metrics.scrape import Scrape
    from odradek.replication.partition import Partition

LABELS = ("topic", "partition")


def of_open_logs(values: Callable[[list[Partition]], list[int]]) -> Read:
    """Read a value of each partition whose log is open; `values` has those of some."""

    def read(scrape: Scrape) -> Iterator[Found]:
        for block in scrape.blocks():
            online = [partition for partition in block.partitions if not partition.failure]
            yield SampleColumn(block.keys_of(online), values(online))

    return read


def of_served(values: Callable[[list[Partition]], list[int]]) -> Read:
    """Read a value of each partition that this broker leads and serves."""

    def read(scrape: Scrape) -> Iterator[Found]:
        for block in scrape.blocks():
            served = [partition for partition in block.partitions if not partition.leader_error]
            yield SampleColumn(block.keys_of(served), values(served))

    return read


def of_partitions(values: Callable[[list[Partition]], list[int]]) -> Read:
    """Read a value of each partition; `values` has those of some."""

    def read(scrape: Scrape) -> Iterator[Found]:
        for block in scrape.blocks():
            yield SampleColumn(block.keys, values(block.partitions))

    return read


def row(name: str, kind: Kind, unit: str, help_text: str, read: Read) -> Metric:
    return Metric(name, kind, unit, LABELS, help_text, read, MetricsPage.PARTITIONS)


ROWS = (
    row(
        "odradek_partition_offline",
        Kind.GAUGE,
        "boolean",
        "1 if the partition's log cannot be used: its data directory failed or its files are "
        "damaged.",
        of_partitions(lambda partitions: [int(bool(each.failure)) for each in partitions]),
    ),
    row(
        "odradek_partition_log_start_offset",
        Kind.GAUGE,
        "offset",
        "The first offset that can be read.",
        of_open_logs(lambda partitions: [each.log.log_start_offset for each in partitions]),
    ),
    row(
        "odradek_partition_high_watermark",
        Kind.GAUGE,
        "offset",
        "The offset up to which consumers read.",
        of_open_logs(lambda partitions: [each.high_watermark for each in partitions]),
    ),
    row(
        "odradek_partition_flushed_offset",
        Kind.GAUGE,
        "offset",
        "The offset up to which the log is on disk.",
        of_open_logs(lambda partitions: [each.log.flushed_offset for each in partitions]),
    ),
    row(
        "odradek_partition_log_end_offset",
        Kind.GAUGE,
        "offset",
        "The offset that the next record gets.",
        of_open_logs(lambda partitions: [each.log.log_end_offset for each in partitions]),
    ),
    row(
        "odradek_partition_log_size_bytes",
        Kind.GAUGE,
        "bytes",
        "Bytes of the log's segments.",
        of_open_logs(lambda partitions: [each.log.segments.size for each in partitions]),
    ),
    row(
        "odradek_partition_appended_records_total",
        Kind.COUNTER,
        "records",
        "Records appended here as the leader since the log was opened.",
        of_open_logs(lambda partitions: [each.appended_records for each in partitions]),
    ),
    row(
        "odradek_partition_appended_bytes_total",
        Kind.COUNTER,
        "bytes",
        "Bytes of those.",
        of_open_logs(lambda partitions: [each.appended_bytes for each in partitions]),
    ),
    row(
        "odradek_partition_fetched_bytes_total",
        Kind.COUNTER,
        "bytes",
        "Bytes of records in the responses to fetches of consumers.",
        of_partitions(lambda partitions: [each.fetched_bytes for each in partitions]),
    ),
    row(
        "odradek_partition_replication_received_bytes_total",
        Kind.COUNTER,
        "bytes",
        "Bytes appended here as a follower since the log was opened.",
        of_open_logs(lambda partitions: [each.bytes_from_leader for each in partitions]),
    ),
    row(
        "odradek_partition_replication_sent_bytes_total",
        Kind.COUNTER,
        "bytes",
        "Bytes of records in the responses to fetches of followers.",
        of_partitions(lambda partitions: [each.bytes_to_followers for each in partitions]),
    ),
    row(
        "odradek_partition_segments",
        Kind.GAUGE,
        "segments",
        "Segments of the log.",
        of_open_logs(lambda partitions: [len(each.log.segments) for each in partitions]),
    ),
)
