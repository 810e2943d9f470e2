"""CreateTopics (key 19, versions 2 to 7): create topics, or validate the request.

- 4: -1 for the default number of partitions and replicas (KIP-464).
- 5: flexible; the topic's settings in the response (KIP-525).
- 6: THROTTLING_QUOTA_EXCEEDED (KIP-599). 7: the topic's id in the response.
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class CreatableReplicaAssignment:
    """The brokers for one partition."""

    partition_index: i32
    broker_ids: list[i32]


@struct
class CreatableTopicConfig:
    """A setting of the new topic."""

    name: str
    value: str | None


@struct
class CreatableTopic:
    """One topic to create."""

    name: str
    num_partitions: i32 = field(doc="-1 for the default, or with assignments.")
    replication_factor: i16 = field(doc="-1 for the default, or with assignments.")
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(api=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest:
    """Create topics."""

    topics: list[CreatableTopic]
    timeout_ms: i32 = 60000
    validate_only: bool = False


@struct
class CreatableTopicConfigs:
    """A setting and its value for the new topic."""

    name: str
    value: str | None
    read_only: bool
    config_source: i8 = -1
    is_sensitive: bool


@struct
class CreatableTopicResult:
    """One topic."""

    name: str
    topic_id: UUID = field(default=ZERO_UUID, since=7, ignorable=True)
    error_code: i16
    error_message: str | None
    topic_config_error_code: i16 = field(
        default=0, tag=0, since=5, ignorable=True, doc="The reason if `configs` is null."
    )
    num_partitions: i32 = field(default=-1, since=5, ignorable=True)
    replication_factor: i16 = field(default=-1, since=5, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(factory=list, since=5, ignorable=True)


@message(api=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse:
    """Per topic, the topic that was created or the error."""

    throttle_time_ms: i32 = 0
    topics: list[CreatableTopicResult]
