"""Random histories of a cluster of 1 to 6 brokers: what is true after every record.

Brokers register, beat, stop, are killed, lose their disks and go for good; leaders propose in-sync
replicas, administrators elect, reassign and change settings, controllers are replaced. A model
knows which replicas have all committed records, whatever the decisions say:

- The leader of a partition is in its ISR, and was active when it was elected.
- ISR and ELR are replicas, and do not overlap.
- Leader and partition epochs rise with each election and each change.
- A replica that lost records leads only after an unclean election, or as the last known leader;
  one that lost its disk only after an unclean election.
- Replaying the records into another image makes the same image, and so does a snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.controller.configs import incremental_alter_configs
from odradek.controller.decision import RECORDS_PER_PART
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import NO_LEADER, MetadataImage, PartitionRegistration
from odradek.controller.leader_election import elect_leaders
from odradek.controller.partition_change import RECOVERING, ElectionRules
from odradek.controller.reassignments import alter_partition_reassignments
from odradek.controller.snapshots import decode, encode
from odradek.controller.topics import create_partitions, create_topics, delete_topics
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import ProposedReplica
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.metadata_records import PartitionChangeRecord
from unit.controller.cluster_making import CLUSTER, a_topic
from unit.controller.controlled_cluster import ControlledCluster, directory

BROKERS = st.integers(1, 6)
ANY = st.integers(0, 59)
"""One of the brokers or partitions that there are: see `Cluster.broker` and `Cluster.place`."""
NAMES = st.sampled_from(["b", "c"])
PREFERRED, UNCLEAN = 0, 1
Key = tuple[UUID, int]


class WatchedCluster(ControlledCluster):
    """Checks every record as it is replayed, and knows which replicas have lost records.

    `lossy` are the replicas of a partition that may lack committed records since they were last in
    its ISR; `empty` those that lack all. `unclean`: True while elections may be unclean.
    """

    def __init__(self, **given: str) -> None:
        self.lossy: dict[Key, set[int]] = {}
        self.empty: dict[Key, set[int]] = {}
        self.unclean = False
        super().__init__(**given)

    def submit(self, records: object) -> None:
        assert isinstance(records, list)
        for record in records:
            before = None
            if isinstance(record, PartitionChangeRecord):
                before = self.image.partition(record.topic_id, record.partition_id)
            super().submit([record])
            if isinstance(record, PartitionChangeRecord):
                assert before is not None
                after = self.image.partition(record.topic_id, record.partition_id)
                assert after is not None
                self.check((record.topic_id, record.partition_id), before, after)

    def check(self, key: Key, before: PartitionRegistration, after: PartitionRegistration) -> None:
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
        lossy, empty = self.lossy.setdefault(key, set()), self.empty.setdefault(key, set())
        if after.leader != before.leader:
            assert after.leader_epoch == before.leader_epoch + 1
            if after.leader != NO_LEADER:
                assert self.image.brokers[after.leader].active
            keeps_elr = self.image.keeps_eligible_leader_replicas
            if after.leader in lossy and not self.unclean and keeps_elr:
                assert before.last_known_elr == (after.leader,)
                assert after.leader_recovery_state == RECOVERING
            if not self.unclean:
                assert after.leader not in empty
        joined = set(after.isr).difference(before.isr) | {after.leader}
        lossy.difference_update(joined)
        empty.difference_update(joined)

    def killed(self, broker_id: int, *, disk: bool) -> None:
        """Note that what a broker had is lost, on its disk too or only since the last flush."""
        for key, partition in self.partitions():
            if broker_id in partition.replicas:
                self.lossy.setdefault(key, set()).add(broker_id)
                if disk:
                    self.empty.setdefault(key, set()).add(broker_id)

    def partitions(self) -> Iterator[tuple[Key, PartitionRegistration]]:
        for topic in self.image.topics.values():
            for number, partition in topic.partitions.items():
                yield (topic.id, number), partition


class Cluster(RuleBasedStateMachine):
    """Brokers, their processes and disks."""

    @initialize(count=st.integers(1, 6), least=st.integers(1, 3))
    def begin(self, count: int, least: int) -> None:
        self.random = random.Random(5)
        self.cluster: WatchedCluster = WatchedCluster(min_insync_replicas=str(least))
        self.incarnations = 0
        self.alive = set(range(1, count + 1))
        self.disks: dict[int, int] = {}
        for broker_id in range(1, count + 1):
            self.cluster.start(broker_id)
        replicas = list(range(1, min(count, 3) + 1))
        self.cluster.create("a", {0: replicas, 1: replicas[::-1]})

    def broker(self, index: int) -> int:
        """Return the id of one of the brokers that were ever there."""
        known = sorted(self.cluster.processes)
        return known[index % len(known)]

    def place(self, index: int) -> tuple[str, int]:
        """Return one of the partitions."""
        places = [
            (topic.name, number)
            for _, topic in sorted(self.cluster.image.topics.items())
            for number in topic.partitions
        ]
        return places[index % len(places)]

    # Brokers

    @rule(index=ANY, at=st.integers(0, 10), fence=st.booleans(), stop=st.booleans())
    def beat(self, index: int, at: int, *, fence: bool, stop: bool) -> None:
        """Send a heartbeat, of a broker that may be behind or want to stop or be fenced."""
        behind = self.cluster.end_offset - 1 - at if at > 5 else None
        broker_id = self.broker(index)
        self.cluster.beat(broker_id, at=behind, fence=fence and at == 0, stop=stop and at < 2)

    @rule(index=ANY)
    def beat_and_wait(self, index: int) -> None:
        self.alive.add(self.broker(index))
        self.cluster.beat(self.broker(index))
        self.cluster.run_due_steps()

    @rule(index=ANY, how=st.sampled_from(["clean", "unclean", "unclean", "empty"]))
    def restart(self, index: int, how: str) -> None:
        """Stop a process, wait until its session has ended, and start the next one."""
        broker_id = self.broker(index)
        process = self.cluster.processes[broker_id]
        self.cluster.control.disconnected(broker_id, self.cluster.now_ms)
        self.cluster.wait(600)
        if how != "clean":
            self.cluster.killed(broker_id, disk=how == "empty")
        self.start(broker_id, -1 if how == "unclean" else process.epoch, disk=how == "empty")

    @rule(broker_id=BROKERS)
    def start_another(self, broker_id: int) -> None:
        """Start a broker that was not there before."""
        if broker_id not in self.cluster.processes:
            self.start(broker_id, -1, disk=False)

    def start(self, broker_id: int, previous_epoch: int, *, disk: bool) -> None:
        number = self.disks[broker_id] = self.disks.get(broker_id, 0) + disk
        self.incarnations += 1
        error = self.cluster.register(
            broker_id,
            incarnation=self.incarnations,
            log_dirs=[directory(broker_id, number)],
            previous_epoch=previous_epoch,
        )
        assert error == 0
        self.alive.add(broker_id)

    @rule(index=ANY)
    def kill(self, index: int) -> None:
        self.alive.discard(self.broker(index))
        self.cluster.control.disconnected(self.broker(index), self.cluster.now_ms)

    @rule(index=ANY)
    def unregister(self, index: int) -> None:
        broker_id = self.broker(index)
        known = broker_id in self.cluster.image.brokers
        if len(self.cluster.image.brokers) > 1 or not known:
            offset = self.cluster.end_offset
            error = self.cluster.unregister(broker_id)
            if error == ErrorCode.POLICY_VIOLATION:
                assert known
                assert self.cluster.end_offset == offset
                return
            assert error == (0 if known else ErrorCode.BROKER_ID_NOT_REGISTERED)
            self.cluster.killed(broker_id, disk=False)

    @rule(ms=st.sampled_from([10, 499, 501, 10_000, 300_000]))
    def wait(self, ms: int) -> None:
        """Let time pass, in which the brokers that are not killed send heartbeats."""
        while ms > 0:
            self.cluster.wait(min(ms, 5_000))
            ms -= 5_000
            for broker_id in sorted(self.alive):
                self.cluster.beat(broker_id)

    @rule()
    def step(self) -> None:
        self.cluster.take(self.cluster.control.step(self.cluster.now_ms))

    @rule()
    def take_over(self) -> None:
        self.cluster.take_over()

    # Leaders

    @rule(index=ANY, data=st.data())
    def propose(self, index: int, data: st.DataObject) -> None:
        """Propose an ISR, mostly a sound one."""
        name, number = self.place(index)
        partition = self.cluster.partition(name, number)
        if partition.leader == NO_LEADER:
            return
        chosen = data.draw(st.lists(st.sampled_from(partition.replicas), max_size=3))
        isr = list(dict.fromkeys([partition.leader, *chosen]))
        if not data.draw(ANY) % 10:
            isr = [*chosen, 4]
        request = self.cluster.alteration([], name, number)
        proposed = request.topics[0].partitions[0]
        proposed.new_isr_with_epochs = [
            ProposedReplica(
                broker_id=each,
                broker_epoch=self.cluster.processes[each].epoch
                if each in self.cluster.processes
                else -1,
            )
            for each in isr
        ]
        proposed.partition_epoch -= data.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        proposed.leader_epoch -= data.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        if self.cluster.image.brokers[partition.leader].epoch == request.broker_epoch:
            self.cluster.alter(request)

    @rule(index=ANY)
    def produce(self, index: int) -> None:
        """Commit a record, which is on the in-sync replicas only, if they are enough."""
        name, number = self.place(index)
        topic, partition = self.cluster.image.topics[name], self.cluster.partition(name, number)
        if partition.leader == NO_LEADER:
            return
        rules = ElectionRules(self.cluster.image, self.cluster.config)
        if len(partition.isr) >= rules.least_to_commit(topic, partition):
            without = set(partition.replicas).difference(partition.isr)
            self.cluster.lossy.setdefault((topic.id, number), set()).update(without)

    # Administrators

    @rule(name=NAMES, count=st.integers(1, 3), factor=st.integers(1, 4))
    def create(self, name: str, count: int, factor: int) -> None:
        request = CreateTopicsRequest(topics=[a_topic(name, count, factor)])
        cluster = self.cluster
        self.cluster.submit(
            create_topics(cluster.image, request, cluster.config, self.random).records
        )

    @rule(name=NAMES, count=st.integers(1, 3))
    def grow(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False)
        self.cluster.submit(create_partitions(self.cluster.image, request, self.random).records)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1)
        self.cluster.submit(delete_topics(self.cluster.image, request, 5, enabled=True).records)

    @rule(index=ANY, kind=st.sampled_from([PREFERRED, PREFERRED, PREFERRED, UNCLEAN]))
    def elect(self, index: int, kind: int) -> None:
        name, number = self.place(index)
        topics = [TopicPartitions(topic=name, partitions=[number])]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
        self.cluster.unclean = kind == UNCLEAN
        decision = elect_leaders(self.cluster.image, request, self.cluster.config)
        self.cluster.submit(decision.records)
        self.cluster.unclean = False

    @rule(index=ANY, replicas=st.none() | st.lists(ANY, min_size=1, max_size=4).map(tuple))
    def reassign(self, index: int, replicas: tuple[int, ...] | None) -> None:
        """Reassign a partition, or with None cancel a reassignment."""
        name, number = self.place(index)
        chosen = None
        if replicas is not None:
            chosen = list(dict.fromkeys(self.broker(each) for each in replicas))
        target = ReassignablePartition(partition_index=number, replicas=chosen)
        topic = ReassignableTopic(name=name, partitions=[target])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        cluster = self.cluster
        decision = alter_partition_reassignments(cluster.image, request, cluster.config)
        before = cluster.partition(name, number).replicas
        key = (cluster.image.topics[name].id, number)
        self.cluster.submit(decision.records)
        added = set(cluster.partition(name, number).replicas).difference(before)
        cluster.lossy.setdefault(key, set()).update(added)
        cluster.empty.setdefault(key, set()).update(added)

    @rule(least=st.integers(1, 3), name=st.sampled_from(["", "a"]))
    def change_minimum(self, least: int, name: str) -> None:
        change = AlterableConfig(name="min.insync.replicas", config_operation=0, value=str(least))
        resource = AlterConfigsResource(
            resource_type=2 if name else 4, resource_name=name, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        decision = incremental_alter_configs(self.cluster.image, request, self.cluster.config)
        self.cluster.submit(decision.records)

    # What is always true

    @invariant()
    def partitions_are_sound(self) -> None:
        if not hasattr(self, "cluster"):
            return
        rules = ElectionRules(self.cluster.image, self.cluster.config)
        for (topic_id, _), partition in self.cluster.partitions():
            isr, elr = set(partition.isr), set(partition.elr)
            assert len(isr) == len(partition.isr)
            assert isr.union(elr).issubset(partition.replicas)
            assert isr.isdisjoint(elr)
            topic = self.cluster.image.topic_by_id(topic_id)
            assert topic is not None
            if len({len(each.replicas) for each in topic.partitions.values()}) == 1:
                # Beside an ISR that commits nobody has all records, so nobody is eligible.
                assert not elr or len(isr) < rules.min_isr(topic)
            assert partition.leader in isr or partition.leader == NO_LEADER
            assert len(partition.last_known_elr) <= 1
            assert len(partition.directories) == len(partition.replicas)
        assert self.cluster.largest_part <= RECORDS_PER_PART

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.run_due_steps()
        active = {broker.id for broker in cluster.image.brokers.values() if broker.active}
        for _, partition in cluster.partitions():
            if partition.leader == NO_LEADER:
                assert active.isdisjoint({*partition.isr, *partition.elr})
            else:
                assert active.issuperset(partition.isr)
        image = MetadataImage(CLUSTER)
        delta = MetadataDelta()
        for record in cluster.records:
            delta.add(image, record)
            image.replay(record)
        assert image == cluster.image
        assert decode(encode(image, 7), CLUSTER) == image


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
