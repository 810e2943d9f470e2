"""Measurements of transactions at one running broker: each function drives it and returns figures.

The client follows `transaction.version` 2, as Java's does: Produce 12 adds partitions, EndTxn 5
answers the next epoch. Its requests are encoded by our codec, those of single commits before the
clock starts.
"""

from __future__ import annotations

import itertools
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import raw_client
from broker_load import Figures
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
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
from odradek.protocol.record_batch_builder import build
from peers import Node, cpu_s, pss_mib

T = TypeVar("T")
PRODUCE, END, INIT, OFFSETS, FIND, FETCH, LIST = 12, 5, 5, 5, 4, 12, 7
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
GROUP = "bench-group"
GROUP_KEY, TRANSACTION_KEY = 0, 1
LATEST = -1
PATIENCE_S = 60
TIMEOUT_MS = 60_000
RETRY_S = 0.001
PIPELINE = 200
RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_numbers = itertools.count()


def new_topic(node: Node, partitions: int = 1) -> str:
    """Create a topic; return its name when it takes records."""
    topic = f"transactions-{next(_numbers)}"
    if partitions == 1:
        raw_client.create_topic(node.port, topic)
        return topic
    with raw_client.connect(node.port) as client:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[raw_client.DELETED_SOON],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False)
        client.sendall(raw_client.frame(request, raw_client.CREATE_TOPICS))
        raw_client.answer(client, CreateTopicsResponse, raw_client.CREATE_TOPICS)
        raw_client.await_produce(client, topic)
    return topic


def ask(client: socket.socket, request: object, response: type[Any], version: int) -> Any:
    """Send one request; return its answer."""
    return ask_frame(client, raw_client.frame(request, version), response, version)


def ask_frame(client: socket.socket, frame: bytes, response: type[Any], version: int) -> Any:
    """Send an encoded request; return its answer."""
    client.sendall(frame)
    return raw_client.answer(client, response, version)


@dataclass
class TransactionalClient:
    """One transactional id over one connection."""

    node: Node
    transactional_id: str = field(default_factory=lambda: f"bench-{next(_numbers)}")
    timeout_ms: int = TIMEOUT_MS
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection = raw_client.connect(self.node.port)
        await_coordinator(self.connection, self.transactional_id)
        self.identify()

    def ask_leader(self, request: object, response: type[Any], version: int) -> Any:
        """Send a request to the leader of the partitions; return its answer."""
        return ask(self.connection, request, response, version)

    def ask_coordinator(self, request: object, response: type[Any], version: int) -> Any:
        """Send a request to the coordinator of the id; return its answer."""
        return ask(self.connection, request, response, version)

    def identify(self) -> None:
        """Get a producer id and an epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        found = until_done(
            lambda: self.ask_coordinator(request, InitProducerIdResponse, INIT), error_of, 0.01
        )
        expect_none(found.error_code, "InitProducerId")
        self._take(found.producer_id, found.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()

    def produce(self, topic: str, batches: Sequence[tuple[int, int]], size: int = 100) -> None:
        """Send so many records of `size` bytes to each of these partitions, and await the ack."""
        request = self.produce_request(topic, batches, size)
        until_appended(lambda: self.ask_leader(request, ProduceResponse, PRODUCE))

    def produce_request(
        self, topic: str, batches: Sequence[tuple[int, int]], size: int = 100
    ) -> ProduceRequest:
        """The request for so many records of each partition, with the next sequence numbers."""
        now_ms = int(time.time() * 1000)
        data = []
        for partition, records in batches:
            sequence = self.sequences.get((topic, partition), 0)
            self.sequences[topic, partition] = sequence + records
            batch = build(
                [(None, b"x" * size, (), now_ms)] * records,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            data.append(PartitionProduceData(index=partition, records=batch))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )

    def commit_offsets(self, topic: str, partitions: int, group: str) -> None:
        """Add offsets of a group to the transaction."""
        offsets = [
            TxnOffsetCommitRequestPartition(
                partition_index=each, committed_offset=1, committed_metadata=""
            )
            for each in range(partitions)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=offsets)],
        )

        def errors(answer: TxnOffsetCommitResponse) -> set[int]:
            return {each.error_code for each in answer.topics[0].partitions}

        answer = until_done(
            lambda: self.ask_coordinator(request, TxnOffsetCommitResponse, OFFSETS), errors, 0.005
        )
        for error in errors(answer):
            expect_none(error, "TxnOffsetCommit")

    def end(self, *, committed: bool = True) -> None:
        """Commit or abort, and take the next epoch."""
        request = self.end_request(committed)
        self._until_ended(lambda: self.ask_coordinator(request, EndTxnResponse, END))

    def end_request(self, committed: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def _until_ended(self, once: Callable[[], EndTxnResponse]) -> None:
        answer = until_done(once, error_of, RETRY_S)
        expect_none(answer.error_code, "EndTxn")
        self._take(answer.producer_id, answer.producer_epoch)

    def timed_commit(self, topic: str) -> float:
        """Send one record to partition 0, and commit it. Both requests are encoded before; return
        when the first one was sent (`time.perf_counter`).
        """
        produce = raw_client.frame(self.produce_request(topic, [(0, 1)]), PRODUCE)
        end = raw_client.frame(self.end_request(), END)
        began = time.perf_counter()
        until_appended(partial(ask_frame, self.connection, produce, ProduceResponse, PRODUCE))
        self._until_ended(partial(ask_frame, self.connection, end, EndTxnResponse, END))
        return began

    def close(self) -> None:
        self.connection.close()


def until_done(
    once: Callable[[], T], errors: Callable[[T], set[int]], pause_s: float, patience_s: float = 60
) -> T:
    """Ask again while an answer has errors that pass; return the last answer."""
    end = time.monotonic() + patience_s
    while True:
        answer = once()
        if time.monotonic() > end or not errors(answer).intersection(RETRIED):
            return answer
        time.sleep(pause_s)


def append_errors(answer: ProduceResponse) -> set[int]:
    return {each.error_code for each in answer.responses[0].partition_responses}


def until_appended(once: Callable[[], ProduceResponse]) -> None:
    """Ask until the batches are appended."""
    answer = until_done(once, append_errors, RETRY_S)
    for error in append_errors(answer) - {ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
        expect_none(error, "Produce")


def error_of(answer: InitProducerIdResponse | EndTxnResponse) -> set[int]:
    return {answer.error_code}


def await_coordinator(client: socket.socket, key: str, key_type: int = TRANSACTION_KEY) -> None:
    """Wait until a transactional id, or a group, has a coordinator."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = ask(client, request, FindCoordinatorResponse, FIND)
        if found.coordinators[0].error_code == ErrorCode.NONE:
            return
        time.sleep(0.01)
    raise RuntimeError(f"{key} has no coordinator")


def expect_none(error: int, what: str) -> None:
    if error != ErrorCode.NONE:
        raise RuntimeError(f"{what} answered {ErrorCode(error).name}")


def percentile(samples: Sequence[float], percent: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def commits(node: Node, count: int) -> Figures:
    """One record and its commit, one after the other."""
    topic, client = new_topic(node), TransactionalClient(node)
    for _ in range(max(10, count // 10)):
        client.timed_commit(topic)
    took, cpu = [], cpu_s(node.pid)
    for _ in range(count):
        began = client.timed_commit(topic)
        took.append(time.perf_counter() - began)
    cpu = cpu_s(node.pid) - cpu
    client.close()
    return {
        "cpu_us": cpu / count * 1e6,
        "p50_us": percentile(took, 50) * 1e6,
        "p99_us": percentile(took, 99) * 1e6,
    }


def fetch_frame(topic: str, offset: int, isolation: int, max_wait_ms: int, size: int) -> bytes:
    """A fetch of partition 0, without a session."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=size,
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return raw_client.frame(request, FETCH)


def end_offset(client: socket.socket, topic: str, isolation: int) -> int:
    """Return the high watermark, or the last stable offset, of partition 0."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    found = ask(client, request, ListOffsetsResponse, LIST).topics[0].partitions[0]
    expect_none(found.error_code, "ListOffsets")
    return int(found.offset)


def reads(node: Node, count: int) -> Figures:
    """From the first send of a transaction of one record until a reader of committed records, whose
    fetch waits, has it.
    """
    topic, client = new_topic(node), TransactionalClient(node)
    took = []
    with raw_client.connect(node.port) as reader:
        offset = end_offset(reader, topic, READ_COMMITTED)
        for number in range(count):
            reader.sendall(fetch_frame(topic, offset, READ_COMMITTED, 10_000, 1 << 20))
            time.sleep(0.002)
            began = client.timed_commit(topic)
            raw_client.receive(reader)
            if number >= count // 10:
                took.append(time.perf_counter() - began)
            offset = end_offset(reader, topic, READ_COMMITTED)
    client.close()
    return {"p50_us": percentile(took, 50) * 1e6, "p99_us": percentile(took, 99) * 1e6}


def pipelines(node: Node, count: int) -> Figures:
    """100 records to 6 partitions, and the offsets of a group, in each transaction."""
    topic, client = new_topic(node, 6), TransactionalClient(node)
    await_coordinator(client.connection, GROUP, GROUP_KEY)
    batches = [(partition, 17 if partition < 4 else 16) for partition in range(6)]

    def transaction() -> None:
        client.produce(topic, batches)
        client.commit_offsets(topic, 6, GROUP)
        client.end()

    for _ in range(max(10, count // 10)):
        transaction()
    cpu, began = cpu_s(node.pid), time.perf_counter()
    for _ in range(count):
        transaction()
    cpu, elapsed = cpu_s(node.pid) - cpu, time.perf_counter() - began
    client.close()
    return {"cpu_us": cpu / count * 1e6, "per_s": count / elapsed}


def abort_many(node: Node, topic: str, count: int) -> None:
    """Write so many aborted transactions of one record, by some ids beside each other."""
    ids = min(PIPELINE, count)
    clients = [TransactionalClient(node) for _ in range(ids)]
    for _ in range(count // ids):
        for client in clients:
            client.produce(topic, [(0, 1)], 10)
        for client in clients:
            client.end(committed=False)
    for client in clients:
        client.close()


class AbortedTopic:
    """A topic with so many aborted transactions of one record, and a committed one at its end."""

    def __init__(self, node: Node, aborted: int) -> None:
        self.node = node
        topic = new_topic(node)
        abort_many(node, topic, aborted)
        client = TransactionalClient(node)
        client.produce(topic, [(0, 1)])
        client.end()
        client.close()
        with raw_client.connect(node.port) as reader:
            end = await_stable(reader, topic)
        self.request = fetch_frame(topic, end - 2, READ_COMMITTED, 0, 1 << 20)

    def fetch_cost(self, fetches: int) -> Figures:
        """Fetch the committed record again and again."""
        took = []
        with raw_client.connect(self.node.port) as reader:
            cpu = cpu_s(self.node.pid)
            for _ in range(fetches):
                began = time.perf_counter()
                reader.sendall(self.request)
                raw_client.receive(reader)
                took.append(time.perf_counter() - began)
            cpu = cpu_s(self.node.pid) - cpu
        return {"cpu_us": cpu / fetches * 1e6, "p50_us": percentile(took, 50) * 1e6}


def await_stable(client: socket.socket, topic: str) -> int:
    """Wait until no transaction is open; return the end."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        end = end_offset(client, topic, READ_UNCOMMITTED)
        if end_offset(client, topic, READ_COMMITTED) == end:
            return end
        time.sleep(0.001)
    raise RuntimeError(f"a transaction of {topic} stays open")


def timeouts(node: Node, count: int) -> Figures:
    """From the timeout of a transaction until its abort is seen by readers."""
    timeout_ms, late = 1_000, []
    topic = new_topic(node)
    with raw_client.connect(node.port) as reader:
        for _ in range(count):
            client = TransactionalClient(node, timeout_ms=timeout_ms)
            began = time.monotonic()
            client.produce(topic, [(0, 1)])
            await_stable(reader, topic)
            late.append(time.monotonic() - began - timeout_ms / 1000)
            client.close()
    return {"late_ms": statistics.median(late) * 1000}


def many_ids(node: Node, count: int) -> Figures:
    """Register so many transactional ids; the memory that each takes."""
    prefix = f"many-{next(_numbers)}"
    before = pss_mib(node.pid)
    with raw_client.connect(node.port) as client:
        await_coordinator(client, prefix)
        waiting = deque(f"{prefix}-{number}" for number in range(count))
        in_flight: deque[str] = deque()
        began = time.perf_counter()
        while waiting or in_flight:
            while waiting and len(in_flight) < 32:
                in_flight.append(waiting.popleft())
                request = InitProducerIdRequest(
                    transactional_id=in_flight[-1], transaction_timeout_ms=TIMEOUT_MS
                )
                client.sendall(raw_client.frame(request, INIT))
            found = raw_client.answer(client, InitProducerIdResponse, INIT)
            answered = in_flight.popleft()
            if found.error_code in RETRIED:
                waiting.append(answered)
            else:
                expect_none(found.error_code, "InitProducerId")
        elapsed = time.perf_counter() - began
    return {
        "kib_each": (pss_mib(node.pid) - before) * 1024 / count,
        "ids_per_s": count / elapsed,
    }


def loading(node: Node, count: int) -> Figures:
    """Kill a broker that has so many ids, and start it: until every coordinator serves, less the
    time until it answers at all.
    """
    many_ids(node, count)
    node.kill()
    node.spawn()
    node.await_ready()
    ids = [f"probe-{number}" for number in range(200)]
    began = time.perf_counter()
    with raw_client.connect(node.port) as client:
        for transactional_id in ids:
            await_coordinator(client, transactional_id)
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
            )
            found = until_done(
                partial(ask, client, request, InitProducerIdResponse, INIT), error_of, 0.001
            )
            expect_none(found.error_code, "InitProducerId")
    return {"ms": (time.perf_counter() - began) * 1000}
