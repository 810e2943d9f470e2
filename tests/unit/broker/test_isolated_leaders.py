"""A leader that is cut off from the other nodes, but not from clients, sends these elsewhere."""

from __future__ import annotations

from odradek.client.engine import Engine
from odradek.client.producer.futures import CoroutineWait
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.producer.settings import AccumulatorSettings, ProducerSettings, SenderSettings
from odradek.config.client import ClientConfig
from odradek.model.errors import ErrorCode
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.hot_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from odradek.testing.client_process import ClientProcess
from odradek.testing.machine import host_of
from odradek.testing.scripted import raise_bug
from unit.broker.replicated_nodes import PORT, SECOND, ReplicatedNodes
from unit.broker.test_moving_coordinators import NodesWithGroup

SESSION = 9 * SECOND
LOOK = 4 * SECOND
"""How long it takes at most until the end of the session is noticed: it may have been the
controller itself, until its quorum was too quiet."""


def isolated(nodes: ReplicatedNodes) -> tuple[int, list[int]]:
    """Cut the leader off from the others, both ways; return it and them."""
    leader = nodes.leader
    others = [number for number in (1, 2, 3) if number != leader]
    nodes.cut(leader, *others)
    for other in others:
        nodes.cut(other, leader)
    return leader, others


def fetch(
    nodes: ReplicatedNodes, number: int, offset: int, max_wait_ms: int = 500
) -> ClientRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=nodes.topic, topic_id=nodes.topic_id(), partitions=[asked])],
    )
    return nodes.client.send(number, request)


def fetched(nodes: ReplicatedNodes, number: int, offset: int) -> PartitionData:
    call = fetch(nodes, number, offset)
    nodes.until(lambda: call.done)
    assert call.error is None, call.error
    (topic,) = call.response.responses
    (data,) = topic.partitions
    assert isinstance(data, PartitionData)
    return data


def connections(nodes: ReplicatedNodes, number: int) -> int:
    """How many clients are connected to a node."""
    return len(nodes.node(number).sockets.connections)


class OwnProducer:
    """This project's producer, which has the address of one node."""

    def __init__(self, nodes: ReplicatedNodes, number: int) -> None:
        self._nodes = nodes
        self._process = ClientProcess(nodes.scheduler, nodes.fabric, "producer")
        config = ClientConfig.load({"bootstrap_servers": f"{host_of(number)}:{PORT}"})
        self.engine = Engine(
            self._process.env, self._process.timer, config, max_in_flight=5, on_bug=raise_bug
        )
        settings = ProducerSettings(
            AccumulatorSettings(
                batch_bytes=16_384,
                linger_ms=0,
                delivery_timeout_ms=120_000,
                codec=0,
                level=None,
                adaptive=True,
                availability_timeout_ms=0,
            ),
            SenderSettings(
                acks=-1,
                max_in_flight=5,
                max_request_bytes=1 << 20,
                request_timeout_ms=30_000,
                retries=2**31 - 1,
            ),
            buffer_bytes=1 << 20,
            max_block_ms=60_000,
            idempotence=True,
            ignore_keys=False,
            partitioner=None,
        )
        self._process.do(self.engine.start)
        self.core = ProducerCore(self.engine, settings, CoroutineWait())
        self._process.do(lambda: self.core.start(self.core.sender.run_soon))
        ready = self._process.do(lambda: self.engine.metadata.newer_than(0))
        nodes.until(lambda: ready.done)
        self.errors: list[object] = []

    def send(self, value: bytes) -> None:
        """Send a record; `errors` gets its error, None if it was acknowledged."""
        record = SerializedRecord(
            self._nodes.topic,
            0,
            1_000,
            None,
            value,
            b"\0",
            lambda error, _: self.errors.append(error),
        )
        self._process.do(lambda: self.core.send_later(record))

    def deliver(self, value: bytes) -> int:
        """Send a record, wait until it is acknowledged; return the milliseconds that it took."""
        before = len(self.errors)
        self.send(value)
        took_ms = self._nodes.until(lambda: len(self.errors) > before, 120_000)
        assert self.errors[before] is None, self.errors[before]
        return took_ms


def test_a_waiting_produce_is_told_to_look_elsewhere_when_the_session_is_over() -> None:
    nodes = ReplicatedNodes().create_topic()
    leader, others = isolated(nodes)
    produced = nodes.produce(leader)
    took_ms = nodes.until(lambda: produced.is_answered)
    assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced.addresses == {}  # It does not name itself.
    assert SESSION - 3 * SECOND <= took_ms <= SESSION + LOOK
    nodes.until(lambda: not connections(nodes, leader))
    assert nodes.await_leader(leader) in others


def test_a_produce_is_refused_before_the_append_unless_nobody_else_has_to_agree() -> None:
    nodes = ReplicatedNodes().create_topic()
    leader, _ = isolated(nodes)
    nodes.pass_time(SESSION + LOOK)
    assert nodes.produced(leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert nodes.replica(leader).log.log_end_offset == 0
    assert nodes.produced(leader, acks=1) == ErrorCode.NONE  # Which promises no more.


def test_a_topic_without_other_replicas_goes_on() -> None:
    nodes = ReplicatedNodes(min_insync_replicas="1").create_topic(1)
    leader, _ = isolated(nodes)
    nodes.pass_time(SESSION + LOOK)
    assert nodes.produced(leader) == ErrorCode.NONE


def test_committed_records_are_still_read_and_who_waits_for_more_is_sent_elsewhere() -> None:
    nodes = ReplicatedNodes().create_topic()
    leader = nodes.leader
    assert nodes.produced(leader, 3) == ErrorCode.NONE
    isolated(nodes)
    nodes.pass_time(SESSION + LOOK)
    first = fetched(nodes, leader, 0)
    assert first.error_code == ErrorCode.NONE
    assert first.records
    assert connections(nodes, leader) == 1
    assert fetched(nodes, leader, 3).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    nodes.until(lambda: not connections(nodes, leader))


def test_a_fetch_that_waits_is_not_cut_short() -> None:
    nodes = ReplicatedNodes().create_topic()
    leader, _ = isolated(nodes)
    nodes.pass_time(SESSION - 3 * SECOND)
    call = fetch(nodes, leader, 0, max_wait_ms=10_000)
    took_ms = nodes.until(lambda: call.done)
    assert took_ms >= 9_900
    assert call.response.responses[0].partitions[0].error_code == (ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_mended_network_lets_the_old_leader_follow_the_new_one() -> None:
    nodes = ReplicatedNodes().create_topic()
    leader = nodes.leader
    assert nodes.produced(leader, 3) == ErrorCode.NONE
    others = [number for number in (1, 2, 3) if number != leader]
    mends = [nodes.cut(leader, *others), *(nodes.cut(other, leader) for other in others)]
    waiting = nodes.produce(leader)
    assert waiting.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    successor = nodes.await_leader(leader)
    assert nodes.produced(successor, 2) == ErrorCode.NONE
    for mend in mends:
        mend()
    nodes.until(lambda: nodes.isr == [1, 2, 3], 60_000)
    assert nodes.ends() == [5, 5, 5]
    assert nodes.logs_are_equal()
    assert not nodes.replica(leader).is_cut_off


def test_an_isolated_coordinator_sends_its_groups_elsewhere() -> None:
    nodes = NodesWithGroup()
    assert nodes.commit(nodes.coordinator, 7) == ErrorCode.NONE
    isolated(nodes)
    nodes.pass_time(SESSION + LOOK)
    assert nodes.committed(nodes.coordinator) == ErrorCode.NOT_COORDINATOR
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    (found,) = nodes.client.ask(nodes.coordinator, request).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    nodes.until(lambda: not connections(nodes, nodes.coordinator))


def test_a_producer_that_knows_only_the_isolated_leader_finds_the_new_one() -> None:
    nodes = ReplicatedNodes().create_topic()
    leader = nodes.leader
    producer = OwnProducer(nodes, leader)
    producer.deliver(b"before")
    isolated(nodes)
    assert producer.deliver(b"meanwhile") <= SESSION + LOOK + 2 * SECOND  # Still cut off.
    assert producer.deliver(b"after") < SECOND
    assert nodes.await_leader(leader)
    assert nodes.replica(nodes.leader).log.log_end_offset == 3
