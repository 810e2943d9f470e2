"""A topic's settings, in the form that its logs and its produce checks take them."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfig
from odradek.log.log_config import LogConfig
from odradek.model.env import Random
from odradek.protocol.compression import CompressionType
from odradek.protocol.validate import KEEP_CODEC, BatchRules

CODECS = {
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}

GZIP_DEFAULT_LEVEL = -1


def log_config(topic: TopicConfig, broker: BrokerConfig, random: Random) -> LogConfig:
    """What the log of a new or reconfigured partition goes by; its jitter is drawn here."""
    jitter = topic.segment_jitter_ms
    compact = "compact" in topic.cleanup_policy
    return LogConfig(
        segment_bytes=topic.roll_bytes,
        segment_ms=min(topic.segment_ms, topic.max_compaction_lag_ms)
        if compact
        else topic.segment_ms,
        segment_jitter_ms=random.getrandbits(62) % jitter if jitter > 0 else 0,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        delete="delete" in topic.cleanup_policy,
        compact=compact,
        delete_retention_ms=topic.delete_retention_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
    )


def batch_rules(topic: TopicConfig) -> BatchRules:
    """What a produced batch is held to."""
    codec = CODECS.get(topic.compression_type)
    gzip_level = topic.compression_gzip_level
    levels = {
        CompressionType.GZIP: None if gzip_level == GZIP_DEFAULT_LEVEL else gzip_level,
        CompressionType.LZ4: topic.compression_lz4_level,
        CompressionType.ZSTD: topic.compression_zstd_level,
    }
    return BatchRules(
        max_message_bytes=topic.max_message_bytes,
        log_append_time=topic.message_timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        compacted="compact" in topic.cleanup_policy,
        codec=KEEP_CODEC if codec is None else codec,
        level=None if codec is None else levels.get(codec),
    )
