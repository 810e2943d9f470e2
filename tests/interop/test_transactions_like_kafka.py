"""Produce, TxnOffsetCommit and EndTxn of transactions are answered as by a real Apache Kafka."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from clients.wire import RawConnection
from interop.apache_kafka import ApacheKafka
from odradek import Admin
from odradek.coordinator.answered_connection import ANSWER_READ_MS
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
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
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

Producer = tuple[int, int]
NOBODY = (-1, -1)
names = itertools.count()


def batch(producer: Producer, sequence: int, transactional: bool = True) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
    )
    builder.append(None, b"v", timestamp=0)
    return builder.build()


class Client:
    """Raw requests about one topic, which is the transactional id and the group, too."""

    def __init__(self, wire: RawConnection, topic: str) -> None:
        self.wire = wire
        self.name = topic
        for key_type in (0, 1):
            asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[topic])
            self.ask_until_final(
                lambda asked=asked: wire.ask(asked, 4, FindCoordinatorResponse).coordinators[0]
            )

    def ask_until_final(self, ask: Any) -> Any:
        """The first answer that is no retriable error: Kafka's topics may still be made."""
        while ErrorCode((answer := ask()).error_code).retriable:
            """Ask again."""
        return answer

    def init(self) -> Producer:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        found = self.ask_until_final(lambda: self.wire.ask(request, 4, InitProducerIdResponse))
        return found.producer_id, found.producer_epoch

    def produce(
        self, version: int, batches: dict[int, bytes], transactional_id: str | None = ""
    ) -> Sequence[object]:
        """(partition, error, appended, log start, message) of each batch."""
        data = [PartitionProduceData(index=at, records=each) for at, each in batches.items()]
        request = ProduceRequest(
            transactional_id=self.name if transactional_id == "" else transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self.name, partition_data=data)],
        )
        answer = self.wire.ask(request, version, ProduceResponse)
        return sorted(
            (
                each.index,
                ErrorCode(each.error_code).name,
                each.base_offset >= 0,
                each.log_start_offset,
                each.error_message,
            )
            for topic in answer.responses
            for each in topic.partition_responses
        )

    def produce_when_ended(self, batches: dict[int, bytes]) -> Sequence[object]:
        """Produce, again and again while the transaction before is being ended."""
        while "CONCURRENT_TRANSACTIONS" in repr(found := self.produce(12, batches)):
            """Kafka may need longer than it waits itself."""
        return found

    def commit_offsets(self, version: int, producer: Producer, **given: Any) -> Sequence[object]:
        """(is the topic of the test, errors by partition); partition 9 does not exist."""
        topic, offset = given.pop("topic", self.name), given.pop("offset", 1)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=given.pop("group", self.name),
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=at, committed_offset=offset, committed_metadata=""
                        )
                        for at in (0, 9)
                    ],
                )
            ],
            **given,
        )
        answer = self.wire.ask(request, version, TxnOffsetCommitResponse)
        return [
            (
                each.name == self.name,
                [(p.partition_index, ErrorCode(p.error_code).name) for p in each.partitions],
            )
            for each in answer.topics
        ]

    def add_offsets(self, producer: Producer) -> None:
        """Add the group's offsets to the transaction, as clients before version 2 do."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=self.name,
        )
        answer = self.ask_until_final(lambda: self.wire.ask(request, 3, AddOffsetsToTxnResponse))
        assert answer.error_code == ErrorCode.NONE

    def stable_offset(self) -> int:
        """The committed offset of partition 0, when none is pending."""
        topics = [OffsetFetchRequestTopics(name=self.name, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=self.name, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=True)

        def ask() -> Any:
            (found,) = self.wire.ask(request, 8, OffsetFetchResponse).groups
            return found.topics[0].partitions[0]

        return self.ask_until_final(ask).committed_offset

    def end(self, version: int, producer: Producer, committed: bool) -> object:
        """The error, and by how much the epoch was bumped."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        found = self.ask_until_final(lambda: self.wire.ask(request, version, EndTxnResponse))
        bumped = found.producer_epoch - producer[1] if found.producer_id >= 0 else None
        return ErrorCode(found.error_code).name, bumped


def answers(bootstrap: str) -> dict[str, object]:
    """The answers of a broker to the steps of the script."""
    topic = f"like-kafka-{next(names)}"
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic(topic, partitions=3)
        # Until each partition has a leader that knows it is one.
        admin.end_offsets([TopicPartition(topic, number) for number in range(3)])
    with RawConnection(bootstrap) as wire:
        client = Client(wire, topic)
        producer = client.init()
        producer_id, epoch = producer
        stranger, ahead = (producer_id + 77_777, 0), (producer_id, epoch + 1)
        produce, offsets = client.produce, client.commit_offsets
        plain = batch(NOBODY, -1, transactional=False)
        first, again = batch(producer, 0), batch(producer, 1, transactional=False)
        found: dict[str, object] = {
            "not added, 9": produce(9, {0: first}),
            "not added, 10": produce(10, {0: first}),
            "not added, 11": produce(11, {0: first}),
            "offsets not added, 0": offsets(0, producer),
            "offsets not added, 3": offsets(3, producer),
            "offsets not added, 4": offsets(4, producer),
            "unknown producer": produce(12, {0: batch(stranger, 0)}),
            "offsets of an unknown producer": offsets(5, stranger),
            "unknown transactional id": produce(12, {0: first}, "nobody"),
            "no transactional id": produce(12, {0: first, 1: plain}, None),
            "two producers": produce(12, {0: first, 1: batch((producer_id + 1, epoch), 0)}),
            "two epochs": produce(12, {0: first, 1: batch(ahead, 0)}),
            "no producer id, 11": produce(11, {0: batch(NOBODY, -1)}),
            "no producer id, 12": produce(12, {0: batch(NOBODY, -1)}),
            "negative producer id, 11": produce(11, {0: batch((-5, 0), 0)}),
            "negative producer id, 12": produce(12, {0: batch((-5, 0), 0)}),
            "negative epoch, 11": produce(11, {0: batch((producer_id, -2), 0)}),
            "negative epoch, 12": produce(12, {0: batch((producer_id, -2), 0)}),
            "epoch ahead": produce(12, {0: batch(ahead, 0)}),
            "plain beside transactional": produce(12, {0: first, 1: plain}),
            "plain while open": produce(12, {0: again}, None),
            "plain while open, with id": produce(12, {0: again}),
            "offsets": offsets(5, producer),
            "offsets of no group": offsets(5, producer, group=""),
            "offsets of a missing topic": offsets(5, producer, topic=f"no-{topic}"),
            "offsets of a wrong member": offsets(5, producer, generation_id=3, member_id="x"),
            "offsets of a member without a generation": offsets(5, producer, member_id="x"),
            "missing partition": produce(12, {7: first}),
            "out of order": produce(12, {0: batch(producer, 5)}),
            "first batch out of order": produce(12, {2: batch(producer, 5)}),
            "commit": client.end(5, producer, True),
        }
        found["next"] = client.produce_when_ended({0: batch(ahead, 0)})
        found |= {
            "old epoch": produce(12, {0: batch(producer, 1)}),
            "old epoch in another partition": produce(12, {2: first}),
            "old epoch of an older client": produce(10, {0: batch(producer, 1)}),
            "offsets of an old epoch": offsets(5, producer),
            "abort": client.end(5, ahead, False),
            "abort of nothing": client.end(5, (producer_id, epoch + 2), False),
            "commit of nothing": client.end(5, (producer_id, epoch + 3), True),
        }
        return found


NO_PRODUCER: dict[str, object] = {
    f"{what} producer id, {version}": [(0, "INVALID_PRODUCER_ID_MAPPING", False, -1, None)]
    for what in ("no", "negative")
    for version in (11, 12)
}
"""Kafka appends transactional batches that are of no producer, though nothing ends them."""


def test_every_step_is_answered_alike(kafka: ApacheKafka, ours: Broker) -> None:
    expected = answers(kafka.bootstrap)
    assert {name: expected[name] for name in NO_PRODUCER} != NO_PRODUCER
    assert answers(ours.bootstrap) == expected | NO_PRODUCER


@contextmanager
def two_connections(bootstrap: str, topic: str) -> Iterator[tuple[Client, Client]]:
    """Create a topic; yield a client of it over a connection, and one over a newer connection."""
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
        admin.end_offsets([TopicPartition(topic, 0)])
    with RawConnection(bootstrap) as old, RawConnection(bootstrap) as new:
        yield Client(old, topic), Client(new, topic)


def late_offsets(bootstrap: str) -> tuple[str, int]:
    """The answer to offsets of an aborted transaction that arrive in the next one, over the
    connection that the producer has given up; and the offset after the commit.
    """
    topic = f"late-offsets-{next(names)}"
    with two_connections(bootstrap, topic) as (first, client):
        producer = client.init()
        client.add_offsets(producer)
        client.commit_offsets(3, producer, offset=5)
        assert client.end(3, producer, False) == ("NONE", None)
        client.add_offsets(producer)
        client.commit_offsets(3, producer, offset=7)
        found: Any = first.commit_offsets(3, producer, offset=5)
        assert client.end(3, producer, True) == ("NONE", None)
        return dict(found[0][1])[0], client.stable_offset()


def test_kafka_commits_late_offsets_of_version_1_and_odradek_does_not(
    kafka: ApacheKafka, ours: Broker
) -> None:
    assert late_offsets(kafka.bootstrap) == ("NONE", 5)
    assert late_offsets(ours.bootstrap) == ("COORDINATOR_LOAD_IN_PROGRESS", 7)


@pytest.mark.parametrize("broker", ["kafka", "ours"])
def test_a_client_with_several_connections_commits_over_an_older_one(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """As kafka-go does, which takes any connection of its pool. It is told to try again here."""
    bootstrap = request.getfixturevalue(broker).bootstrap
    topic = f"several-connections-{next(names)}"
    with two_connections(bootstrap, topic) as (older, newer):
        producer = newer.init()
        newer.add_offsets(producer)
        newer.commit_offsets(3, producer, offset=5)
        assert newer.end(3, producer, True) == ("NONE", None)
        newer.add_offsets(producer)
        tries: list[Any] = []
        for _ in range(2):
            tries.append(older.commit_offsets(3, producer, offset=7))
            time.sleep(2 * ANSWER_READ_MS / 1000)  # As clients do before they try again.
        assert [dict(each[0][1])[0] for each in tries] == (
            ["NONE" if broker == "kafka" else "COORDINATOR_LOAD_IN_PROGRESS", "NONE"]
        )
        assert older.end(3, producer, True) == ("NONE", None)
        assert newer.stable_offset() == 7
