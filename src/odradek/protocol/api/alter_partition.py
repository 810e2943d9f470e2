"""AlterPartition (key 56, versions 2 to 3): a leader proposes in-sync replicas (KIP-497).

- 2: topic ids, the state of recovery (KIP-704). 3: the epochs of the replicas' brokers (KIP-903).
- Odradek's brokers also tell of a replica of their own that is damaged, or has no room, in tagged
  fields.
"""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import field, i8, i16, i32, i64, message, struct


@struct
class ProposedReplica:
    """A proposed in-sync replica, by its broker and that broker's epoch; -1 is not checked."""

    broker_id: i32
    broker_epoch: i64 = -1


@struct
class AlterPartitionPartition:
    """A partition, the epochs that the leader knows, and the in-sync replicas that it proposes."""

    partition_index: i32
    leader_epoch: i32
    new_isr: list[i32] = field(factory=list, until=2)
    new_isr_with_epochs: list[ProposedReplica] = field(factory=list, since=3)
    leader_recovery_state: i8 = field(
        default=0, doc="1 while it recovers from an unclean election, else 0."
    )
    partition_epoch: i32
    is_damaged: bool = field(
        default=False,
        tag=100,
        ignorable=True,
        doc="Odradek's own: the broker that asks has a damaged log, and wants to be out of the "
        "in-sync replicas, be it the leader or not. The other fields are not read.",
    )
    has_no_room: bool = field(
        default=False,
        tag=101,
        ignorable=True,
        doc="Odradek's own: the broker that asks has a full disk, and wants to be out of the "
        "in-sync replicas until it has caught up again. The other fields are not read.",
    )


@struct
class AlterPartitionTopic:
    """Partitions of one topic."""

    topic_id: UUID
    partitions: list[AlterPartitionPartition]


@message(api=56, versions=(2, 3), flexible=0)
class AlterPartitionRequest:
    """Change the in-sync replicas of partitions that a broker leads."""

    broker_id: i32
    broker_epoch: i64 = -1
    topics: list[AlterPartitionTopic]


@struct
class AlteredPartition:
    """The partition as it is now, or the error."""

    partition_index: i32
    error_code: i16
    leader_id: i32 = 0
    leader_epoch: i32 = 0
    isr: list[i32] = field(factory=list)
    leader_recovery_state: i8 = 0
    partition_epoch: i32 = 0


@struct
class AlteredTopic:
    """Partitions of one topic."""

    topic_id: UUID
    partitions: list[AlteredPartition]


@message(api=56, versions=(2, 3), flexible=0)
class AlterPartitionResponse:
    """The outcome for each partition."""

    throttle_time_ms: i32 = 0
    error_code: i16
    topics: list[AlteredTopic]
