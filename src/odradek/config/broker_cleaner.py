"""Broker settings about log compaction: when a log is worth it, and what the cleaner may use.

Those with a topic-level form (`topic.TopicConfig`) decide for topics that say nothing of their own;
the others are the cleaner's own. All may change while the broker runs.

There is one cleaner, always: `log.cleaner.threads` and `log.cleaner.enable` of Kafka are not here.
"""

from __future__ import annotations

from odradek.config.checks import at_least, between
from odradek.config.setting import HOUR_MS, LONG_MAX, MIB, Update, double, integer, long
from odradek.config.settings import Settings

ANYTIME = Update.CLUSTER_WIDE
UNLIMITED = 1.7976931348623157e308


class CleanerSettings(Settings):
    """Log compaction."""

    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        at_least(0),
        update=ANYTIME,
        doc="Time between two looks for a log to compact, when there was none.",
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        update=ANYTIME,
        doc="Memory for the keys that one pass of compaction compares. A log with more keys takes "
        "more passes.",
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        at_least(0),
        update=ANYTIME,
        doc="Bytes of log that compaction reads at a time, with pauses for requests in between.",
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        update=ANYTIME,
        doc="How full the memory for keys may become.",
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        UNLIMITED,
        update=ANYTIME,
        doc="Most bytes per second that compaction reads and writes, on average.",
    )
    log_cleaner_min_cleanable_ratio = double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        between(0, 1),
        update=ANYTIME,
        doc="Share of a compacted log that must be uncompacted before it is worth compacting.",
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        24 * HOUR_MS,
        at_least(0),
        update=ANYTIME,
        doc="How long compaction keeps the tombstone of a deleted key.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        at_least(0),
        update=ANYTIME,
        doc="Age below which compaction leaves a record alone.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        at_least(1),
        update=ANYTIME,
        doc="Age above which a record must be compacted.",
    )
