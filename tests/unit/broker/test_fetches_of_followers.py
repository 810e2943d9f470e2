"""Fetch requests of followers on the wire: what they read, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from odradek.broker.dispatch import Dispatcher
from odradek.broker.metrics.reading import samples_of
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import BY_NAME
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.histogram import Histogram
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.api.produce import ProduceResponse
from odradek.protocol.record_batch import batches
from odradek.replication.alter_partition_manager import AlterPartitionManager
from odradek.replication.follower_fetch import FollowerFetches
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import Replication
from unit.broker.memory_broker import MemoryBroker, SentRequest
from unit.replication.replicated import unthrottled

FOLLOWER, EPOCH = 2, 1000
VERSION = 17


class NotFollowing:
    """The fetchers of a broker that leads everything."""

    def follow(self, partition: Partition, in_sync: bool) -> None:
        raise AssertionError("this broker leads")

    def forget(self, partition: Partition) -> None:
        """Nothing is fetched."""

    def flushed(self, partition: Partition) -> None:
        """Nobody is told."""


class Leading:
    """A broker that leads `t` with one follower, broker 2, which is in sync."""

    def __init__(self) -> None:
        self.serving = MemoryBroker()
        self.serving.create("t")
        node = self.serving.node
        broker = self.broker = node.broker
        broker.follower_fetches = FollowerFetches(node.replicas)
        self.listener = Dispatcher(broker, between_nodes=True)
        manager = AlterPartitionManager(
            1, lambda: 7, lambda *_: None, self.serving.timer.call_later
        )
        node.replicas.replication = Replication(
            manager,
            NotFollowing(),
            lambda *_: True,
            lambda _: True,
            30_000,
            unthrottled(1),
            lambda: False,
            4_500,
        )
        registered = broker.image.brokers[node.config.node_id]
        broker.image.brokers[FOLLOWER] = replace(registered, id=FOLLOWER, epoch=EPOCH)
        self.topic_id = broker.image.topics["t"].id
        registration = broker.image.topics["t"].partitions[0]
        leader = registration.leader
        self.partition = node.replicas.by_name["t", 0]
        node.replicas.apply(
            self.partition,
            replace(
                registration,
                replicas=(leader, FOLLOWER),
                isr=(leader, FOLLOWER),
                partition_epoch=registration.partition_epoch + 1,
            ),
            1,
        )
        self.session = 0, 0

    def fetch(self, offset: int, durable: int, *, epoch: int = EPOCH) -> SentRequest:
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            log_start_offset=0,
            durable_end=durable,
        )
        session_id, session_epoch = self.session
        self.session = session_id, session_epoch + 1
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=epoch),
            max_wait_ms=500,
            min_bytes=1,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        asked = SentRequest(request, VERSION)
        self.listener.received(asked)
        return asked

    def answer(self, asked: SentRequest) -> FetchResponse:
        self.serving.run_until_idle()
        found = asked.answer(FetchResponse)
        self.session = found.session_id, self.session[1]
        return found


def test_a_produce_is_acknowledged_when_the_follower_has_told_that_it_is_on_its_disk():
    leading = Leading()
    leading.answer(leading.fetch(0, 0))
    parked = leading.fetch(0, 0)
    produce = leading.serving.produce("t")
    data = leading.answer(parked).responses[0].partitions[0]
    records = data.records
    assert isinstance(records, ByteRange)
    assert len(list(batches(records.data, records.start, records.end))) == 1
    appended = leading.fetch(1, 0)
    leading.serving.run_until_idle()
    assert (produce.answered, appended.answered) == (False, False)
    leading.fetch(1, 1)
    leading.serving.run_until_idle()
    answer = produce.answer(ProduceResponse).responses[0].partition_responses[0]
    assert (answer.error_code, leading.partition.high_watermark) == (ErrorCode.NONE, 1)
    assert appended.answered, "the newer fetch answers the older one"


def test_a_fetch_waits_for_its_time_at_most():
    leading = Leading()
    leading.answer(leading.fetch(0, 0))
    parked = leading.fetch(0, 0)
    leading.serving.pass_time(499)
    assert not parked.answered
    leading.serving.pass_time(1)
    assert leading.answer(parked).responses == []


def test_a_follower_whose_broker_was_registered_again_or_is_unknown_is_refused():
    leading = Leading()
    stale = leading.answer(leading.fetch(0, 0, epoch=EPOCH - 1))
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    del leading.broker.image.brokers[FOLLOWER]
    leading.session = 0, 0
    unknown = leading.answer(leading.fetch(0, 0))
    assert unknown.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_without_replication_a_follower_is_refused():
    leading = Leading()
    leading.broker.follower_fetches = None
    answer = leading.answer(leading.fetch(0, 0))
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_is_refused_on_the_listener_of_clients():
    leading = Leading()
    leading.listener = leading.serving.dispatcher
    (partition,) = leading.answer(leading.fetch(0, 0)).responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leading.partition.leadership is not None
    assert leading.partition.leadership.replicas[FOLLOWER].fetch_offset == -1


def samples(leading: Leading, name: str) -> dict[object, Any]:
    """A metric's values by its only label; of a histogram their number."""
    read = Scrape(leading.serving.node)
    found = [each for step in BY_NAME[name].read(read) for each in samples_of(step)]
    return {
        labels[0]: value.count if isinstance(value, Histogram) else value for labels, value in found
    }


def test_fetches_of_followers_are_counted_apart_from_those_of_consumers():
    leading = Leading()
    leading.answer(leading.fetch(0, 0))
    leading.fetch(0, 0)
    waiting = samples(leading, "kafka_server_delayedoperationpurgatory_numdelayedoperations")
    assert waiting["Fetch"] == 1
    own = samples(leading, "odradek_purgatory_operations")
    assert (own["Fetch"], own["FetchFollower"]) == (0, 1)
    leading.serving.pass_time(500)
    topic = FetchTopic(
        topic_id=leading.topic_id,
        partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
    )
    for _ in range(3):
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[topic])
        consumers = leading.serving.send(request, VERSION)
        leading.serving.pass_time(100)
        assert consumers.answered
    expired = samples(leading, "kafka_server_delayedfetchmetrics_expires_total")
    assert expired == {"consumer": 3, "follower": 1}
    times = samples(leading, "kafka_network_requestmetrics_totaltimems")
    by_name = {name: count for name, count in times.items() if str(name).startswith("Fetch")}
    assert by_name == {"FetchConsumer": 3, "FetchFollower": 2, "Fetch": 5}
    requests = samples(leading, "kafka_network_requestmetrics_requests_total")
    assert (requests["Fetch"], requests["FetchFollower"]) == (5, 2)
    times = samples(leading, "odradek_request_seconds")
    assert (times["Fetch"], times["FetchFollower"]) == (3, 2)


def test_errors_of_followers_fetches_are_theirs():
    leading = Leading()
    leading.answer(leading.fetch(0, 0, epoch=EPOCH - 1))
    metrics = leading.broker.request_metrics
    assert metrics.fetch_follower.errors == {ErrorCode.STALE_BROKER_EPOCH: 1}
    leading.session = 0, 0
    leading.answer(leading.fetch(9, 0))
    assert metrics.fetch_follower.errors[ErrorCode.OFFSET_OUT_OF_RANGE] == 1
    assert metrics.by_key[1].errors == {}
