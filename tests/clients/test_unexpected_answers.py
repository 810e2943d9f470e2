"""Unexpected answers of real Kafka. The interop tests compare all; these need no Java."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.differential.batches import changed, good
from interop.differential.peer import Peer
from interop.differential.scripts.fetch import in_session
from interop.differential.scripts.offsets import deleting, listing
from interop.differential.scripts.produce import producing
from interop.differential.scripts.reading import fetching
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.testing.broker import Broker

TRANSACTIONAL = 0x10


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Broker() as broker:
        asking = Peer("odradek", broker.port, {})
        yield asking
        asking.close()


def produced(peer: Peer, request: Any, version: int = 13) -> list[tuple[ErrorCode, int]]:
    """Return (error, base offset) of each response."""
    response = peer.ask(request, version)
    return [
        (ErrorCode(partition.error_code), partition.base_offset)
        for topic in response.responses
        for partition in topic.partition_responses
    ]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_codec_accepts_every_codec(
    peer: Peer, wanted: str, codec: int
) -> None:
    topic_id = peer.new_topic("t", compression_type=wanted)
    request = producing("t", topic_id, [(0, good(codec=codec))], acks=-1)
    assert produced(peer, request) == [(ErrorCode.NONE, 0)]


def test_of_a_partition_listed_twice_the_last_entry_is_used(peer: Peer) -> None:
    topic_id = peer.new_topic("t")
    request = producing("t", topic_id, [(0, good(5)), (0, good(2))], acks=-1)
    assert produced(peer, request) == [(ErrorCode.NONE, 0)]
    assert peer.ask(listing("t", (0, -1)), 9).topics[0].partitions[0].offset == 2
    trimmed = peer.ask(deleting("t", (0, 2), (0, 1)), 2)
    assert [p.low_watermark for p in trimmed.topics[0].partitions] == [1]
    listed = peer.ask(listing("t", (0, -1), (0, -2)), 9).topics[0].partitions
    assert [p.error_code for p in listed] == [ErrorCode.INVALID_REQUEST]


def test_transactional_records_need_a_transactional_id(peer: Peer) -> None:
    topic_id = peer.new_topic("t")
    batch = changed(good(), 21, "h", TRANSACTIONAL)
    refused = produced(peer, producing("t", topic_id, [(0, batch)], acks=-1))
    assert refused == [(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]
    alone = producing("t", topic_id, [(0, good())], acks=-1, transactional_id="id")
    assert produced(peer, alone) == [(ErrorCode.NONE, 0)]


@pytest.mark.parametrize(("epoch", "answer"), [(0, (0, 0)), (1, (-1, -1)), (-2, (-1, -1))])
def test_an_empty_log_knows_only_epoch_0(peer: Peer, epoch: int, answer: tuple[int, int]) -> None:
    peer.new_topic("t")
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    found = peer.ask(request, 4).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == answer


def test_a_fetch_from_an_unknown_epoch_is_out_of_range(peer: Peer) -> None:
    topic_id = peer.new_topic("t")
    request = fetching("t", topic_id, [(0, 0)])
    request.topics[0].partitions[0].last_fetched_epoch = 3
    answer = peer.ask(request, 17).responses[0].partitions[0]
    assert (answer.error_code, answer.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_a_fetch_session_of_a_deleted_topic_answers_errors(peer: Peer) -> None:
    old_id = peer.new_topic("t")
    session = peer.ask(in_session(0, 0, "t", old_id, [(0, 0)]), 17).session_id

    def error(epoch: int) -> int:
        answer = peer.ask(in_session(session, epoch, "t", old_id, []), 17)
        return int(answer.responses[0].partitions[0].error_code)

    peer.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 5)
    assert error(1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    peer.new_topic("t")
    assert error(2) == ErrorCode.INCONSISTENT_TOPIC_ID


def test_an_unknown_topic_named_twice_is_an_invalid_request(peer: Peer) -> None:
    answer = peer.ask(DeleteTopicsRequest(topic_names=["no", "no"], timeout_ms=5000), 5)
    assert [row.error_code for row in answer.responses] == [ErrorCode.INVALID_REQUEST]


def test_metadata_by_id_is_refused_before_version_12(
    peer: Peer,
) -> None:
    topic_id = peer.new_topic("a")
    peer.new_topic("b")
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=topic_id, name=None),
            MetadataRequestTopic(topic_id=ZERO_UUID, name="b"),
        ]
    )
    early = peer.ask(request, 10)
    assert (early.brokers, early.cluster_id, early.controller_id) == ([], None, -1)
    assert {topic.error_code for topic in early.topics} == {ErrorCode.INVALID_REQUEST}
    assert [topic.name for topic in peer.ask(request, 12).topics] == ["a"]


@pytest.mark.parametrize("cursor", [("c", 0), ("a", -1)])
def test_a_cursor_outside_the_requested_topics_is_refused(
    peer: Peer, cursor: tuple[str, int]
) -> None:
    peer.new_topic("a", 3)
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="a")],
        cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    assert [t.error_code for t in peer.ask(request, 0).topics] == [ErrorCode.INVALID_REQUEST]


def test_a_page_has_at_least_one_partition(peer: Peer) -> None:
    peer.new_topic("a", 3)
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="a")], response_partition_limit=0
    )
    answer = peer.ask(request, 0)
    assert [len(topic.partitions) for topic in answer.topics] == [1]
    assert answer.next_cursor == Cursor(topic_name="a", partition_index=1)
