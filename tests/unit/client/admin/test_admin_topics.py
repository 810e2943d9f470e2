"""Topics by the admin client: create, describe and delete; settings; the cluster."""

from __future__ import annotations

import pytest

from odradek.client.admin.results import NewTopic, Source
from odradek.client.blocking.admin import Admin
from odradek.client.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from odradek.model.topics import TopicPartition


def names(admin: Admin) -> list[str]:
    return [topic.name for topic in admin.topics()]


# Topics.


def test_a_topic_is_created_described_and_deleted(admin: Admin) -> None:
    assert admin.create_topic("orders", partitions=3, config={"retention.ms": 1000})
    topic = admin.topic("orders")
    assert (topic.name, len(topic.partitions), topic.replication) == ("orders", 3, 1)
    assert [partition.leader for partition in topic.partitions] == [1, 1, 1]
    assert "orders" in names(admin)
    assert admin.describe_topics(["orders"]) == {"orders": topic}
    assert list(admin.describe_topics()) == names(admin)
    assert admin.delete_topic("orders")
    assert "orders" not in names(admin)


def test_creating_an_existing_topic_raises_unless_exist_ok(admin: Admin) -> None:
    assert admin.create_topic("there")
    with pytest.raises(TopicAlreadyExists, match="creating topic there"):
        admin.create_topic("there")
    assert not admin.create_topic("there", exist_ok=True)


def test_calls_for_an_unknown_topic_raise(admin: Admin) -> None:
    for ask in (admin.topic, admin.delete_topic, lambda name: admin.describe_config(topic=name)):
        with pytest.raises(UnknownTopicOrPartition, match="missing"):
            ask("missing")
    assert not admin.delete_topic("missing", missing_ok=True)
    with pytest.raises(UnknownTopicOrPartition, match="missing"):
        admin.end_offsets([TopicPartition("missing", 0)])


def test_invalid_topics_are_refused(admin: Admin) -> None:
    with pytest.raises(InvalidTopic):
        admin.create_topic("no/slashes")
    with pytest.raises(InvalidPartitions):
        admin.create_topic("none", partitions=0)
    with pytest.raises(InvalidReplicationFactor):
        admin.create_topic("many", replication=9)
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        admin.create_topic("odd", config={"retention.ms": "soon"})


def test_calls_for_many_topics_return_a_result_for_each(admin: Admin) -> None:
    results = admin.create_topics_many([NewTopic("one", 1), NewTopic("two", 2), NewTopic("a b")])
    assert results["one"] is None and results["two"] is None
    assert isinstance(results["a b"], InvalidTopic)
    deleted = admin.delete_topics_many(["one", "two", "three"])
    assert deleted["one"] is None and isinstance(deleted["three"], UnknownTopicOrPartition)


def test_one_topic_name_is_not_read_as_a_list_of_letters(admin: Admin) -> None:
    """Also in calls for several topics: `delete_topics_many("ab")` is not about `a` and `b`."""
    for letter in "xy":
        admin.create_topic(letter, partitions=2)
    assert admin.create_topics_many("xy") == {"xy": None}
    assert admin.create_topics_many(NewTopic("yx", 3)) == {"yx": None}
    assert list(admin.describe_topics("xy")) == ["xy"]
    assert [str(each) for each in admin.partitions_of("yx")] == ["yx-0", "yx-1", "yx-2"]
    assert admin.delete_topics_many("xy") == {"xy": None}
    assert {"x", "y", "yx"} <= set(names(admin))


def test_validate_only_changes_nothing(admin: Admin) -> None:
    assert admin.create_topic("tried", validate_only=True)
    assert "tried" not in names(admin)


def test_partitions_are_added_and_never_removed(admin: Admin) -> None:
    admin.create_topic("growing", partitions=2)
    admin.create_partitions("growing", 5)
    assert len(admin.topic("growing").partitions) == 5
    with pytest.raises(InvalidPartitions):
        admin.create_partitions("growing", 3)


def test_internal_topics_are_listed_on_request(admin: Admin) -> None:
    assert set(names(admin)) <= {topic.name for topic in admin.topics(internal=True)}


# Settings.


def test_a_setting_of_a_topic_is_changed_and_reset(admin: Admin) -> None:
    admin.create_topic("tuned")
    assert admin.describe_config(topic="tuned")["retention.ms"].is_default
    admin.set_config({"retention.ms": 5000, "max.message.bytes": 100_000}, topic="tuned")
    admin.set_config({"max.message.bytes": None}, topic="tuned")
    config = admin.describe_config(topic="tuned")
    assert (config["retention.ms"].value, config["retention.ms"].source) == ("5000", Source.TOPIC)
    assert config["max.message.bytes"].is_default
    with pytest.raises(InvalidConfig, match=r"no\.such\.setting"):
        admin.set_config({"no.such.setting": 1}, topic="tuned")
    admin.set_config({"retention.ms": 6000}, topic="tuned", validate_only=True)
    assert admin.describe_config(topic="tuned")["retention.ms"].value == "5000"


def test_settings_of_brokers_are_described_and_changed(admin: Admin) -> None:
    config = admin.describe_config(broker=1)
    assert config["node.id"].value == "1" and config["node.id"].read_only
    admin.set_config({"log.retention.ms": 7_000_000}, broker="all")
    assert admin.describe_config(broker="all")["log.retention.ms"].value == "7000000"
    assert (
        admin.describe_config(broker=1)["log.retention.ms"].source is Source.DYNAMIC_DEFAULT_BROKER
    )
    admin.set_config({"log.retention.ms": None}, broker="all")
    with pytest.raises(KafkaError, match="brokers 1"):
        admin.describe_config(broker=77)


def test_settings_need_exactly_one_resource(admin: Admin) -> None:
    for given in ({}, {"topic": "a", "broker": 1}, {"topics": "a"}):
        with pytest.raises(TypeError, match=r"exactly one resource \(topic, broker, broker_logger"):
            admin.describe_config(**given)
    assert "consumer.session.timeout.ms" in admin.describe_config(group="g")


# The cluster.


def test_the_cluster_and_its_data_directories_are_described(admin: Admin) -> None:
    cluster = admin.cluster()
    assert [node.id for node in cluster.nodes] == [1] and cluster.controller_id == 1
    admin.create_topic("kept")
    ((path, replicas),) = [(each.path, each.replicas) for each in admin.log_dirs()[1]]
    assert path and replicas[TopicPartition("kept", 0)] == 0


def test_an_unknown_broker_raises_at_once(admin: Admin) -> None:
    """The call does not retry until its timeout."""
    for broker_ids in ([99], [1, 99], 99):
        with pytest.raises(UnknownTopicOrPartition, match=r"broker 99: .*brokers 1\. What to do"):
            admin.log_dirs(broker_ids)
    assert list(admin.log_dirs(1)) == list(admin.log_dirs([1])) == [1]
    assert list(admin.log_dirs(iter([1]))) == [1]  # type: ignore[arg-type]
