"""The change of one partition: leader, in-sync replicas and replicas, as one record.

`PartitionChange` collects what a decision wants of a partition, and `record` completes it as
Kafka's PartitionChangeBuilder does:

1. A reassignment whose new replicas are all in sync is completed at once.
2. If the cluster keeps eligible leader replicas (ELR, KIP-966): while the ISR is smaller than
   `min.insync.replicas`, the high watermark stands still, so who leaves the ISR then has all
   committed records. It stays eligible until the ISR is large enough again, or until its broker
   returns from an unclean shutdown.
3. A leader is elected among the replicas of the target: the one of the preferred election, or the
   present one while it may stay. It is in sync or, if nobody is, eligible. If there is neither, the
   last leader is taken back, and an unclean election may take any live replica. Both may lose
   records: that replica becomes the only one in sync, and its state is recovering.
4. Replicas that go away raise the leader epoch, even if the leader stays.

A replica may be in sync and lead if its broker is registered, not fenced and not shutting down, and
its directory is online.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.image import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from odradek.protocol.metadata_records import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1


class Election(IntEnum):
    """How a leader is elected; the first two are the protocol's codes of ElectLeaders."""

    PREFERRED = 0
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any in-sync or eligible replica; if there is none, any live one."""
    ONLINE = 2
    """Any in-sync or eligible replica."""


class ElectionRules:
    """What the brokers' states and the settings of an image say about its elections.

    `broker`: this broker's configuration in the committed image. States of brokers and settings
    are read once: make the rules anew after other records were replayed on the image.
    """

    def __init__(self, image: MetadataImage, broker: BrokerConfig) -> None:
        self.image = image
        self.keeps_elr = image.keeps_eligible_leader_replicas
        self.active = frozenset(each.id for each in image.brokers.values() if each.active)
        self._online = frozenset(
            directory for each in image.brokers.values() for directory in each.log_dirs
        )
        self._broker = broker
        self._least_for_all = image.broker_config(None).get(BrokerConfig.min_insync_replicas.name)
        self._min_isr: dict[UUID, int] = {}
        self._elections: dict[UUID, Election] = {}

    def is_online(self, partition: PartitionRegistration, replica: int) -> bool:
        """True if a present replica may be in sync and lead."""
        if replica not in self.active:
            return False
        directory = partition.directory(replica)
        return self.image.brokers[replica].has_online(directory)

    def all_online(self, partition: PartitionRegistration) -> bool:
        """True if the partition is led and all its in-sync replicas are online."""
        if partition.leader < 0 or not self.active.issuperset(partition.isr):
            return False
        return self._online.issuperset(partition.directories) or all(
            self.is_online(partition, replica) for replica in partition.isr
        )

    def min_isr(self, topic: TopicImage) -> int:
        """Return the least number of in-sync replicas with which the topic takes records.

        The value for all brokers comes from the image: that of the configuration is behind it.
        """
        least = self._min_isr.get(topic.id)
        if least is None:
            setting = BrokerConfig.min_insync_replicas
            text = self.image.topic_config(topic.name).get(setting.name, self._least_for_all)
            least = self._broker.min_insync_replicas if text is None else setting.parse(text)
            least = self._min_isr[topic.id] = min(least, len(topic.partitions[0].replicas))
        return least

    def least_to_commit(
        self, topic: TopicImage, partition: PartitionRegistration | PartitionChange
    ) -> int:
        """Return the least number of in-sync replicas with which the leader of a partition commits.
        Those that are being added do not count for it (`replication.leadership`).
        """
        present = len(partition.replicas) - len(partition.adding_replicas)
        return max(1, min(self.min_isr(topic), present))

    def election(self, topic: TopicImage) -> Election:
        """Return how the controller elects leaders of the topic without being asked."""
        election = self._elections.get(topic.id)
        if election is None:
            setting = BrokerConfig.unclean_leader_election_enable
            text = self.image.topic_config(topic.name).get(setting.name)
            unclean = self._broker.unclean_leader_election_enable
            unclean = unclean if text is None else setting.parse(text)
            election = Election.UNCLEAN if unclean else Election.ONLINE
            self._elections[topic.id] = election
        return election


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What shall become of a partition. It starts as the partition is: see `of`.

    `unclean_shutdown`: replicas that may have lost records, so they are not eligible any more.
    `lost`: the new directories of replicas that have lost all records, so one of them is not taken
    back as the last leader either, and the ISR may become empty. `leader_recovery_state` as in the
    record.
    """

    partition: PartitionRegistration
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    election: Election
    unclean_shutdown: tuple[int, ...] = ()
    lost: Mapping[int, UUID] = field(default_factory=dict)
    leader_recovery_state: int = NO_RECOVERY_STATE_CHANGE

    @classmethod
    def of(
        cls,
        partition: PartitionRegistration,
        election: Election = Election.ONLINE,
        isr: tuple[int, ...] | None = None,
    ) -> PartitionChange:
        """Return the change that keeps everything, up to the election and a given ISR."""
        return cls(
            partition,
            partition.replicas,
            partition.isr if isr is None else isr,
            partition.adding_replicas,
            partition.removing_replicas,
            election,
        )

    def record(
        self, rules: ElectionRules, topic: TopicImage, number: int
    ) -> PartitionChangeRecord | None:
        """Return the record of the change; None if nothing changes."""
        return self._completed()._record(rules, topic, number)

    def _completed(self) -> PartitionChange:
        """Return the change with its reassignment completed, if the in-sync replicas allow it."""
        adding, removing = self.adding_replicas, self.removing_replicas
        if not adding and not removing:
            return self
        isr = tuple(replica for replica in self.isr if replica not in removing)
        replicas = tuple(replica for replica in self.replicas if replica not in removing)
        if not isr or not replicas or not set(isr).issuperset(adding):
            return self
        if len(adding) < len(removing) and not set(isr).issuperset(replicas):
            return self  # The new replicas would be fewer in-sync ones than there are now.
        return replace(self, replicas=replicas, isr=isr, adding_replicas=(), removing_replicas=())

    def _record(
        self, rules: ElectionRules, topic: TopicImage, number: int
    ) -> PartitionChangeRecord | None:
        before = self.partition
        isr, elr = self.isr, self._eligible(rules, topic)
        leader, recovery = NO_LEADER_CHANGE, NO_RECOVERY_STATE_CHANGE
        if self.leader_recovery_state != before.leader_recovery_state:
            recovery = self.leader_recovery_state
        elected, unclean = self._elect(rules, elr)
        if elected != before.leader:
            leader = elected
            if unclean:
                isr, elr = (elected,), ()
                recovery = RECOVERING
                if before.leader_recovery_state == RECOVERING:
                    recovery = NO_RECOVERY_STATE_CHANGE
            elif elected in elr:
                isr, elr = (elected,), tuple(each for each in elr if each != elected)
                if len(isr) >= rules.least_to_commit(topic, self):
                    elr = ()  # It commits from now on what the others do not have.
        elif not set(self.replicas).issuperset(before.replicas):
            leader = before.leader
        if not isr and not rules.keeps_elr and not self.lost:
            isr = before.isr  # The last one in sync is the only one that may lead again.
        directories = self._directories(rules.image)
        stay = directories is before.directories or directories == before.directories
        last = self._last_known_leader(rules, leader, isr or elr)
        record = PartitionChangeRecord(
            partition_id=number,
            topic_id=topic.id,
            isr=changed(isr, before.isr),
            leader=leader,
            replicas=changed(self.replicas, before.replicas),
            removing_replicas=changed(self.removing_replicas, before.removing_replicas),
            adding_replicas=changed(self.adding_replicas, before.adding_replicas),
            leader_recovery_state=recovery,
            directories=None if stay else list(directories),
            eligible_leader_replicas=changed(elr, before.elr),
            last_known_elr=changed(last, before.last_known_elr),
        )
        nothing = PartitionChangeRecord(partition_id=number, topic_id=topic.id)
        return None if record == nothing else record

    def _directories(self, image: MetadataImage) -> tuple[UUID, ...]:
        before = self.partition
        if self.replicas is before.replicas and not self.lost:
            return before.directories
        known = dict(zip(before.replicas, before.directories, strict=True))
        known.update(self.lost)
        return tuple(
            known[replica] if replica in known else default_directory(image, replica)
            for replica in self.replicas
        )

    def _eligible(self, rules: ElectionRules, topic: TopicImage) -> tuple[int, ...]:
        """Return the eligible leader replicas beside the in-sync ones, before the election."""
        if not rules.keeps_elr or len(self.isr) >= rules.least_to_commit(topic, self):
            return ()
        candidates = {*self.partition.elr, *self.partition.isr}.intersection(self.replicas)
        return tuple(sorted(candidates.difference(self.isr, self.unclean_shutdown, self.lost)))

    def _last_known_leader(
        self, rules: ElectionRules, leader: int, eligible: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Return the last leader if there is none now. `leader`: that of the record."""
        before = self.partition
        last = tuple(replica for replica in before.last_known_elr if replica not in self.lost)
        if leader >= 0:
            return ()
        if leader == NO_LEADER and not last and rules.keeps_elr and before.leader >= 0:
            return () if before.leader in self.lost else (before.leader,)
        if not last and not eligible and rules.keeps_elr and before.leader < 0:
            # It lost its leader before the controller kept eligible leader replicas. The only
            # replica that might have led takes the leader's place; else no one ever could.
            might_lead = {*before.isr, *before.elr}.difference(self.lost)
            return tuple(might_lead) if len(might_lead) == 1 else ()
        return last

    def _elect(self, rules: ElectionRules, elr: tuple[int, ...]) -> tuple[int, bool]:
        """Return the leader, or `NO_LEADER`, and whether records may be lost."""
        before, eligible = self.partition, self.isr or elr

        def online(replica: int) -> bool:
            if replica in before.replicas:
                return rules.is_online(before, replica)
            return replica in rules.active

        candidates = (before.leader, *self.replicas)
        if self.election is Election.PREFERRED:
            candidates = (self.replicas[0], before.leader, *self.replicas[1:])
        for replica in candidates:
            if replica in eligible and online(replica):
                return replica, False
        last = before.last_known_elr
        if rules.keeps_elr and not eligible and len(last) == 1:
            (replica,) = last
            if replica in self.replicas and replica not in self.lost and online(replica):
                return replica, True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if replica not in self.lost and online(replica):
                    return replica, True
        return NO_LEADER, False


def changed(after: tuple[int, ...], before: tuple[int, ...]) -> list[int] | None:
    """Return the new value of a list for a record; None if it stays."""
    return None if after == before else list(after)


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """The directory of a new replica on a broker."""
    broker = image.brokers.get(broker_id)
    return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory
