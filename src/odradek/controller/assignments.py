"""Replicas that an administrator names, and what a new partition starts as."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.controller.decision import Refused
from odradek.controller.image import MetadataImage
from odradek.controller.registrations import NO_LEADER, PartitionRegistration
from odradek.model.errors import ErrorCode


def check_replicas(image: MetadataImage, replicas: Sequence[int], factor: int | None) -> int:
    """The replication factor of an assignment; `factor` is that of the partitions before, if any.

    Raises `Refused` with INVALID_REPLICA_ASSIGNMENT.
    """
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    for broker_id in replicas:
        if broker_id not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
        if replicas.count(broker_id) > 1:
            raise _invalid(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
    if factor is not None and len(replicas) != factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            f"replica(s), but others have {factor}."
        )
    if all(image.brokers[broker_id].fenced for broker_id in replicas):
        raise _invalid("All brokers of the manual partition assignment are fenced.")
    return len(replicas)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def new_partition(image: MetadataImage, replicas: tuple[int, ...]) -> PartitionRegistration:
    """A partition at its beginning: whoever is not fenced is in sync, the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if not image.brokers[broker_id].fenced)
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(image.brokers[broker_id].default_directory for broker_id in replicas),
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
    )
