"""Broker settings of logs and of log compaction.

Most of these have a topic-level form (`topic.TopicConfig`), which takes type, default and rules
from the line here. They may change while the broker runs, and every topic without a value of its
own follows.

There is always one cleaner: Kafka's `log.cleaner.threads` has no effect, and `log.cleaner.enable`
does not exist here.
"""

from __future__ import annotations

from odradek.config.setting import (
    GIB,
    HOUR_MS,
    INT_MAX,
    LONG_MAX,
    MIB,
    MINUTE_MS,
    UpdateMode,
    at_least,
    between,
    between_or,
    boolean,
    choice,
    double,
    exactly_one,
    integer,
    long,
    one_of,
    optional_integer,
    optional_long,
    strings,
)
from odradek.config.settings import Settings


class LogSettings(Settings):
    """Logs, their segments, retention and durability."""

    log_dirs = strings(
        "log.dirs",
        ("odradek-data",),
        exactly_one("this version keeps its data in one directory; give exactly one"),
        doc="The data directory. Only one process may use it at a time. It is created if it does "
        "not exist.",
    )
    cordoned_log_dirs = strings(
        "cordoned.log.dirs",
        (),
        update=UpdateMode.PER_BROKER,
        doc="The data directory, or `*`, if this broker takes no new partitions (KIP-1066); those "
        "that it has stay.",
    )
    log_durability = choice(
        "log.durability",
        "fsync",
        ("fsync", "os"),
        ours=True,
        doc="The meaning of acks=all. fsync: records are on disk; requests share an fsync. os: "
        "records are in the page cache, which survives the end of the process but not that of "
        "the machine. Kafka itself promises os. With os a broker that did not stop cleanly cannot "
        "lead before it is in sync with another one.",
    )
    log_segment_bytes = integer(
        "log.segment.bytes",
        GIB,
        at_least(MIB),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The size at which a segment is closed and the next one begins. Retention removes "
        "whole segments.",
    )
    log_roll_hours = integer(
        "log.roll.hours",
        168,
        at_least(1),
        doc="log.roll.ms in hours, used if that is not set.",
    )
    log_roll_ms = optional_long(
        "log.roll.ms",
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_roll_hours, HOUR_MS),),
        doc="The age at which a segment is closed even if it is not full.",
    )
    log_roll_jitter_hours = integer(
        "log.roll.jitter.hours",
        0,
        at_least(0),
        doc="log.roll.jitter.ms in hours, used if that is not set.",
    )
    log_roll_jitter_ms = optional_long(
        "log.roll.jitter.ms",
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_roll_jitter_hours, HOUR_MS),),
        doc="The largest random time by which a segment is closed earlier, so that the segments "
        "of many partitions are not closed together.",
    )
    log_index_size_max_bytes = integer(
        "log.index.size.max.bytes",
        10 * MIB,
        at_least(4),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The size at which an index is full. Its segment is then closed.",
    )
    log_index_interval_bytes = integer(
        "log.index.interval.bytes",
        4096,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The bytes of log between two entries of its index.",
    )
    log_retention_bytes = long(
        "log.retention.bytes",
        -1,
        update=UpdateMode.CLUSTER_WIDE,
        doc="The size of a partition above which its oldest segments are deleted; -1 for no limit.",
    )
    log_retention_hours = integer(
        "log.retention.hours",
        168,
        doc="log.retention.ms in hours, used if neither that nor log.retention.minutes is set.",
    )
    log_retention_minutes = optional_integer(
        "log.retention.minutes",
        doc="log.retention.ms in minutes, used if that is not set.",
    )
    log_retention_ms = optional_long(
        "log.retention.ms",
        at_least(-1),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_retention_minutes, MINUTE_MS), (log_retention_hours, HOUR_MS)),
        doc="The age of its newest record above which a segment is deleted; -1 for never.",
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        at_least(1),
        doc="The time between two searches for segments that retention deletes.",
    )
    log_cleanup_policy = strings(
        "log.cleanup.policy",
        ("delete",),
        one_of("compact", "delete"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="What happens to old segments: delete removes them by age and size, compact keeps the "
        "last record of each key. An empty list keeps them.",
    )
    log_segment_delete_delay_ms = long(
        "log.segment.delete.delay.ms",
        60_000,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The time between the removal of a segment from its log and the deletion of its files.",
    )
    log_flush_interval_messages = long(
        "log.flush.interval.messages",
        LONG_MAX,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The number of records after which a log is synced to disk even if no request waits "
        "for it.",
    )
    log_flush_scheduler_interval_ms = long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        doc="Used for log.flush.interval.ms if that is not set.",
    )
    log_flush_interval_ms = optional_long(
        "log.flush.interval.ms",
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_flush_scheduler_interval_ms, 1),),
        doc="The time after which a log is synced to disk even if no request waits for it.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        at_least(0),
        doc="The time between two writes of the recovery points: the offsets up to which each log "
        "is known to be on disk.",
    )
    log_message_timestamp_type = choice(
        "log.message.timestamp.type",
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The clock that gives records their timestamps: the producer's (CreateTime) or the "
        "broker's (LogAppendTime).",
    )
    log_message_timestamp_before_max_ms = long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How far a timestamp may be before the broker's clock, with CreateTime.",
    )
    log_message_timestamp_after_max_ms = long(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How far a timestamp may be after the broker's clock, with CreateTime.",
    )
    log_preallocate = boolean(
        "log.preallocate",
        False,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whether to reserve the space of a new segment. It has no effect here: files grow as "
        "they are written.",
    )
    message_max_bytes = integer(
        "message.max.bytes",
        MIB + 12,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The largest record batch of a produce request, after compression.",
    )
    compression_type = choice(
        "compression.type",
        "producer",
        ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The compression of stored batches: that of their producer, or another one for which "
        "the broker compresses them again.",
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        between_or(1, 9, -1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The level at which the broker compresses with gzip.",
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        9,
        between(1, 17),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The level at which the broker compresses with lz4.",
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        3,
        between(-131072, 22),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The level at which the broker compresses with zstd.",
    )
    log_local_retention_ms = long(
        "log.local.retention.ms",
        -2,
        at_least(-2),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The age limit of the local segments of a tiered topic; -2 to follow log.retention.ms.",
    )
    log_local_retention_bytes = long(
        "log.local.retention.bytes",
        -2,
        at_least(-2),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The size limit of the local segments of a tiered topic; -2 to follow "
        "log.retention.bytes.",
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The number of in-sync replicas below which the broker rejects produce requests with "
        "acks=all. All brokers have the same: the value given at the first start of a cluster "
        "becomes the value for all brokers, which AlterConfigs changes and never removes.",
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whether a replica that is not in sync may become leader if no other is left. Records "
        "may be lost.",
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        24 * HOUR_MS,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The time for which a partition remembers the sequence numbers of a producer that "
        "sends nothing.",
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whether a partition takes the first batch of a transaction only if the transaction's "
        "coordinator has it (KIP-890).",
    )
    background_threads = integer(
        "background.threads",
        4,
        between(1, INT_MAX),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The number of worker threads for blocking work, such as syncing files. While the "
        "broker runs, it can at most be halved or doubled at a time.",
    )


UNLIMITED = 1.7976931348623157e308


class CleanerSettings(Settings):
    """Log compaction."""

    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The time until the cleaner looks again for a log to compact, after it found none.",
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        update=UpdateMode.CLUSTER_WIDE,
        doc="The memory for the keys that one pass of the cleaner compares. A log with more keys "
        "needs more passes.",
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The bytes of log that the cleaner reads at a time. It pauses for requests in between.",
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        update=UpdateMode.CLUSTER_WIDE,
        doc="The fill level up to which the memory for keys is used.",
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        UNLIMITED,
        update=UpdateMode.CLUSTER_WIDE,
        doc="The average bytes per second that the cleaner may read and write.",
    )
    log_cleaner_min_cleanable_ratio = double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        between(0, 1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The share of a log that must be uncompacted before the cleaner compacts it.",
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        24 * HOUR_MS,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The time for which compaction keeps the tombstone of a deleted key.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The age below which compaction keeps a record.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The age above which a record must be compacted.",
    )
