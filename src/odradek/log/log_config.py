"""The settings of one log, by Kafka's names, with the unit last. Imported by brokers and tools that
do not open logs.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER = (1 << 63) - 1


@dataclass(slots=True, frozen=True)
class LogConfig:
    """Defaults are Kafka's. Times in ms, sizes in bytes, -1: unlimited."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    delete: bool = True
    """`cleanup.policy` contains `delete`."""
    compact: bool = False
    """`cleanup.policy` contains `compact`: offsets may have gaps."""
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    checkpoint_bytes: int = 64 << 20
    """Bytes after which the recovery point moves; limits how much a restart reads."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
