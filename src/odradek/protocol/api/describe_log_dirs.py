"""DescribeLogDirs"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class DescribableLogDirTopic:
    """Each topic that we want to describe log directories for, or null for all topics."""

    topic: str
    partitions: list[i32]


@message(api=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest:
    """"""

    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    """The partitions."""

    partition_index: i32
    partition_size: i64
    offset_lag: i64
    is_future_key: bool


@struct
class DescribeLogDirsTopic:
    """The topics."""

    name: str
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    """The log directories."""

    error_code: i16
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: i64 = field(default=-1, since=4, ignorable=True)
    usable_bytes: i64 = field(default=-1, since=4, ignorable=True)
    is_cordoned: bool = field(default=False, since=5, ignorable=True)


@message(api=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    error_code: i16 = field(default=0, since=3, ignorable=True)
    results: list[DescribeLogDirsResult]
