"""Replicas of new partitions: automatic placement on brokers, and manual assignments.

Placement is Kafka's StripedReplicaPlacer. Each replica of a partition is on a broker of its own.
Racks take turns, so that the replicas of a partition are in as many racks as there are, and so do
the brokers of a rack. Both begin one further with each partition, which spreads leaders and
followers evenly. When each broker has led once, racks and brokers are shuffled, so that the same
brokers do not meet again. A fenced broker never comes first, and only where its rack has no other.
Brokers that are shutting down or cordoned get no replicas; one that has stopped is fenced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from odradek.controller.decision import ApiError
from odradek.controller.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
)
from odradek.model.env import Random
from odradek.model.errors import ErrorCode

T = TypeVar("T")


def place_replicas(
    brokers: Iterable[BrokerRegistration], partitions: int, factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of each of `partitions`, the preferred leader first.

    `factor` brokers must be usable, and one of them must not be fenced.
    """
    racks = _Racks([broker for broker in brokers if broker.usable], random)
    return [racks.place(factor) for _ in range(partitions)]


class _Turns:
    """Brokers that take turns. In each round, which is one partition, each comes once at most."""

    def __init__(self, brokers: Iterable[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self._random = random
        self._first = random.getrandbits(32) % len(self.brokers) if self.brokers else 0
        self._round = 0
        self._taken = 0

    def next(self, number: int) -> int | None:
        """Return the next broker in this round; None if there is no other."""
        size = len(self.brokers)
        if number != self._round and size:
            self._round, self._taken = number, 0
            self._first = (self._first + 1) % size
        if self._taken == size:
            return None
        broker = self.brokers[(self._first + self._taken) % size]
        self._taken += 1
        return broker

    def shuffle(self) -> None:
        self.brokers = _shuffled(self.brokers, self._random)


class _Racks:
    """The racks and their brokers; those that are fenced apart."""

    def __init__(self, brokers: Sequence[BrokerRegistration], random: Random) -> None:
        self._random = random
        names = sorted({broker.rack or "" for broker in brokers})
        self._racks = [
            (
                _Turns(
                    (each.id for each in brokers if (each.rack or "") == name and not each.fenced),
                    random,
                ),
                _Turns(
                    (each.id for each in brokers if (each.rack or "") == name and each.fenced),
                    random,
                ),
            )
            for name in names
        ]
        self._leaders = sum(not broker.fenced for broker in brokers)
        self._first = random.getrandbits(31) % len(self._racks)
        self._round = 0

    def place(self, factor: int) -> tuple[int, ...]:
        """Return the replicas of the next partition."""
        if self._round > 0 and self._leaders > 1 and self._round % self._leaders == 0:
            self._shuffle()
        size = len(self._racks)
        leading = self._first
        while (leader := self._racks[leading][0].next(self._round)) is None:
            leading = (leading + 1) % size
        replicas = [leader]
        position, skipped = self._first, False
        while len(replicas) < factor:
            if position == leading and not skipped:
                skipped = True  # The leader was the turn of its rack.
            else:
                unfenced, fenced = self._racks[position]
                replica = unfenced.next(self._round)
                if replica is None:
                    replica = fenced.next(self._round)
                if replica is not None:
                    replicas.append(replica)
            position = (position + 1) % size
        self._round += 1
        self._first = (self._first + 1) % size
        return tuple(replicas)

    def _shuffle(self) -> None:
        self._racks = _shuffled(self._racks, self._random)
        for unfenced, fenced in self._racks:
            unfenced.shuffle()
            fenced.shuffle()


def _shuffled(items: Sequence[T], random: Random) -> list[T]:
    keyed = sorted((random.getrandbits(32), position) for position in range(len(items)))
    return [items[position] for _, position in keyed]


def check_replicas(image: MetadataImage, replicas: Sequence[int], factor: int | None) -> int:
    """Return the replication factor of the manual assignment of a new partition.

    `factor`: that of the partitions before it, or None. Raises `ApiError` with
    INVALID_REPLICA_ASSIGNMENT.
    """
    check_assignment(image, replicas, factor)
    if not any(image.brokers[broker_id].active for broker_id in replicas):
        raise _invalid(
            "All brokers of the manual partition assignment are fenced or in controlled shutdown."
        )
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
    """Make a new partition: its active replicas are in sync, and the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if image.brokers[broker_id].active)
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(image.brokers[broker_id].default_directory for broker_id in replicas),
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
    )
