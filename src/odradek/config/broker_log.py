"""Broker settings of logs and of log compaction.

Most of these have a topic-level form (`topic.TopicConfig`), which takes type, default and rules
from the line here. They may change while the broker runs, and every topic without a value of its
own follows.

There is always one cleaner: Kafka's `log.cleaner.threads` and `log.cleaner.enable` do not exist
here.
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
    """Logs on disk."""

    log_dirs = strings(
        "log.dirs",
        ("odradek-data",),
        exactly_one("this version keeps its data in one directory; give exactly one"),
        doc="The data directory. One process at a time; it is made if it does not exist.",
    )
    log_durability = choice(
        "log.durability",
        "fsync",
        ("fsync", "os"),
        ours=True,
        doc="What acks=all means. fsync: on disk, many requests sharing one sync. os: in the "
        "operating system's cache, "
        "which survives the process but not the machine; this is Kafka's own promise.",
    )
    log_segment_bytes = integer(
        "log.segment.bytes",
        GIB,
        at_least(MIB),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Size at which a segment file is closed and the next begun. Retention removes whole "
        "segments.",
    )
    log_roll_hours = integer(
        "log.roll.hours",
        168,
        at_least(1),
        doc="As log.roll.ms, in hours; counts where that is not set.",
    )
    log_roll_ms = optional_long(
        "log.roll.ms",
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_roll_hours, HOUR_MS),),
        doc="Age at which a segment is closed even if it is not full.",
    )
    log_roll_jitter_hours = integer(
        "log.roll.jitter.hours", 0, at_least(0), doc="As log.roll.jitter.ms, in hours."
    )
    log_roll_jitter_ms = optional_long(
        "log.roll.jitter.ms",
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_roll_jitter_hours, HOUR_MS),),
        doc="Up to this much, chosen at random, is taken off the rolling age, so that segments of "
        "many partitions "
        "do not roll together.",
    )
    log_index_size_max_bytes = integer(
        "log.index.size.max.bytes",
        10 * MIB,
        at_least(4),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Size at which an index is full, which closes its segment.",
    )
    log_index_interval_bytes = integer(
        "log.index.interval.bytes",
        4096,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Bytes of log between two entries of its indexes.",
    )
    log_retention_bytes = long(
        "log.retention.bytes",
        -1,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Size per partition above which the oldest segments go; -1 for no limit.",
    )
    log_retention_hours = integer(
        "log.retention.hours", 168, doc="As log.retention.ms, in hours; the last that counts."
    )
    log_retention_minutes = optional_integer(
        "log.retention.minutes",
        doc="As log.retention.ms, in minutes; counts where that is not set.",
    )
    log_retention_ms = optional_long(
        "log.retention.ms",
        at_least(-1),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_retention_minutes, MINUTE_MS), (log_retention_hours, HOUR_MS)),
        doc="Age, by the newest record in it, above which a segment goes; -1 for never.",
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        at_least(1),
        doc="Time between two looks for segments that retention should remove.",
    )
    log_cleanup_policy = strings(
        "log.cleanup.policy",
        ("delete",),
        one_of("compact", "delete"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="What happens to old segments: delete removes them by age and size, "
        "compact keeps the last record of every key; an empty list keeps them.",
    )
    log_segment_delete_delay_ms = long(
        "log.segment.delete.delay.ms",
        60_000,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Time between taking a segment out of service and removing its files.",
    )
    log_flush_interval_messages = long(
        "log.flush.interval.messages",
        LONG_MAX,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Records after which a log is synced to disk although no request waits for it.",
    )
    log_flush_scheduler_interval_ms = long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        doc="As log.flush.interval.ms; counts where that is not set.",
    )
    log_flush_interval_ms = optional_long(
        "log.flush.interval.ms",
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        fallbacks=((log_flush_scheduler_interval_ms, 1),),
        doc="Time after which a log is synced to disk although no request waits for it.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        at_least(0),
        doc="Time between two writes of the recovery points: how far each log is known to be on "
        "disk.",
    )
    log_message_timestamp_type = choice(
        "log.message.timestamp.type",
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whose clock stamps the records: the producer's (CreateTime) or the broker's "
        "(LogAppendTime).",
    )
    log_message_timestamp_before_max_ms = long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How far a producer's timestamp may lie behind the broker's clock. For CreateTime.",
    )
    log_message_timestamp_after_max_ms = long(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How far a producer's timestamp may lie ahead of the broker's clock. For CreateTime.",
    )
    log_preallocate = boolean(
        "log.preallocate",
        False,
        update=UpdateMode.CLUSTER_WIDE,
        doc="A hint to reserve the space of a new segment. It makes no difference here: files grow "
        "as they are written.",
    )
    message_max_bytes = integer(
        "message.max.bytes",
        MIB + 12,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The largest record batch a produce request may bring, after compression.",
    )
    compression_type = choice(
        "compression.type",
        "producer",
        ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How batches are stored: as their producer made them, or compressed again by the "
        "broker.",
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        between_or(1, 9, -1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Level for batches that the broker itself compresses with gzip.",
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        9,
        between(1, 17),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Level for batches that the broker itself compresses with lz4.",
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        3,
        between(-131072, 22),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Level for batches that the broker itself compresses with zstd.",
    )
    log_local_retention_ms = long(
        "log.local.retention.ms",
        -2,
        at_least(-2),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Age of local segments of a tiered topic; -2 to follow log.retention.ms.",
    )
    log_local_retention_bytes = long(
        "log.local.retention.bytes",
        -2,
        at_least(-2),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Size of the local part of a tiered topic; -2 to follow log.retention.bytes.",
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="In-sync replicas without which a produce request with acks=all is refused.",
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whether a replica that is not in sync may lead when no other is left, at the price of "
        "lost records.",
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        24 * HOUR_MS,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How long a partition remembers the sequence numbers of a producer that is silent.",
    )
    background_threads = integer(
        "background.threads",
        4,
        between(1, INT_MAX),
        doc="Workers for what blocks: syncing files, and other work that must not hold up "
        "requests.",
    )


UNLIMITED = 1.7976931348623157e308


class CleanerSettings(Settings):
    """Log compaction."""

    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Time between two looks for a log to compact, when there was none.",
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Memory for the keys that one pass of compaction compares. A log with more keys takes "
        "more passes.",
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Bytes of log that compaction reads at a time, with pauses for requests in between.",
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        update=UpdateMode.CLUSTER_WIDE,
        doc="How full the memory for keys may become.",
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        UNLIMITED,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Most bytes per second that compaction reads and writes, on average.",
    )
    log_cleaner_min_cleanable_ratio = double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        between(0, 1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Share of a compacted log that must be uncompacted before it is worth compacting.",
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        24 * HOUR_MS,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How long compaction keeps the tombstone of a deleted key.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Age below which compaction leaves a record alone.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Age above which a record must be compacted.",
    )
