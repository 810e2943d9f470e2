"""The messages of Fetch, as classes that compile to native ones: see `hot_messages`.

Their wire form is declared in `api.fetch`.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from odradek.model.ids import ZERO_UUID
from odradek.protocol.hot_messages import HotMessage

NO_LIMIT: Final = 2**31 - 1
NO_HIGH_WATERMARK: Final = 2**63 - 1


class FetchPartition(HotMessage):
    """One partition and the offset to read from."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "replica_directory_id",
    )

    def __init__(
        self,
        *,
        partition: int,
        current_leader_epoch: int = -1,
        fetch_offset: int,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int,
        replica_directory_id: UUID = ZERO_UUID,
        high_watermark: int = NO_HIGH_WATERMARK,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(HotMessage):
    """One topic, by name up to 12, by id from 13."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, *, topic: str = "", topic_id: UUID = ZERO_UUID, partitions: list[FetchPartition]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class ForgottenTopic(HotMessage):
    """Partitions that leave the session."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, *, topic: str = "", topic_id: UUID = ZERO_UUID, partitions: list[int]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchRequest(HotMessage):
    """Read partitions from offsets, of this session or of none."""

    __slots__ = (
        "cluster_id",
        "forgotten_topics_data",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "replica_state",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: Any = None,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int = NO_LIMIT,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic],
        forgotten_topics_data: list[ForgottenTopic] | None = None,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data: list[ForgottenTopic] = (
            [] if forgotten_topics_data is None else forgotten_topics_data
        )
        self.rack_id = rack_id


class PartitionData(HotMessage):
    """What was read of one partition."""

    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition_index",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    def __init__(
        self,
        *,
        partition_index: int,
        error_code: int,
        high_watermark: int,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: Any = None,
        current_leader: Any = None,
        snapshot_id: Any = None,
        aborted_transactions: list[Any] | None,
        preferred_read_replica: int = -1,
        records: Any,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(HotMessage):
    """One topic, as in the request."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, *, topic: str = "", topic_id: UUID = ZERO_UUID, partitions: list[PartitionData]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchResponse(HotMessage):
    """Per partition, its offsets and the batches read."""

    __slots__ = ("error_code", "node_endpoints", "responses", "session_id", "throttle_time_ms")

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse],
        node_endpoints: list[Any] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints: list[Any] = [] if node_endpoints is None else node_endpoints
