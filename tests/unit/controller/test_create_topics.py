"""CreateTopics, with the answers of Kafka 4.3."""

from __future__ import annotations

import random

import pytest

from odradek.config.broker import BrokerConfig
from odradek.controller.topics import create_topics
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from unit.controller.cluster_making import CONFIG, a_topic, an_image, create


def test_a_new_topic_has_an_id_partitions_with_leaders_and_its_settings() -> None:
    image = an_image()
    result = create(image, a_topic("flights", 3, 1, configs={"retention.ms": "5"}))["flights"]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    topic = image.topic("flights")
    assert topic is not None
    assert topic.id == result.topic_id != ZERO_UUID
    assert sorted(topic.partitions) == [0, 1, 2]
    for partition in topic.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == image.brokers[1].log_dirs
    assert image.topic_config("flights") == {"retention.ms": "5"}
    shown = {row.name: (row.value, row.config_source) for row in result.configs or []}
    assert shown["retention.ms"] == ("5", 1)
    assert shown["segment.bytes"] == ("1073741824", 5)
    assert list(shown) == sorted(shown)


def test_missing_numbers_come_from_the_broker_settings() -> None:
    config = BrokerConfig.load({"num.partitions": "4", "default.replication.factor": "2"})
    result = create(an_image(1, 2), a_topic("t"), config=config)["t"]
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_validate_only_answers_the_same_and_changes_nothing() -> None:
    image = an_image()
    result = create(image, a_topic("t", 2, 1), validate_only=True)["t"]
    assert (result.error_code, result.num_partitions) == (0, 2)
    assert image.topic("t") is None


def test_two_requests_for_one_topic_in_one_event_do_not_both_succeed() -> None:
    image = an_image()
    assert create(image, a_topic("t"))["t"].error_code == ErrorCode.NONE
    assert create(image, a_topic("t"))["t"].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a" * 249, ErrorCode.NONE),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("é", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("A-b_c.9", ErrorCode.NONE),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("__consumer_offsets", ErrorCode.NONE),
        ("x_y", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x.y", ErrorCode.TOPIC_ALREADY_EXISTS),
    ],
)
def test_invalid_and_colliding_names_are_refused(name: str, error: ErrorCode) -> None:
    image = an_image()
    create(image, a_topic("x.y"))
    assert create(image, a_topic(name))[name].error_code == error


def test_a_name_is_free_when_the_colliding_topic_is_deleted() -> None:
    image = an_image()
    create(image, a_topic("x.y"))
    assert image.colliding_topic("x_y") == "x.y"
    assert create(image, a_topic("p_q"), a_topic("p.q"))["p.q"].error_code == (
        ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def test_a_topic_that_is_there_twice_is_answered_once_and_not_created() -> None:
    image = an_image()
    request = CreateTopicsRequest(topics=[a_topic("dup"), a_topic("ok"), a_topic("dup")])
    decision = create_topics(image, request, CONFIG, random.Random(1))
    assert [(result.name, result.error_code) for result in decision.response.topics] == [
        ("ok", ErrorCode.NONE),
        ("dup", ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize(
    ("partitions", "factor", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
        (10_000, 1, ErrorCode.POLICY_VIOLATION),
        (9_999, 1, ErrorCode.NONE),
    ],
)
def test_invalid_partition_counts_and_replication_factors_are_refused(
    partitions: int, factor: int, error: ErrorCode
) -> None:
    assert create(an_image(), a_topic("t", partitions, factor))["t"].error_code == error


def test_a_request_with_too_many_partitions_is_refused_as_a_whole() -> None:
    results = create(an_image(), a_topic("n", 6000, 1), a_topic("m", 6000, 1))
    assert {result.error_code for result in results.values()} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        ([(0, [1])], ErrorCode.NONE),
        ([(1, [2]), (0, [1])], ErrorCode.NONE),
        ([(0, [1]), (0, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(1, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [1]), (2, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(-1, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [9])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [1, 1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [1]), (1, [1, 2])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_manual_assignments_are_refused(
    assignments: list[tuple[int, list[int]]], error: ErrorCode
) -> None:
    image = an_image(1, 2)
    assert create(image, a_topic("t", assignments=assignments))["t"].error_code == error
    if error is ErrorCode.NONE:
        topic = image.topic("t")
        assert topic is not None
        for number, brokers in assignments:
            assert topic.partitions[number].replicas == tuple(brokers)


@pytest.mark.parametrize(("partitions", "factor"), [(1, -1), (-1, 1), (5, 5)])
def test_a_manual_assignment_sets_partitions_and_replication_factor(
    partitions: int, factor: int
) -> None:
    result = create(an_image(), a_topic("t", partitions, factor, assignments={0: [1]}))["t"]
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nope", "1", "Unknown topic config name: nope"),
        ("segment.bytes", "0", "Value must be at least 1048576"),
        ("segment.bytes", None, "Null value not supported"),
        ("cleanup.policy", "compress", "String must be one of: compact, delete"),
    ],
)
def test_invalid_settings_are_refused(name: str, value: str | None, message: str) -> None:
    result = create(an_image(), a_topic("t", 1, 1, configs={name: value}))["t"]
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert message in (result.error_message or "")


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (a_topic("bad name", 0, 0, configs={"nope": "1"}), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (a_topic("t", 0, 0, configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (a_topic("t", assignments={0: [9]}, configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (a_topic("x.y", configs={"nope": "1"}), ErrorCode.TOPIC_ALREADY_EXISTS),
        (a_topic("x_y", configs={"nope": "1"}), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_of_several_errors_the_same_is_answered_as_in_kafka(
    topic: object, error: ErrorCode
) -> None:
    image = an_image()
    create(image, a_topic("x.y"))
    assert create(image, topic)[topic.name].error_code == error  # type: ignore[arg-type,attr-defined]


def test_a_refused_topic_does_not_affect_the_others() -> None:
    image = an_image()
    results = create(image, a_topic("d1"), a_topic("bad name"), a_topic("d2", 0))
    assert list(results) == ["d1", "bad name", "d2"]
    assert list(image.topics) == ["d1"]


def test_the_records_of_a_topic_are_in_kafkas_order() -> None:
    request = CreateTopicsRequest(
        topics=[a_topic("t", 2, 1, configs={"segment.ms": "2", "retention.ms": "1"})]
    )
    records = create_topics(an_image(), request, CONFIG, random.Random(1)).records
    assert [type(record) for record in records] == [
        TopicRecord,
        ConfigRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
