"""Toy brokers that share one storage and hand the leadership of partitions around.

It tests the simulator of several machines, not the product: clients must find leaders that move,
whatever happens to links and machines. Storage never fails and outlives every broker, so a new
leader has every record. What brokers know of leaders is old for a while: Metadata may name one that
has lost its leadership. A broker that does not lead answers NOT_LEADER_OR_FOLLOWER.

`DividedToy` is broken: brokers that lost their leadership go on answering, each in an epoch of
its own making.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api import (
    fetch,
    find_coordinator,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from odradek.testing.disk import SimDisk
from odradek.testing.machine import PORT, Wiring, host_of
from odradek.testing.probes import PartitionView
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, Scheduler
from odradek.testing.workload.schedule import Schedule
from sim.toy_broker import Partition, ToyBroker

FAILOVER_NS = 400 * MS


@dataclass
class Led:
    """The leader of a partition and its epoch."""

    number: int
    epoch: int = 0


@dataclass
class SharedState:
    """What all brokers of a cluster share."""

    scheduler: Scheduler
    machines: int
    topics: dict[str, tuple[UUID, list[Partition]]] = field(default_factory=dict)
    leaders: dict[tuple[UUID, int], Led] = field(default_factory=dict)
    brokers: dict[int, ClusterToy] = field(default_factory=dict)
    coordinator: int = 1
    """The broker that coordinates all groups."""
    committed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = self.scheduler.stream("cluster")
        disk = SimDisk(self.scheduler, "shared")
        self.mount = disk.mount()
        self.mount.make_directory("/data")
        self.scheduler.after(FAILOVER_NS, "cluster", "look", self.look)

    def alive(self) -> list[int]:
        return [n for n, broker in sorted(self.brokers.items()) if broker.process.alive]

    def look(self) -> None:
        """Move the leaderships of dead brokers, and now and then one of another."""
        alive = self.alive()
        for key, led in self.leaders.items():
            if alive and (led.number not in alive or self.chance.chance(30)):
                self.move(key, led, self.chance.pick(alive))
        if alive and (self.coordinator not in alive or self.chance.chance(50)):
            self.coordinator = self.chance.pick(alive)
        self.scheduler.after(FAILOVER_NS, "cluster", "look", self.look)

    def move(self, key: tuple[UUID, int], led: Led, number: int) -> None:
        old = self.brokers.get(led.number)
        led.number, led.epoch = number, led.epoch + 1
        partition = self.partition(key)
        waiting, partition.waiting, partition.flushing = partition.waiting, [], False
        if old is not None and old.process.alive and old.number != number:
            for _, reply in waiting:
                reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for broker in self.brokers.values():
            broker.hear_later(key, number, led.epoch)
        self.brokers[number].lead(partition)

    def partition(self, key: tuple[UUID, int]) -> Partition:
        (found,) = [rows[key[1]] for topic_id, rows in self.topics.values() if topic_id == key[0]]
        return found


class ClusterToy(ToyBroker):
    """One broker of the cluster."""

    def __init__(self, env: Env, process: SimProcess, shared: SharedState, durability: str) -> None:
        self.shared = shared
        self.number = next(n for n in range(1, 6) if host_of(n) == process.name)
        self.known: dict[tuple[UUID, int], Led] = {}
        self.env, self.process, self.durability = env, process, durability
        self.fenced = False
        self.topics = shared.topics
        shared.brokers[self.number] = self
        for key, led in shared.leaders.items():
            self.hear_later(key, led.number, led.epoch)
        for key, led in shared.leaders.items():
            if led.number == self.number:  # A process never goes on in the epoch of another.
                shared.move(key, led, self.number)
        env.network.listen("0.0.0.0", PORT, self.accepted)

    # Leadership.

    def hear_later(self, key: tuple[UUID, int], number: int, epoch: int) -> None:
        """Learn of a leader after a while."""

        def hear() -> None:
            led = self.known.get(key)
            if led is None or led.epoch <= epoch:
                self.known[key] = Led(number, epoch)

        self.process.post(self.shared.chance.between(0, 1_500) * MS, "hear of a leader", hear)

    def lead(self, partition: Partition) -> None:
        self.process.post(0, "lead", lambda: self.flush(partition))

    def leads(self, topic_id: UUID, number: int) -> bool:
        return self.shared.leaders[topic_id, number].number == self.number

    def partition_views(self) -> Iterable[PartitionView]:
        for name, (topic_id, partitions) in self.topics.items():
            for number, partition in enumerate(partitions):
                if self.leads(topic_id, number):
                    end = self.visible_end(partition)
                    tp, epoch = TopicPartition(name, number), self.epoch(topic_id, number)
                    yield PartitionView(tp, topic_id, epoch, (), end, end)

    def epoch(self, topic_id: UUID, number: int) -> int:
        return self.shared.leaders[topic_id, number].epoch

    # Storage, which all share.

    def create(self, name: str, count: int) -> None:
        own, self.env = self.env, _with_disk(self.env, self.shared.mount)
        try:
            super().create(name, count)
        finally:
            self.env = own
        topic_id = self.topics[name][0]
        for number in range(count):
            key = (topic_id, number)
            self.shared.leaders[key] = Led(self.shared.chance.pick(self.shared.alive()))
            for broker in self.shared.brokers.values():
                broker.hear_later(key, self.shared.leaders[key].number, 0)

    # Requests.

    def do_InitProducerId(self, version: int, request: Any, respond: Any) -> None:
        own, self.env = self.env, _with_disk(self.env, self.shared.mount)
        try:
            super().do_InitProducerId(version, request, respond)
        finally:
            self.env = own

    def do_Metadata(self, version: int, request: Any, respond: Any) -> None:
        topics = []
        for asked in request.topics:
            topic_id, partitions = self.topics.get(asked.name, (UUID(int=0), []))
            rows = []
            for number in range(len(partitions)):
                led = self.known.get((topic_id, number))
                if led is not None:
                    rows.append(
                        metadata.MetadataResponsePartition(
                            error_code=0,
                            partition_index=number,
                            leader_id=led.number,
                            leader_epoch=led.epoch,
                            replica_nodes=[led.number],
                            isr_nodes=[led.number],
                        )
                    )
            knows = bool(rows) and len(rows) == len(partitions)
            topics.append(
                metadata.MetadataResponseTopic(
                    error_code=0 if knows else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    name=asked.name,
                    topic_id=topic_id,
                    partitions=rows if knows else [],
                )
            )
        brokers = [
            metadata.MetadataResponseBroker(node_id=n, host=host_of(n), port=PORT)
            for n in range(1, self.shared.machines + 1)
        ]
        respond(metadata.MetadataResponse(brokers=brokers, topics=topics))

    def do_FindCoordinator(self, version: int, request: Any, respond: Any) -> None:
        (key,) = request.coordinator_keys
        found = find_coordinator.Coordinator(
            key=key,
            node_id=self.shared.coordinator,
            host=host_of(self.shared.coordinator),
            port=PORT,
            error_code=0,
            error_message=None,
        )
        respond(find_coordinator.FindCoordinatorResponse(coordinators=[found]))

    def coordinator_error(self) -> ErrorCode:
        here = self.shared.coordinator == self.number
        return ErrorCode.NONE if here else ErrorCode.NOT_COORDINATOR

    def do_OffsetCommit(self, version: int, request: Any, respond: Any) -> None:
        (topic,) = request.topics
        error, offset = self.coordinator_error(), topic.partitions[0].committed_offset
        if not error:
            self.commit(request.group_id, offset)
        row = offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=error)
        rows = offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=[row])
        respond(offset_commit.OffsetCommitResponse(topics=[rows]))

    def commit(self, group: str, offset: int) -> None:
        self.shared.committed[group] = offset

    def do_OffsetFetch(self, version: int, request: Any, respond: Any) -> None:
        (asked,) = request.groups
        row = offset_fetch.OffsetFetchResponsePartitions(
            partition_index=0,
            committed_offset=self.shared.committed.get(asked.group_id, -1),
            metadata="",
            error_code=0,
        )
        topics = [
            offset_fetch.OffsetFetchResponseTopics(name=asked.topics[0].name, partitions=[row])
        ]
        group = offset_fetch.OffsetFetchResponseGroup(
            group_id=asked.group_id, topics=topics, error_code=self.coordinator_error()
        )
        respond(offset_fetch.OffsetFetchResponse(groups=[group]))

    def do_Produce(self, version: int, request: Any, respond: Any) -> None:
        topic = request.topic_data[0]
        name, _ = self.find(topic)
        topic_id, index = self.topics[name][0], topic.partition_data[0].index
        if self.leads(topic_id, index):
            super().do_Produce(version, request, respond)
            return
        row = produce.PartitionProduceResponse(
            index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
        )
        result = produce.TopicProduceResponse(
            name=name, topic_id=topic_id, partition_responses=[row]
        )
        respond(produce.ProduceResponse(responses=[result]) if request.acks else None)

    def do_ListOffsets(self, version: int, request: Any, respond: Any) -> None:
        def with_errors(response: Any) -> None:
            for topic in response.topics:
                topic_id = self.topics[topic.name][0]
                for row in topic.partitions:
                    if not self.leads(topic_id, row.partition_index):
                        row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                        row.offset = -1
            respond(response)

        super().do_ListOffsets(version, request, with_errors)

    def read(self, partition: Partition, requested: Any) -> fetch.PartitionData:
        (topic_id,) = [i for i, rows in self.topics.values() if partition in rows]
        error = ErrorCode.NONE
        led = self.shared.leaders[topic_id, requested.partition]
        if led.number != self.number:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif -1 < requested.current_leader_epoch < led.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error:
            return fetch.PartitionData(
                partition_index=requested.partition,
                error_code=error,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        return super().read(partition, requested)


class DividedToy(ClusterToy):
    """Takes itself for a leader when it has heard so, until it hears of another."""

    def leads(self, topic_id: UUID, number: int) -> bool:
        known = self.known.get((topic_id, number))
        return known is not None and known.number == self.number

    def epoch(self, topic_id: UUID, number: int) -> int:
        return 7


class ForgetfulToy(ClusterToy):
    """Acknowledges one commit in five without keeping it."""

    def commit(self, group: str, offset: int) -> None:
        if offset % 5:
            super().commit(group, offset)


def _with_disk(env: Env, disk: Any) -> Env:
    return replace(env, disk=disk)


def toy_cluster(broker: type[ClusterToy] = ClusterToy) -> Callable[[Schedule], Wiring]:
    """Return the `wire` of a world. The state is made at the first start, with its scheduler."""

    def wire(plan: Schedule) -> Wiring:
        shared: list[SharedState] = []

        def start(env: Env, process: SimProcess) -> ClusterToy:
            if not shared:
                shared.append(SharedState(process.scheduler, plan.machines))
            return broker(env, process, shared[0], plan.durability)

        return Wiring(start)

    return wire
