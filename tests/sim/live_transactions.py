"""A transactional producer of a live cluster, request by request, and what a reader gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.broker.node import Node
from odradek.coordinator.transaction.transaction_metadata import TransactionMetadata
from odradek.coordinator.transaction.transaction_state import TransactionState
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS, TopicPartition
from odradek.protocol import record_batch_builder
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.testing.history import History
from odradek.testing.machine import PORT, host_of
from odradek.testing.probes import nodes_of, open_transactions
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SECOND, SimClock
from odradek.testing.transactions import TransactionHistory
from odradek.testing.workload.cluster_client import GROUP, TRANSACTION, ClusterClient
from odradek.testing.workload.committed_reader import SimCommittedReader
from odradek.testing.workload.group_offsets import ask_offsets
from odradek.testing.workload.topics import TopicLife
from odradek.testing.workload.transactional_producer import (
    ADD_VERSION,
    END_VERSIONS,
    INIT_VERSIONS,
    OFFSETS_VERSIONS,
    PRODUCE_VERSIONS,
    error_of_added,
    error_of_offsets,
    error_of_produce,
    error_of_response,
)
from odradek.testing.workload.wire import WireClient
from sim.live_cluster import LiveCluster

Send = tuple[int, Any, int, type[Any], Callable[[Any], ErrorCode]]
"""A node, a request with its version, its response, and the error of that."""
NO_ANSWER = ErrorCode.NETWORK_EXCEPTION
TIMEOUT_MS = 20_000
"""Longer than what is held back is held."""
PATIENCE_NS = 120 * SECOND
"""Longer than an error that passes may take."""


def live_cluster(**settings: str) -> LiveCluster:
    """Return a cluster of three that is ready for transactions, with more `settings`."""
    cluster = LiveCluster(
        3,
        transaction_state_log_replication_factor="3",
        transaction_state_log_min_isr="2",
        transaction_state_log_num_partitions="3",
        **settings,
    )

    def is_found(kind: int) -> bool:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"])
        found = cluster.ask(1, request, 4, FindCoordinatorResponse)
        return found is not None and found.coordinators[0].error_code == 0

    for kind in (GROUP, TRANSACTION):
        cluster.until(partial(is_found, kind))
    cluster.await_healed()
    return cluster


class Client:
    """A host of its own, with a connection to one node: what it sends may be held back."""

    def __init__(self, cluster: LiveCluster, name: str, node: int) -> None:
        self.cluster, self.name, self.host = cluster, name, host_of(node)
        process = SimProcess(cluster.scheduler, name, SimClock(cluster.scheduler))
        network = cluster.world.fabric.network(process, name)
        chance = cluster.scheduler.stream(f"client/{name}")
        self._wire = WireClient(process, network, chance, self.host, PORT, TIMEOUT_MS)

    def send(self, send: Send) -> list[ErrorCode]:
        """Send a request; the list gets the error of its answer."""
        _, request, version, answer, error_of = send
        got: list[ErrorCode] = []
        self._wire.call(
            request,
            version,
            answer,
            lambda response: got.append(error_of(response)),
            lambda: got.append(NO_ANSWER),
        )
        return got

    def ask(self, send: Send) -> ErrorCode:
        """Send a request, and wait for its answer."""
        got = self.send(send)
        self.cluster.until(lambda: got)
        return got[0]

    def hold(self) -> None:
        """Hold what it sends from now on."""
        ways = self.cluster.world.fabric.ways
        ways.cut([ways.between(self.name, self.host)])

    def release(self) -> None:
        """Let all arrive that was held."""
        ways = self.cluster.world.fabric.ways
        ways.mend([ways.between(self.name, self.host)])

    def lose_answers(self) -> None:
        """Let no answer arrive from now on."""
        ways = self.cluster.world.fabric.ways
        ways.cut([ways.between(self.host, self.name)])

    def close(self) -> None:
        """Close the connection; there is no answer to what was sent."""
        self._wire.close()

    def crash(self) -> None:
        """Kill its process: what it has sent still arrives."""
        self._wire.crash()


class Producer:
    """A transactional producer of `transaction.version` 1 or 2. Requests with an error that passes
    are sent again, to whoever serves them then.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        transactional_id: str,
        topic: str,
        version: int,
        timeout_ms: int = 60_000,
        host: str = "",
    ) -> None:
        self.cluster, self.id, self.topic, self.version = cluster, transactional_id, topic, version
        self.timeout_ms = timeout_ms
        self.host = host or transactional_id
        self.producer_id = self.epoch = -1
        self._sequences: dict[int, int] = {}
        self._clients: dict[int, Client] = {}
        self._connected = 0

    # Connections.

    def client(self, node: int) -> Client:
        """Return the connection to a node."""
        found = self._clients.get(node)
        if found is None:
            name = f"{self.host}-{self._connected}-{node}"
            found = self._clients[node] = Client(self.cluster, name, node)
        return found

    def reconnect(self) -> None:
        """Use new connections from now on; the old ones stay."""
        self._clients = {}
        self._connected += 1

    def crash(self) -> None:
        """Kill the process of each connection."""
        for each in self._clients.values():
            each.crash()

    # Who serves it.

    @property
    def newest(self) -> Node:
        """The running node that knows most of the metadata."""
        nodes = nodes_of(self.cluster.world.machines).values()
        return max(nodes, key=lambda node: node.metadata.committed_offset)

    @property
    def coordinator(self) -> int:
        """The number of its coordinator's node."""
        transactions = self.newest.broker.transactions
        self.cluster.until(lambda: transactions.coordinator_node(self.id) >= 0)
        return transactions.coordinator_node(self.id)

    @property
    def group(self) -> str:
        """The group whose offsets it commits."""
        return f"group-{self.id}"

    @property
    def group_coordinator(self) -> int:
        """The number of the node that coordinates its group."""
        number = self.newest.broker.groups.runtime.partition_of(self.group)
        offsets = self.newest.metadata.committed.topic(CONSUMER_OFFSETS)
        assert offsets is not None, "nobody has asked for a coordinator of groups"
        return offsets.partitions[number].leader

    @property
    def metadata(self) -> TransactionMetadata | None:
        """What is known of its id, None if its coordinator does not have it now."""
        node = nodes_of(self.cluster.world.machines).get(self.coordinator)
        shard = None if node is None else node.broker.transactions.runtime.state_machine(self.id)
        return None if shard is None else shard.get(self.id)

    @property
    def state(self) -> TransactionState | None:
        """The state of its id, None if its coordinator does not have it now."""
        known = self.metadata
        return None if known is None else known.state

    def leader(self, index: int) -> int:
        """The number of the node that leads a partition of its topic."""
        topic = self.newest.metadata.committed.topic(self.topic)
        assert topic is not None
        return topic.partitions[index].leader

    # Requests.

    def _of_version(self, versions: tuple[int, int]) -> int:
        return versions[self.version - 1]

    def init_request(self) -> Send:
        request = InitProducerIdRequest(
            transactional_id=self.id, transaction_timeout_ms=self.timeout_ms
        )
        version = self._of_version(INIT_VERSIONS)
        return self.coordinator, request, version, InitProducerIdResponse, self._identified

    def _identified(self, response: InitProducerIdResponse) -> ErrorCode:
        if response.error_code == 0:
            self._take(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    def add_request(self, index: int) -> Send:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[index])],
        )
        return (
            self.coordinator,
            request,
            ADD_VERSION,
            AddPartitionsToTxnResponse,
            error_of_added,
        )

    def produce_request(self, index: int, value: bytes) -> Send:
        leader = self.leader(index)
        records = record_batch_builder.build(
            [(None, value, (), 1)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(index, 0),
            transactional=True,
        )
        known = self.newest.metadata.committed.topic(self.topic)
        assert known is not None
        data = [PartitionProduceData(index=index, records=records)]
        topic = TopicProduceData(name=self.topic, topic_id=known.id, partition_data=data)
        request = ProduceRequest(
            transactional_id=self.id, acks=-1, timeout_ms=3_000, topic_data=[topic]
        )
        version = self._of_version(PRODUCE_VERSIONS)
        return leader, request, version, ProduceResponse, error_of_produce

    def add_offsets_request(self) -> Send:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=self.group,
        )
        return self.coordinator, request, ADD_VERSION, AddOffsetsToTxnResponse, error_of_response

    def offset_request(self, offset: int) -> Send:
        """A TxnOffsetCommit of partition 0 of its topic."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=self.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        version = self._of_version(OFFSETS_VERSIONS)
        return self.group_coordinator, request, version, TxnOffsetCommitResponse, error_of_offsets

    def end_request(self, *, commit: bool) -> Send:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = self._of_version(END_VERSIONS)
        return self.coordinator, request, version, EndTxnResponse, self._ended

    def _ended(self, response: EndTxnResponse) -> ErrorCode:
        if response.error_code == 0 and self.version == 2:
            self._take(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    # Requests that are sent until their answer decides.

    def _insist(self, make: Callable[[], Send]) -> ErrorCode:
        end_ns = self.cluster.scheduler.now_ns + PATIENCE_NS
        while True:
            send = make()
            error = self.client(send[0]).ask(send)
            if not error.retriable:
                return error
            assert self.cluster.scheduler.now_ns < end_ns, f"it gets {error.name} all the time"
            self.cluster.scheduler.run(self.cluster.scheduler.now_ns + 50 * MS)

    def init(self) -> ErrorCode:
        """Take the id over."""
        return self._insist(self.init_request)

    def write(self, index: int, value: bytes) -> ErrorCode:
        """Write one record in the transaction."""
        if self.version == 1:
            error = self._insist(lambda: self.add_request(index))
            if error is not ErrorCode.NONE:
                return error
        error = self._insist(lambda: self.produce_request(index, value))
        if error is ErrorCode.NONE:
            self._sequences[index] = self._sequences.get(index, 0) + 1
        return error

    def add_offsets(self) -> ErrorCode:
        """Tell the coordinator of the group, which version 2 need not."""
        if self.version == 2:
            return ErrorCode.NONE
        return self._insist(self.add_offsets_request)

    def commit_offset(self, offset: int) -> ErrorCode:
        """Commit an offset of its group with the transaction."""
        error = self.add_offsets()
        if error is not ErrorCode.NONE:
            return error
        return self._insist(lambda: self.offset_request(offset))

    def end(self, *, commit: bool) -> ErrorCode:
        """Commit or abort."""
        return self._insist(lambda: self.end_request(commit=commit))


def reading_client(cluster: LiveCluster, name: str) -> ClusterClient:
    """Return a client that can find the leaders of a topic, and coordinators."""
    number = len(cluster.world.fabric.hosts)
    process = SimProcess(cluster.scheduler, f"reader{number}", SimClock(cluster.scheduler))
    network = cluster.world.fabric.network(process, process.name)
    chance = cluster.scheduler.stream(f"client/{process.name}")
    topic_id = cluster.partition(cluster.leader(name), name).topic_id
    topics = {name: TopicLife(name, name, topic_id)}
    hosts = [machine.host for machine in cluster.world.machines]
    return ClusterClient(process, network, chance, hosts, PORT, topics)


def committed_values(cluster: LiveCluster, name: str, partitions: int) -> list[bytes]:
    """Return what a reader of committed records gets, sorted, when no transaction is open."""
    cluster.await_healed()
    cluster.until(lambda: not open_transactions(cluster.world.machines))
    client = reading_client(cluster, name)
    observed = TransactionHistory()
    indexes = [TopicPartition(name, index) for index in range(partitions)]
    reader = SimCommittedReader(
        client, History(), observed, client.process.name, indexes, client.topics, final=True
    )
    reader.start()
    cluster.until(lambda: reader.finished)
    return sorted(read.value for read in observed.reads)


def stable_offset(producer: Producer) -> int:
    """Return the committed offset of a producer's group, -1 for none, when none is pending."""
    found: list[int] = []
    partition = TopicPartition(producer.topic, 0)
    client = reading_client(producer.cluster, producer.topic)
    ask_offsets(
        client, producer.group, [partition], lambda offsets: found.append(offsets[partition])
    )
    producer.cluster.until(lambda: found)
    return found[0]
