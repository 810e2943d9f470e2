"""CreatePartitions (key 37, versions 0 to 3): raise the number of partitions of topics.

- 2: flexible. 3: THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class CreatePartitionsAssignment:
    """The brokers for one new partition."""

    broker_ids: list[i32]


@struct
class CreatePartitionsTopic:
    """One topic and its new number of partitions."""

    name: str
    count: i32 = field(doc="In total, not how many to add.")
    assignments: list[CreatePartitionsAssignment] | None = field(
        doc="Of the new partitions only; null to let the cluster choose."
    )


@message(api=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """Add partitions to topics."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: i32
    validate_only: bool


@struct
class CreatePartitionsTopicResult:
    """One topic."""

    name: str
    error_code: i16
    error_message: str | None = None


@message(api=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    """Per topic, the error or none."""

    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult]
