"""Three nodes in one simulation, topics with a replica on each, and a client that asks any node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from odradek.controller.image import PartitionRegistration, ResourceType, TopicImage
from odradek.log.fence import LogDamaged
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.node import Node as NodeAddress
from odradek.model.topics import TopicIdPartition
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import NetworkClient
from odradek.network_client.settings import NetworkClientSettings
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.hot_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.record_batch_builder import build
from odradek.replication.partition import Partition
from odradek.testing.client_process import ClientProcess
from odradek.testing.machine import host_of
from odradek.testing.scheduler import MS
from unit.broker.cluster_nodes import VOTERS, ClusterNodes

PORT = 9092
SECOND = 1000
SET = 0


class ReplicatedNodes(ClusterNodes):
    """Three voters that are ready; `topic` is the topic that the other methods are about."""

    def __init__(self, **settings: str) -> None:
        """`settings`: of all nodes, with underscores for dots."""
        super().__init__(3, controller_quorum_voters=VOTERS, **settings)
        self.boot()
        self.until(self.all_ready)
        self.client = AskingClient(self)
        self.topic = "t"

    # Topics

    def create_topic(self, *replicas: int, name: str = "t", **config: str) -> ReplicatedNodes:
        """Create a topic of one partition with these replicas, the first of which leads."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(
                    partition_index=0, broker_ids=list(replicas or (1, 2, 3))
                )
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in config.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer = self.client.ask(self.controllers[0].config.node_id, request)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self.topic = name
        self.until(lambda: all(self.has_replica(n) for n in replicas or (1, 2, 3)))
        return self

    def has_replica(self, number: int) -> bool:
        return (self.topic, 0) in self.node(number).replicas.by_name

    def replica(self, number: int) -> Partition:
        """The replica of a node."""
        return self.node(number).replicas.by_name[self.topic, 0]

    def topic_id(self) -> UUID:
        return self._topic().id

    def _topic(self) -> TopicImage:
        at = (self.controllers or self.running)[0]
        topic = at.metadata.committed.topic(self.topic)
        assert topic is not None
        return topic

    def registration(self) -> PartitionRegistration:
        """The partition as the active controller, or else any node, knows it."""
        return self._topic().partitions[0]

    @property
    def isr(self) -> list[int]:
        return sorted(self.registration().isr)

    @property
    def leader(self) -> int:
        """The node that leads, by the metadata; -1 if none does."""
        return self.registration().leader

    def leads(self, number: int) -> bool:
        """True if this node itself knows that it leads."""
        return self.machines[number].running and self.replica(number).is_leader

    def await_leader(self, *others: int) -> int:
        """Wait until a node, none of the `others`, leads and knows it; return it."""
        self.until(lambda: self.leader not in (-1, *others) and self.leads(self.leader))
        return self.leader

    def ends(self) -> list[int]:
        """The log ends of the running replicas."""
        return [node.replicas.by_name[self.topic, 0].log.log_end_offset for node in self.running]

    def log_bytes(self, number: int) -> bytes:
        """The bytes of a replica's log, whatever is synced."""
        partition = self.replica(number)
        end = partition.log.log_end_offset
        start, found = partition.log.log_start_offset, b""
        while start < end:
            read = partition.log.read(start, 1 << 20, end, True)
            data = b"".join(piece.read() for piece in read.slices)
            read.release()
            found += data
            start = int.from_bytes(data[:8], "big") if not data else next_offset(data)
        return found

    def logs_are_equal(self) -> bool:
        return len({self.log_bytes(node.config.node_id) for node in self.running}) == 1

    def set_config(self, name: str, value: str) -> None:
        """Set a setting of the topic."""
        self._set_config(ResourceType.TOPIC, self.topic, name, value)

    def set_broker_config(self, name: str, value: str, of: str = "") -> None:
        """Set a setting of all brokers, or of one."""
        self._set_config(ResourceType.BROKER, of, name, value)

    def _set_config(self, kind: ResourceType, of: str, name: str, value: str) -> None:
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=of,
            configs=[AlterableConfig(name=name, config_operation=SET, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = self.client.ask(self.controllers[0].config.node_id, request)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer

    def reassign(self, *replicas: int) -> None:
        """Begin to move the partition to these replicas."""
        partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
        topic = ReassignableTopic(name=self.topic, partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=30_000)
        answer = self.client.ask(self.controllers[0].config.node_id, request)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE, answer

    def delete_records(self, number: int, offset: int) -> ClientRequest:
        """Ask a node to delete the records below an offset."""
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=self.topic, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=30_000)
        return self.client.send(number, request)

    def latest_offset(self, number: int) -> int:
        """The end of the partition as a node tells it."""
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=self.topic, partitions=[partition])
        answer = (
            self.client.ask(number, ListOffsetsRequest(replica_id=-1, topics=[topic]))
            .topics[0]
            .partitions[0]
        )
        assert answer.error_code == ErrorCode.NONE, answer
        return int(answer.offset)

    def damage(self, number: int) -> None:
        """Flip a bit in the first batch of a node that does not run."""
        disk, key = self.machines[number].disk, TopicIdPartition(self.topic_id(), 0)
        (path,) = [path for path in disk.paths() if path.endswith(".log") and f"/{key}/" in path]
        disk.flip_bit(path, 8 * 70)

    def find_damage(self, number: int) -> None:
        """Let a node find the log of its replica damaged while it runs."""
        replica = self.replica(number)
        self.run(number, lambda: replica.fail(LogDamaged("the log", "a test says so")))

    # Time

    def pause(self, number: int, milliseconds: int) -> None:
        """Delay all events of a node, as SIGSTOP and a later SIGCONT do."""
        process = self.machines[number].process
        assert process is not None
        process.paused_until_ns = self.scheduler.now_ns + milliseconds * MS

    def cut(self, source: int, *targets: int) -> Callable[[], None]:
        """Let nothing that a node sends to others arrive, until the returned function is called."""
        ways = self.fabric.ways
        cut = [ways.between(host_of(source), host_of(target)) for target in targets]
        ways.cut(cut)
        return lambda: ways.mend(cut)

    def pass_time(self, milliseconds: int) -> None:
        self.scheduler.run(self.scheduler.now_ns + milliseconds * MS)

    # Records

    def produce(
        self, number: int, count: int = 1, *, acks: int = -1, timeout_ms: int = 30_000
    ) -> Produced:
        """Send a batch to a node."""
        records = build([(None, b"value %d" % each, [], 0) for each in range(count)])
        data = PartitionProduceData(index=0, records=ByteRange(records, 0, len(records)))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(name=self.topic, topic_id=self.topic_id(), partition_data=[data])
            ],
        )
        return Produced(self, self.client.send(number, request))

    def produced(self, number: int, count: int = 1, *, acks: int = -1) -> ErrorCode:
        """Send a batch to a node; return the error of its answer."""
        return self.produce(number, count, acks=acks).error


def next_offset(data: bytes) -> int:
    """The offset after the last whole batch."""
    position = 0
    while position < len(data):
        base = int.from_bytes(data[position : position + 8], "big")
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        last = int.from_bytes(data[position + 23 : position + 27], "big")
        position += size
    return base + last + 1


class Produced:
    """A Produce request under way."""

    def __init__(self, nodes: ReplicatedNodes, call: ClientRequest) -> None:
        self._nodes = nodes
        self._call = call

    @property
    def is_answered(self) -> bool:
        return self._call.done

    @property
    def response(self) -> PartitionProduceResponse:
        """The answer, however long it takes."""
        self._nodes.until(lambda: self._call.done, 60_000)
        assert self._call.error is None, self._call.error
        (topic,) = self._call.response.responses
        (partition,) = topic.partition_responses
        assert isinstance(partition, PartitionProduceResponse)
        return partition

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """The addresses of leaders that the answer names."""
        endpoints = self._call.response.node_endpoints or []
        return {each.node_id: (each.host, each.port) for each in endpoints}

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


class AskingClient(ClientProcess):
    """Sends requests to the nodes' client listeners, each to the node that the test names."""

    def __init__(self, nodes: ReplicatedNodes) -> None:
        super().__init__(nodes.scheduler, nodes.fabric, "client")
        self._nodes = nodes
        settings = NetworkClientSettings("client", 60_000, 600_000, 10, 10, 1000, 1000, 100)
        self._client = NetworkClient(self.env, self.timer, settings)
        addresses = {n: NodeAddress(n, host_of(n), PORT) for n in nodes.machines}
        self.do(lambda: self._client.update_nodes(addresses))

    def send(self, number: int, request: Any) -> ClientRequest:
        """Send a request to a node."""
        return self.do(lambda: self._client.send(number, request, lambda call: None))

    def ask(self, number: int, request: Any) -> Any:
        """The response of a node, however long it takes."""
        call = self.send(number, request)
        self._nodes.until(lambda: call.done, 60_000)
        assert call.error is None, call.error
        return call.response
