"""What a consumer's membership in its group is set to, as plain values under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The part of a consumer's settings that its group side looks at. Defaults are Kafka's."""

    group_id: str
    group_instance_id: str | None = None
    """Makes the member a static one (KIP-345)."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """Also the rebalance timeout: how long the group waits for this member to join again."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    exclude_internal_topics: bool = True
    client_rack: str | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether the group forgets this member when it leaves."""
        return self.group_instance_id is None
