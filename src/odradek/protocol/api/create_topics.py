"""CreateTopics"""

from __future__ import annotations

from uuid import UUID

from odradek.model.ids import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, i8, message, struct


@struct
class CreatableReplicaAssignment:
    """The manual partition assignment, or the empty array if we are using automatic assignment."""

    partition_index: i32
    broker_ids: list[i32]


@struct
class CreatableTopicConfig:
    """The custom topic configurations to set."""

    name: str
    value: str | None


@struct
class CreatableTopic:
    """The topics to create."""

    name: str
    num_partitions: i32
    replication_factor: i16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(api=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest:
    """"""

    topics: list[CreatableTopic]
    timeout_ms: i32 = field(default=60000)
    validate_only: bool = field(default=False)


@struct
class CreatableTopicConfigs:
    """Configuration of the topic."""

    name: str
    value: str | None
    read_only: bool
    config_source: i8 = field(default=-1)
    is_sensitive: bool


@struct
class CreatableTopicResult:
    """Results for each topic we tried to create."""

    name: str
    topic_id: UUID = field(default=ZERO_UUID, since=7, ignorable=True)
    error_code: i16
    error_message: str | None
    topic_config_error_code: i16 = field(default=0, tag=0, since=5, ignorable=True)
    num_partitions: i32 = field(default=-1, since=5, ignorable=True)
    replication_factor: i16 = field(default=-1, since=5, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(factory=list, since=5, ignorable=True)


@message(api=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    topics: list[CreatableTopicResult]
