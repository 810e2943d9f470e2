"""CreatePartitions"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class CreatePartitionsAssignment:
    """The new partition assignments."""

    broker_ids: list[i32]


@struct
class CreatePartitionsTopic:
    """Each topic that we want to create new partitions inside."""

    name: str
    count: i32
    assignments: list[CreatePartitionsAssignment] | None


@message(api=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """"""

    topics: list[CreatePartitionsTopic]
    timeout_ms: i32
    validate_only: bool


@struct
class CreatePartitionsTopicResult:
    """The partition creation results for each topic."""

    name: str
    error_code: i16
    error_message: str | None = field(default=None)


@message(api=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    results: list[CreatePartitionsTopicResult]
