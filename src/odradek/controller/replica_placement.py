"""Replicas of new partitions: automatic placement on brokers, and manual assignments.

Placement is like Kafka's StripedReplicaPlacer. The brokers of a rack are shuffled, then racks
alternate in a ring, so that neighbours are in different racks. Partition *i* gets consecutive
brokers of the ring. The start moves by one per partition, which spreads leaders evenly, and by one
more each round, which spreads the followers of one broker's partitions. A fenced broker gets a
replica only if there are too few others, and never the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.controller.decision import ApiError
from odradek.controller.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
)
from odradek.model.env import Random
from odradek.model.errors import ErrorCode


def place_replicas(
    brokers: Iterable[BrokerRegistration], partitions: int, factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of each of `partitions`, the preferred leader first.

    There must be `factor` brokers, and one of them must not be fenced.
    """
    registered = sorted(brokers, key=lambda broker: broker.id)
    active = _ring([broker for broker in registered if not broker.fenced], random)
    fenced = _ring([broker for broker in registered if broker.fenced], random)
    start = random.getrandbits(31)
    return [_replicas(active, fenced, start, number, factor) for number in range(partitions)]


def _replicas(
    active: Sequence[int], fenced: Sequence[int], start: int, number: int, factor: int
) -> tuple[int, ...]:
    size = len(active)
    first = (start + number) % size
    shift = number // size % (size - 1) if size > 1 else 0
    others = [(first + 1 + (shift + step) % (size - 1)) % size for step in range(size - 1)]
    chosen = [active[position] for position in (first, *others)][:factor]
    missing = factor - len(chosen)
    return (*chosen, *(fenced[(start + number + step) % len(fenced)] for step in range(missing)))


def _ring(brokers: Sequence[BrokerRegistration], random: Random) -> list[int]:
    racks: dict[str, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker.id)
    queues = [_shuffled(racks[rack], random) for rack in sorted(racks)]
    rounds = max((len(queue) for queue in queues), default=0)
    return [queue[number] for number in range(rounds) for queue in queues if number < len(queue)]


def _shuffled(items: Sequence[int], random: Random) -> list[int]:
    keyed = sorted((random.getrandbits(32), item) for item in items)
    return [item for _, item in keyed]


def check_replicas(image: MetadataImage, replicas: Sequence[int], factor: int | None) -> int:
    """Return the replication factor of the manual assignment of a new partition.

    `factor`: that of the partitions before it, or None. Raises `ApiError` with
    INVALID_REPLICA_ASSIGNMENT.
    """
    check_assignment(image, replicas, factor)
    if all(image.brokers[broker_id].fenced for broker_id in replicas):
        raise _invalid("All brokers of the manual partition assignment are fenced.")
    return len(replicas)


def check_assignment(image: MetadataImage, replicas: Sequence[int], factor: int | None) -> None:
    """Raise `ApiError` unless the replicas are different, registered brokers, `factor` of them."""
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


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def new_partition(image: MetadataImage, replicas: tuple[int, ...]) -> PartitionRegistration:
    """Make a new partition: its unfenced replicas are in sync, and the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if not image.brokers[broker_id].fenced)
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(image.brokers[broker_id].default_directory for broker_id in replicas),
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
    )
