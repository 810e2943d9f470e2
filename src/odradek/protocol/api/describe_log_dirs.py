"""DescribeLogDirs (key 35, versions 1 to 5): log directories and the sizes of partitions.

- 2: flexible. 3: an error for the whole response. 4: total and usable bytes of the volume
  (KIP-827).
- 5: whether the directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class DescribableLogDirTopic:
    """One topic."""

    topic: str
    partitions: list[i32]


@message(api=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest:
    """Describe log directories; null topics for all of them."""

    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    """One replica in the directory."""

    partition_index: i32
    partition_size: i64
    offset_lag: i64 = field(
        doc="Behind the high watermark, or a future replica behind its current."
    )
    is_future_key: bool = field(doc="Being moved here from another directory.")


@struct
class DescribeLogDirsTopic:
    """One topic."""

    name: str
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    """One log directory."""

    error_code: i16
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: i64 = field(default=-1, since=4, ignorable=True)
    usable_bytes: i64 = field(default=-1, since=4, ignorable=True)
    is_cordoned: bool = field(default=False, since=5, ignorable=True)


@message(api=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse:
    """Per log directory, its partitions and their sizes."""

    throttle_time_ms: i32 = 0
    error_code: i16 = field(default=0, since=3, ignorable=True)
    results: list[DescribeLogDirsResult]
