"""Long requests: in parts, a slice in a turn, with the response of the whole request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.broker import dispatch
from odradek.broker.apis import ROWS
from odradek.broker.dispatch import FETCH_FRAME_BYTES
from odradek.broker.handlers.metadata import NAMES_PER_SLICE, within_creation_limit
from odradek.broker.long_requests import (
    CREATE_TOPICS_KEY,
    LONG_ANSWER,
    PART_ELEMENTS,
    REQUEST_ELEMENTS,
    creates_many,
    parts_of,
)
from odradek.controller.topics import MAX_TOPICS_PER_REQUEST
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.api.produce import ProduceResponse
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode_bytes, sliced_reader, sliced_writer
from odradek.protocol.codegen import SLICE_ELEMENTS
from odradek.protocol.hot_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.hot_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.primitives import UNDIVIDED_OBJECTS_MAX
from odradek.protocol.schema import ArrayOf, fields_of
from unit.broker.memory_broker import MemoryBroker, SentRequest

PARTITIONS = 700
MANY = range(PARTITIONS)
CONSUMERS_TOPICS = ("a", "b", "no-such-topic")


def per_topic(make: Any) -> list[Any]:
    return [make(name) for name in CONSUMERS_TOPICS]


def commits() -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=per_topic(
            lambda name: OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=n, committed_offset=n, committed_metadata=""
                    )
                    for n in MANY
                ],
            )
        ),
    )


REQUESTS: dict[str, tuple[Any, int, type[Any]]] = {
    "metadata": (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=f"topic-{n}") for n in MANY]
            + [MetadataRequestTopic(name="a")],
            allow_auto_topic_creation=False,
        ),
        9,
        MetadataResponse,
    ),
    "list-offsets": (
        ListOffsetsRequest(
            replica_id=-1,
            topics=per_topic(
                lambda name: ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=n, timestamp=-1) for n in MANY
                    ],
                )
            ),
        ),
        7,
        ListOffsetsResponse,
    ),
    "offset-fetch": (
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=per_topic(
                        lambda name: OffsetFetchRequestTopics(
                            name=name, partition_indexes=list(MANY)
                        )
                    ),
                )
                for group in ("g", "h")
            ]
        ),
        8,
        OffsetFetchResponse,
    ),
    "delete-records": (
        DeleteRecordsRequest(
            timeout_ms=1000,
            topics=per_topic(
                lambda name: DeleteRecordsTopic(
                    name=name,
                    partitions=[DeleteRecordsPartition(partition_index=n, offset=0) for n in MANY],
                )
            ),
        ),
        2,
        DeleteRecordsResponse,
    ),
    "delete-groups": (
        DeleteGroupsRequest(groups_names=[f"group-{n}" for n in MANY]),
        2,
        DeleteGroupsResponse,
    ),
    "find-coordinator": (
        FindCoordinatorRequest(coordinator_keys=[f"group-{n}" for n in MANY]),
        4,
        FindCoordinatorResponse,
    ),
    "describe-transactions": (
        DescribeTransactionsRequest(transactional_ids=[f"transaction-{n}" for n in MANY]),
        0,
        DescribeTransactionsResponse,
    ),
    "describe-configs": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name=f"topic-{n}", configuration_keys=None
                )
                for n in MANY
            ]
        ),
        4,
        DescribeConfigsResponse,
    ),
    "produce": (
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=per_topic(
                lambda name: TopicProduceData(
                    name=name,
                    partition_data=[PartitionProduceData(index=n, records=None) for n in MANY],
                )
            ),
        ),
        9,
        ProduceResponse,
    ),
}


@pytest.fixture(scope="module")
def serving() -> MemoryBroker:
    """Two topics and a group with committed offsets."""
    running = MemoryBroker(offsets_topic_num_partitions="2")
    for name in ("a", "b"):
        running.create(name, partitions=PARTITIONS // 100)
    found = FindCoordinatorRequest(coordinator_keys=["g"])
    running.call(found, 4, FindCoordinatorResponse)
    running.call(commits(), 9, OffsetCommitResponse)
    return running


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_response_is_that_of_the_whole_request(
    kind: str, serving: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, version, expect = REQUESTS[kind]
    asked = serving.send(request, version)
    assert asked.parts is None, "it takes more than one turn"
    serving.run_until_idle()
    monkeypatch.setattr(dispatch, "LONG_FRAME_BYTES", 1 << 30)
    assert asked.answer(expect) == serving.call(request, version, expect)


def test_topics_are_created_once_each_with_the_results_in_order() -> None:
    serving = MemoryBroker()
    topics = [
        CreatableTopic(
            name=f"a-topic-with-a-name-{n}",
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        for n in range(150)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
    asked = serving.send(request, 7)
    serving.run_until_idle()
    results = asked.answer(CreateTopicsResponse).topics
    assert [each.name for each in results] == [each.name for each in topics]
    assert {each.error_code for each in results} == {ErrorCode.NONE}
    assert len(serving.node.broker.image.topics) == 150


@pytest.mark.parametrize(
    ("partitions", "parts"),
    [
        ((500, 500, 500), [("t0",), ("t1",), ("t2",)]),
        ((500, 1, 1), [("t0",), ("t1", "t2")]),
        ((1, 2_000, 1), [("t0",), ("t1",), ("t2",)]),
        ((200, 200, 200), [("t0", "t1"), ("t2",)]),
    ],
)
def test_topics_with_many_partitions_are_created_in_parts(
    partitions: tuple[int, ...], parts: list[tuple[str, ...]]
) -> None:
    topics = [
        CreatableTopic(
            name=f"t{n}", num_partitions=count, replication_factor=1, assignments=[], configs=[]
        )
        for n, count in enumerate(partitions)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
    assert creates_many(request)
    (split,) = REQUEST_ELEMENTS[CREATE_TOPICS_KEY]
    found = [tuple(topic.name for topic in part.topics) for part in parts_of(request, split)]
    assert found == parts


def test_a_short_request_for_many_partitions_takes_several_turns(serving: MemoryBroker) -> None:
    topics = [
        CreatableTopic(
            name=f"n{n}", num_partitions=600, replication_factor=1, assignments=[], configs=[]
        )
        for n in range(3)
    ]
    asked = serving.send(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    created = serving.node.metadata.controller.pending.topics
    assert sum(name in created for name in ("n0", "n1", "n2")) == 1
    serving.run_until_idle()
    answer = asked.answer(CreateTopicsResponse)
    assert [(each.name, each.error_code) for each in answer.topics] == [
        (name, ErrorCode.NONE) for name in ("n0", "n1", "n2")
    ]


def test_more_topics_than_one_request_may_create_are_all_refused(serving: MemoryBroker) -> None:
    topics = [
        CreatableTopic(
            name=f"one-of-many-{n}",
            num_partitions=3,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        for n in range(4_000)
    ]
    asked = CreateTopicsRequest(topics=topics, timeout_ms=1000)
    answer = serving.call(asked, 7, CreateTopicsResponse)
    assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert len(answer.topics) == len(topics)


TOO_MANY = 12_000
"""More partitions than one request may change."""


def electing(count: int) -> ElectLeadersRequest:
    named = TopicPartitions(topic="a", partitions=list(range(count)))
    return ElectLeadersRequest(election_type=0, topic_partitions=[named])


def reassigning(count: int) -> AlterPartitionReassignmentsRequest:
    partitions = [
        ReassignablePartition(partition_index=number, replicas=[1]) for number in range(count)
    ]
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="a", partitions=partitions)]
    )


def test_a_long_election_and_a_long_reassignment_have_a_result_for_each_partition(
    serving: MemoryBroker,
) -> None:
    elected = serving.call(electing(2_000), 2, ElectLeadersResponse)
    (topic,) = elected.replica_election_results
    assert [each.partition_id for each in topic.partition_result] == list(range(2_000))
    assert topic.partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
    assert topic.partition_result[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    moved = serving.call(reassigning(2_000), 1, AlterPartitionReassignmentsResponse)
    (moving,) = moved.responses
    assert [each.partition_index for each in moving.partitions] == list(range(2_000))
    assert moving.partitions[0].error_code == ErrorCode.NONE
    assert moving.partitions[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_elections_and_reassignments_of_too_many_partitions_are_refused_whole(
    serving: MemoryBroker,
) -> None:
    elected = serving.call(electing(TOO_MANY), 2, ElectLeadersResponse)
    (topic,) = elected.replica_election_results
    assert {each.error_code for each in topic.partition_result} == {ErrorCode.POLICY_VIOLATION}
    assert len(topic.partition_result) == TOO_MANY
    moved = serving.call(reassigning(TOO_MANY), 1, AlterPartitionReassignmentsResponse)
    assert (moved.error_code, moved.responses) == (ErrorCode.POLICY_VIOLATION, [])


def test_a_metadata_request_with_too_many_new_topics_creates_none(
    serving: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"new-{n}" for n in range(MAX_TOPICS_PER_REQUEST + 1)]
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ["a", *names]],
        allow_auto_topic_creation=True,
    )
    before = set(serving.node.broker.image.topics)
    answer = serving.call(request, 9, MetadataResponse)
    assert len(answer.topics) == len(names) + 1
    assert set(serving.node.broker.image.topics) == before
    assert f"{len(names)} topics were not created; the first, new-0" in caplog.text


@pytest.mark.parametrize("all_topics", [True, False])
@pytest.mark.parametrize("version", [0, 13])
def test_a_short_metadata_request_with_a_long_answer_takes_several_turns(
    all_topics: bool, version: int
) -> None:
    serving = MemoryBroker()
    names = [f"t{number}" for number in range(3)]
    for name in names:
        serving.create(name, partitions=LONG_ANSWER // 2)
    topics = [MetadataRequestTopic(name=name) for name in names]
    asked_for = None if all_topics else topics
    if version == 0 and all_topics:
        asked_for = []
    request = MetadataRequest(topics=asked_for)
    asked = serving.send(request, version)
    other = serving.send(ApiVersionsRequest(), 0)
    assert (asked.parts is None, other.parts is None) == (True, False)
    serving.run_until_idle()
    found = asked.answer(MetadataResponse).topics
    assert [topic.name for topic in found] == names
    assert {len(topic.partitions) for topic in found} == {LONG_ANSWER // 2}


def test_limit_of_new_topics_is_checked_in_slices(serving: MemoryBroker) -> None:
    topics = [MetadataRequestTopic(name="a") for _ in range(MAX_TOPICS_PER_REQUEST + 1)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    slices = within_creation_limit(serving.node.broker, request)
    for _ in range(len(topics) // NAMES_PER_SLICE):
        next(slices)
    with pytest.raises(StopIteration) as end:
        next(slices)
    assert end.value.value is request, "topics that exist are not new"


def test_every_request_with_arrays_is_split_or_limited() -> None:
    """Else 200,000 elements would be handled at once."""
    fetch = 1  # Limited by the partitions of the cluster.
    unbounded = [
        api.name
        for api in ROWS
        if any(isinstance(each.type, ArrayOf) for each in fields_of(api.request))
        and not REQUEST_ELEMENTS.get(api.key)
        and UNDIVIDED_OBJECTS_MAX.get(api.request.__name__, 200_000) > 20_000
        and api.key != fetch
    ]
    assert unbounded == []


def test_fetch_of_more_partitions_than_there_can_be_is_refused_before_it_is_decoded(
    serving: MemoryBroker,
) -> None:
    known = serving.node.broker.image.partition_count()
    count = FETCH_FRAME_BYTES // 30 + 20 * (256 + known)
    partitions = [
        FetchPartition(
            partition=n,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1,
        )
        for n in range(count)
    ]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic="a", partitions=partitions)],
        forgotten_topics_data=[],
        rack_id="",
    )
    with pytest.raises(ProtocolError, match=r"a Fetch of [0-9]+ bytes, and the cluster has"):
        serving.send(request, 12)
    request.topics[0].partitions = partitions[:5_000]
    assert serving.call(request, 12, FetchResponse).error_code == ErrorCode.NONE


def test_a_turn_handles_one_part_and_others_are_answered_between(serving: MemoryBroker) -> None:
    request, version, _ = REQUESTS["delete-groups"]
    asked = [serving.send(request, version) for _ in range(3)]
    assert all(each.held for each in asked), "the connections' next requests wait"
    turns = 0
    while any(each.parts is None for each in asked):
        other = serving.send(ApiVersionsRequest(), 0)
        assert other.answer(ApiVersionsResponse).error_code == ErrorCode.NONE
        serving.run_round()
        turns += 1
        if serving.work:
            serving.run_work()
    assert turns >= 3 * PARTITIONS // PART_ELEMENTS
    assert not any(each.held for each in asked)


def elements(struct: Any, path: tuple[str, ...]) -> Iterator[Any]:
    for each in getattr(struct, path[0]):
        if path[1:]:
            yield from elements(each, path[1:])
        else:
            yield each


@pytest.mark.parametrize("kind", REQUESTS)
def test_parts_have_few_elements_and_together_all_in_order(kind: str) -> None:
    request, version, _ = REQUESTS[kind]
    key = next(row.key for row in MESSAGES.values() if row.request is type(request))
    split = REQUEST_ELEMENTS[key][0]
    consumed = decode(type(request), version, encode_bytes(request, version))
    parts = [list(elements(part, split.request)) for part in parts_of(consumed, split)]
    assert max(map(len, parts)) <= split.elements
    assert [each for part in parts for each in part] == list(elements(request, split.request))


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_sliced_reader_and_writer_do_what_the_others_do_and_yield(kind: str) -> None:
    request, version, _ = REQUESTS[kind]
    data = encode_bytes(request, version)
    read = sliced_reader(type(request), version)(data, 0)
    assert yielded(read) == (number_of(request), request)
    write = sliced_writer(type(request), version)(request)
    turns, written = yielded(write)
    assert (turns, b"".join(bytes(part) for part in written)) == (number_of(request), data)


def yielded(slices: Any) -> tuple[int, Any]:
    turns = 0
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return turns, end.value
        turns += 1


def number_of(request: Any) -> int:
    """How often a message is interrupted. Arrays of numbers are read as a whole."""
    counted = 0
    if isinstance(request, OffsetFetchRequest):
        return 0
    key = next(row.key for row in MESSAGES.values() if row.request is type(request))
    path = REQUEST_ELEMENTS[key][0].request
    for depth in range(1, len(path) + 1):
        counted += len(list(elements(request, path[:depth])))
    return counted // SLICE_ELEMENTS


def test_a_long_request_that_is_malformed_at_its_end_closes_its_connection(
    serving: MemoryBroker,
) -> None:
    request, version, _ = REQUESTS["list-offsets"]
    asked = SentRequest(request, version)
    asked.frame = asked.frame[:-1]
    serving.dispatcher.received(asked)
    assert asked.closed is None
    serving.run_until_idle()
    assert asked.closed is not None
    assert "past the end" in asked.closed


def test_a_commit_is_one_operation_of_a_limited_number_of_partitions(
    serving: MemoryBroker,
) -> None:
    asked = serving.send(commits(), 9)
    serving.run_soon()
    assert not asked.held
    large = commits()
    large.topics[0].partitions *= 30
    with pytest.raises(ProtocolError, match="length"):
        serving.send(large, 9)


def test_a_short_request_that_is_malformed_raises_at_once(serving: MemoryBroker) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["g" * 5000])
    asked = SentRequest(request, 4)
    asked.frame = asked.frame[:-2]
    with pytest.raises(ProtocolError):
        serving.dispatcher.received(asked)


def test_a_request_of_a_connection_that_closed_is_dropped(serving: MemoryBroker) -> None:
    request, version, _ = REQUESTS["delete-groups"]
    asked = serving.send(request, version)
    assert asked.abandoned is not None
    asked.abandoned()
    serving.run_until_idle()
    assert asked.parts is None
