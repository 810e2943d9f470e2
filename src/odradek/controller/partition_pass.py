"""Passes over all partitions, in parts: what follows from a change of a broker or a setting.

A pass looks at each partition once and asks what shall become of it:

    repair      who is fenced, shutting down or unregistered leaves the ISR; partitions without
                leader get one, if one is there
    rebalance   the preferred replica leads, if it is in sync
    departure   a broker leaves the ISR, and after an unclean shutdown also the ELR, before it
                registers anew; replicas that have lost their directory are empty in the new one

A change that is not made by a record itself follows from the image: a repair does the same whether
a broker was just fenced or a controller takes over from one that stopped in the middle. A repair
after a repair changes nothing.

One partition takes well below a microsecond to look at, so there is no index from brokers to their
partitions: it would cost more, in every change and in memory, than the passes do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import RECORDS_PER_PART, Parts
from odradek.controller.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from odradek.controller.partition_change import Election, ElectionRules, PartitionChange

PARTITIONS_PER_PART = 1_000
Decide = Callable[[ElectionRules, TopicImage, int, PartitionRegistration], object | None]
"""Returns the record of what shall become of a partition, or None."""


def pass_over(
    image: MetadataImage, config: Callable[[], BrokerConfig], decide: Decide
) -> Parts[None]:
    """Ask for each partition of the pending image what shall become of it.

    Topics that are created meanwhile are left out: they begin with the present brokers. A part may
    be empty. `config`: returns this broker's present configuration.
    """
    rules, looked = ElectionRules(image, config()), 0
    records: list[object] = []
    for topic_id in list(image.topics_by_id):
        topic, number = image.topics_by_id.get(topic_id), 0
        while topic is not None and (partition := topic.partitions.get(number)) is not None:
            record = decide(rules, topic, number, partition)
            number += 1
            looked += 1
            if record is not None:
                records.append(record)
            if looked >= PARTITIONS_PER_PART or len(records) >= RECORDS_PER_PART:
                yield records
                rules, looked, records = ElectionRules(image, config()), 0, []
                topic = image.topics_by_id.get(topic_id)
    if records:
        yield records


def repair(
    rules: ElectionRules, topic: TopicImage, number: int, partition: PartitionRegistration
) -> object | None:
    """Return the record without which the partition has an ISR or leader that is not online."""
    if rules.all_online(partition):
        return None
    isr = tuple(each for each in partition.isr if rules.is_online(partition, each))
    return PartitionChange.of(partition, rules.election(topic), isr).record(rules, topic, number)


def rebalance(
    rules: ElectionRules, topic: TopicImage, number: int, partition: PartitionRegistration
) -> object | None:
    """Return the record that makes the preferred replica lead, if it is in sync."""
    if partition.leader == partition.replicas[0]:
        return None
    return PartitionChange.of(partition, Election.PREFERRED).record(rules, topic, number)


@dataclass(frozen=True, slots=True)
class Departure:
    """What becomes of the partitions of a broker whose incarnation has ended.

    `log_dirs`: its directories from now on; None if it does not come back.
    """

    broker_id: int
    clean: bool
    log_dirs: Collection[UUID] | None

    def __call__(
        self, rules: ElectionRules, topic: TopicImage, number: int, partition: PartitionRegistration
    ) -> object | None:
        """Return the record of a partition; see `Decide`."""
        broker_id = self.broker_id
        if broker_id not in partition.replicas:
            return None
        lost = self._has_lost(partition.directory(broker_id))
        clean = self.clean and not lost
        if (
            not lost
            and broker_id not in partition.isr
            and (clean or broker_id not in partition.elr)
        ):
            return None
        change = replace(
            PartitionChange.of(partition, rules.election(topic)),
            isr=tuple(replica for replica in partition.isr if replica != broker_id),
            unclean_shutdown=() if clean else (broker_id,),
            lost={broker_id: self._directory()} if lost else {},
        )
        return change.record(rules, topic, number)

    def _has_lost(self, directory: UUID) -> bool:
        reserved = directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
        return self.log_dirs is not None and not reserved and directory not in self.log_dirs

    def _directory(self) -> UUID:
        """The directory in which the replica begins anew."""
        directories = tuple(self.log_dirs or ())
        return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def leads(image: MetadataImage, broker_id: int) -> bool:
    """True if a broker leads any partition that another replica may lead."""
    active = {broker.id for broker in image.brokers.values() if broker.active} - {broker_id}
    return any(
        partition.leader == broker_id and not active.isdisjoint(partition.isr)
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )
