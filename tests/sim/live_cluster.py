"""A cluster of the real broker in simulated time that a test drives by hand, request by request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from odradek.broker.node import Node
from odradek.model.errors import ErrorCode
from odradek.protocol import record_batch_builder
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.replication.partition import Partition
from odradek.testing.machine import PORT, SimMachine, host_of
from odradek.testing.probes import missing_until_healed
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SimClock
from odradek.testing.workload.schedule import Schedule
from odradek.testing.workload.wire import WireClient
from odradek.testing.world import World

PRODUCE_VERSION = 13
NO_CONFIGS: Mapping[str, str] = {}


def without_work(plan: Schedule) -> Schedule:
    """Take clients and faults out of a schedule."""
    return replace(
        plan, topics=[], producers=[], readers=[], trimmers=[], recreated=[], faults=[], fates=[]
    )


def is_active(machine: SimMachine) -> bool:
    """True if the machine's node is the active controller."""
    broker = machine.broker
    return isinstance(broker, Node) and broker.metadata.controller.is_active


class LiveCluster:
    """Machines with a node each, and one client."""

    def __init__(self, machines: int = 3, **settings: str) -> None:
        """`settings`: of all nodes, with underscores for dots."""
        given = {name.replace("_", "."): value for name, value in settings.items()}

        def adjust(plan: Schedule) -> Schedule:
            known = {"min.insync.replicas": "2"}
            plan = replace(without_work(plan), recorded_voters=False, voters=0, operations=())
            return replace(plan, settings=plan.settings | known | given)

        self.world = World(1, 1, extras=False, brokers=machines, adjust=adjust)
        self.scheduler = self.world.scheduler
        for machine in self.world.machines:
            machine.boot()
        self.until(lambda: not missing_until_healed(self.world.machines))
        self.process = SimProcess(self.scheduler, "client", SimClock(self.scheduler))
        self.network = self.world.fabric.network(self.process, "client")
        self._wires: dict[tuple[int, int], WireClient] = {}

    def until(self, condition: Callable[[], object], limit_ms: int = 60_000) -> None:
        """Run until something has happened."""
        end_ns = self.scheduler.now_ns + limit_ms * MS
        while not condition():
            assert self.scheduler.now_ns < end_ns, "it did not happen in time"
            self.scheduler.run(self.scheduler.now_ns + 10 * MS)

    def await_healed(self) -> None:
        """Run until all partitions are led, and all replicas in sync."""
        self.until(lambda: not missing_until_healed(self.world.machines))

    def await_healed_without(self, lost: int) -> None:
        """Run until the other machines lead all partitions, and have all their replicas in sync."""
        self.until(lambda: not missing_until_healed(self.world.machines, [lost]))

    def connect_anew(self) -> None:
        """Forget connections to machines that were down."""
        self._wires.clear()

    def machine(self, number: int) -> SimMachine:
        return self.world.machines[number - 1]

    def node(self, number: int) -> Node:
        broker = self.machine(number).broker
        assert isinstance(broker, Node), f"node {number} does not run"
        return broker

    @property
    def controller(self) -> int:
        """The number of the active controller."""
        (number,) = [each.number for each in self.world.machines if is_active(each)]
        return number

    def ask(
        self, number: int, request: Any, version: int, answer: type[Any], port: int = PORT
    ) -> Any:
        """Send a request to a node; return its answer, None if it closed the connection."""
        wire = self._wires.get((number, port))
        if wire is None:
            chance = self.scheduler.stream(f"client/{number}/{port}")
            wire = WireClient(self.process, self.network, chance, host_of(number), port, 5_000)
            self._wires[number, port] = wire
        answers: list[Any] = []
        wire.call(request, version, answer, answers.append, lambda: answers.append(None))
        self.until(lambda: answers)
        return answers[0]

    def create(
        self,
        name: str,
        replicas: int = 3,
        partitions: int = 1,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """Create a topic, and wait until all replicas are in sync."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=setting, value=value)
                for setting, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        response = None
        while response is None:  # The connection may be one to a process that was killed since.
            response = self.ask(self.controller, request, 7, CreateTopicsResponse)
        assert response.topics[0].error_code == 0
        self.await_healed()

    def delete(self, topic_id: UUID) -> ErrorCode:
        """Delete a topic; return the error of the answer."""
        topics = [DeleteTopicState(name=None, topic_id=topic_id)]
        request = DeleteTopicsRequest(topics=topics, timeout_ms=5_000)
        response = self.ask(self.controller, request, 6, DeleteTopicsResponse)
        return ErrorCode(response.responses[0].error_code)

    def produce(self, name: str, values: list[bytes]) -> None:
        """Produce one batch for each value, acknowledged by all replicas."""
        for value in values:
            error = self.send(name, value)
            assert error is ErrorCode.NONE, error

    def send(self, name: str, value: bytes) -> ErrorCode:
        """Send one batch to the leader; return the error of the answer."""
        leader = self.leader(name)
        request = self.produce_request(name, record_batch_builder.build([(None, value, (), 1)]))
        response = self.ask(leader, request, PRODUCE_VERSION, ProduceResponse)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    def produce_request(self, name: str, batch: bytes) -> ProduceRequest:
        """Return the Produce of a batch, which all replicas have to acknowledge."""
        partition = PartitionProduceData(index=0, records=batch)
        topic_id = self.partition(self.leader(name), name).topic_id
        topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])
        return ProduceRequest(acks=-1, timeout_ms=3_000, topic_data=[topic])

    def idempotent_request(
        self, name: str, producer_id: int, epoch: int, sequence: int = 0
    ) -> ProduceRequest:
        """Return the Produce of one record of an idempotent producer."""
        batch = record_batch_builder.build(
            [(None, b"x", (), 1)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return self.produce_request(name, batch)

    def partition(self, number: int, name: str, index: int = 0) -> Partition:
        """Return a node's replica of a partition."""
        node = self.node(number)
        topic = node.metadata.committed.topic(name)
        assert topic is not None
        return node.replicas.by_id[topic.id, index]

    def leads(self, name: str) -> bool:
        """True if a node that runs leads partition 0 of a topic, and is not fenced."""
        active = [each for each in self.world.machines if is_active(each)]
        if len(active) != 1:
            return False
        image = self.node(active[0].number).metadata.committed
        topic = image.topic(name)
        leader = -1 if topic is None else topic.partitions[0].leader
        return leader > 0 and self.machine(leader).running and image.brokers[leader].active

    def leader(self, name: str) -> int:
        """Return the node that leads partition 0 of a topic."""
        topic = self.node(self.controller).metadata.committed.topic(name)
        assert topic is not None
        return topic.partitions[0].leader
