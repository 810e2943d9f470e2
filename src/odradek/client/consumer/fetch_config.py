"""What fetching is set to, as plain values under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """The part of a consumer's settings that fetching looks at. Sizes in bytes; the defaults are
    Kafka's."""

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * MIB
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = MIB
    prefetch_max_bytes: int = 32 * MIB
    """How much is kept for the application before it asks. Kafka has no such setting: its clients
    keep one fetch per partition."""
    check_crcs: bool = True
    read_committed: bool = False
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    default_api_timeout_ms: int = 60_000

    @property
    def isolation_level(self) -> int:
        """As the protocol has it."""
        return 1 if self.read_committed else 0
