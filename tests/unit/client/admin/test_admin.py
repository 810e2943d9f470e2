"""The admin client against a real broker: both faces, every call, and what goes wrong."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from odradek.client.admin.admin import AdminCalls
from odradek.client.admin.results import NewTopic, Source
from odradek.client.aio.admin import Admin as AioAdmin
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.producer import Producer
from odradek.client.errors import (
    ApiTimeout,
    ClientClosed,
    ConfigError,
    GroupNotFound,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from odradek.model.ids import TopicPartition
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(brokers=broker.bootstrap) as admin:
        yield admin


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


def test_creating_what_is_there(admin: Admin) -> None:
    assert admin.create_topic("there")
    with pytest.raises(TopicAlreadyExists, match="creating topic there"):
        admin.create_topic("there")
    assert not admin.create_topic("there", exist_ok=True)


def test_what_is_not_there(admin: Admin) -> None:
    for ask in (admin.topic, admin.delete_topic, lambda name: admin.describe_config(topic=name)):
        with pytest.raises(UnknownTopicOrPartition, match="missing"):
            ask("missing")
    assert not admin.delete_topic("missing", missing_ok=True)
    with pytest.raises(UnknownTopicOrPartition, match="missing"):
        admin.end_offsets([TopicPartition("missing", 0)])


def test_topics_that_cannot_be(admin: Admin) -> None:
    with pytest.raises(InvalidTopic):
        admin.create_topic("no/slashes")
    with pytest.raises(InvalidPartitions):
        admin.create_topic("none", partitions=0)
    with pytest.raises(InvalidReplicationFactor):
        admin.create_topic("many", replication=9)
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        admin.create_topic("odd", config={"retention.ms": "soon"})


def test_many_at_once_give_a_result_for_each(admin: Admin) -> None:
    results = admin.create_topics_many([NewTopic("one", 1), NewTopic("two", 2), NewTopic("a b")])
    assert results["one"] is None and results["two"] is None
    assert isinstance(results["a b"], InvalidTopic)
    deleted = admin.delete_topics_many(["one", "two", "three"])
    assert deleted["one"] is None and isinstance(deleted["three"], UnknownTopicOrPartition)


def test_only_trying_changes_nothing(admin: Admin) -> None:
    assert admin.create_topic("tried", validate_only=True)
    assert "tried" not in names(admin)


def test_partitions_are_added_and_never_taken_away(admin: Admin) -> None:
    admin.create_topic("growing", partitions=2)
    admin.create_partitions("growing", 5)
    assert len(admin.topic("growing").partitions) == 5
    with pytest.raises(InvalidPartitions):
        admin.create_partitions("growing", 3)


def test_internal_topics_are_listed_when_asked_for(admin: Admin) -> None:
    assert set(names(admin)) <= {topic.name for topic in admin.topics(internal=True)}


# Settings.


def test_a_setting_of_a_topic_is_changed_and_taken_back(admin: Admin) -> None:
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


def test_settings_of_brokers(admin: Admin) -> None:
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


def test_settings_are_of_one_thing(admin: Admin) -> None:
    for given in ({}, {"topic": "a", "broker": 1}, {"topics": "a"}):
        with pytest.raises(TypeError, match="exactly one of topic, broker, broker_logger"):
            admin.describe_config(**given)
    with pytest.raises(InvalidRequest, match="group g"):  # Of groups of KIP-848.
        admin.describe_config(group="g")


# Records.


def test_where_logs_begin_and_end_and_deleting_what_is_old(admin: Admin, broker: Broker) -> None:
    admin.create_topic("log", partitions=2)
    first, second = admin.partitions_of(["log"])
    produce(broker, first, 10)
    assert admin.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert admin.end_offsets([first, second]) == {first: 10, second: 0}
    assert admin.delete_records({first: 4}) == {first: 4}
    assert admin.beginning_offsets([first]) == {first: 4}
    assert admin.delete_records({first: -1}) == {first: 10}
    with pytest.raises(OffsetOutOfRange, match="log-0 before offset 99"):
        admin.delete_records({first: 99})
    with pytest.raises(UnknownTopicOrPartition, match="has partitions 0 to 1"):
        admin.delete_records({TopicPartition("log", 7): 1})


def test_offsets_by_time(admin: Admin, broker: Broker) -> None:
    admin.create_topic("timed")
    partition = TopicPartition("timed", 0)
    produce(broker, partition, 5)
    assert admin.list_offsets({partition: 3})[partition].offset == 3
    assert admin.list_offsets({partition: 10**15})[partition].offset == -1


def produce(broker: Broker, partition: TopicPartition, count: int) -> None:
    """So many records, each with its offset for a timestamp."""
    with Producer(brokers=broker.bootstrap) as producer:
        sent = [
            producer.send(
                partition.topic, b"value", partition=partition.partition, timestamp=number
            )
            for number in range(count)
        ]
    assert [record.result().offset for record in sent] == list(range(count))


# Groups.


def test_partitions_may_be_plain_pairs_and_topics_plain_names(admin: Admin, broker: Broker) -> None:
    assert admin.create_topics_many(["pairs"]) == {"pairs": None}
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_many("pairs", ["v"] * 3, partition=0)
    pair, partition = ("pairs", 0), TopicPartition("pairs", 0)
    assert admin.list_offsets({pair: 1})[partition].offset == 0
    assert admin.end_offsets([pair]) == {partition: 3}
    assert admin.delete_records({pair: 2}) == {partition: 2}
    assert admin.beginning_offsets([pair]) == {partition: 2}
    admin.alter_group_offsets("pairs", {pair: 2})
    assert admin.group_offsets("pairs")[partition].offset == 2
    admin.delete_group_offsets("pairs", [pair])
    assert admin.group_offsets("pairs") == {}
    with pytest.raises(TypeError, match=r"'pairs' is no partition.*\('orders', 0\)"):
        admin.end_offsets(["pairs"])  # type: ignore[list-item]
    for ask in (admin.end_offsets, admin.beginning_offsets):
        with pytest.raises(TypeError, match=r"'pairs' is no partition"):
            ask("pairs")  # type: ignore[arg-type]


def test_arguments_that_do_not_fit_are_told_of_by_the_name_they_were_called_by(
    admin: Admin, broker: Broker
) -> None:
    with pytest.raises(TypeError, match=r"^Admin\.describe_config\(\) takes"):
        admin.describe_config("orders")  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^Admin\.create_topic\(\) got an unexpected .*'partition'"
    ):
        admin.create_topic("orders", partition=2)  # type: ignore[call-arg]

    async def awaited() -> None:
        async with AioAdmin(brokers=broker.bootstrap) as other:
            await other.create_topic("orders", partition=2)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"^Admin\.create_topic\(\) got an unexpected"):
        asyncio.run(awaited())


def test_a_group_of_another_protocol_lags_and_moves_too(
    admin: Admin, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DescribeGroups does not know it (KIP-848), but what it has committed is known."""

    async def not_classic(self: AdminCalls, group_id: str) -> None:
        raise GroupNotFound(f"group {group_id} is not a classic group")

    admin.create_topic("read-by-others")
    (first,) = admin.partitions_of(["read-by-others"])
    produce(broker, first, 5)
    admin.alter_group_offsets("others", {first: 3})
    monkeypatch.setattr(AdminCalls, "group", not_classic)
    assert admin.lag("others")[first].lag == 2
    admin.seek_group("others", "start")
    assert admin.lag("others")[first].lag == 5
    with pytest.raises(GroupNotFound):
        admin.lag("nobody")


def test_groups_and_their_offsets(admin: Admin, broker: Broker) -> None:
    admin.create_topic("read", partitions=2)
    first, second = admin.partitions_of(["read"])
    produce(broker, first, 10)
    admin.alter_group_offsets("readers", {first: 4, second: 0})
    assert {p: each.offset for p, each in admin.group_offsets("readers").items()} == {
        first: 4,
        second: 0,
    }
    assert "readers" in [group.group_id for group in admin.groups()]
    assert admin.group("readers").state == "Empty"
    assert admin.lag("readers")[first].lag == 6
    plan = admin.seek_group("readers", "end", dry_run=True)
    assert (plan.group_id, plan.dry_run) == ("readers", True)
    assert plan == {first: (4, 10), second: (0, 0)}
    assert admin.group_offsets("readers")[first].offset == 4
    assert not admin.seek_group("readers", 4).dry_run
    admin.seek_group("readers", datetime.fromtimestamp(0.007, UTC))
    assert admin.group_offsets("readers")[first].offset == 7
    admin.delete_group_offsets("readers", [second])
    assert list(admin.group_offsets("readers")) == [first]
    assert admin.delete_groups_many(["readers"]) == {"readers": None}
    with pytest.raises(GroupNotFound, match="readers"):
        admin.group("readers")
    with pytest.raises(GroupNotFound):
        admin.delete_group("readers")
    assert not admin.delete_group("readers", missing_ok=True)


# The cluster.


def test_the_cluster_and_its_directories(admin: Admin) -> None:
    cluster = admin.cluster()
    assert [node.id for node in cluster.nodes] == [1] and cluster.controller_id == 1
    admin.create_topic("kept")
    ((path, replicas),) = [(each.path, each.replicas) for each in admin.log_dirs()[1]]
    assert path and replicas[TopicPartition("kept", 0)] == 0


# The faces.


@pytest.mark.parametrize("face", [Admin, AioAdmin])
def test_a_face_has_every_call_with_its_signature_and_text(face: Any) -> None:
    calls = {
        name: call
        for name, call in inspect.getmembers(AdminCalls, inspect.iscoroutinefunction)
        if not name.startswith(("_", "ask_")) and name not in HIDDEN
    }
    for name, call in calls.items():
        bound = getattr(face, name)
        assert inspect.getdoc(bound) == inspect.getdoc(call)
        assert inspect.signature(bound) == inspect.signature(call)


HIDDEN = ("retried", "described", "existing", "by_leader")
"""Parts of calls."""


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_the_awaited_face_does_the_same(broker: Broker) -> None:
    async def main() -> None:
        async with AioAdmin({"bootstrap.servers": broker.bootstrap}) as admin:
            await asyncio.gather(*(admin.create_topic(f"aio-{n}") for n in range(5)))
            found = [topic.name for topic in await admin.topics()]
            assert {f"aio-{n}" for n in range(5)} <= set(found)
            with pytest.raises(TopicAlreadyExists):
                await admin.create_topic("aio-0")
            assert await admin.delete_topic("aio-0")

    run(main())


def test_an_awaited_face_has_to_be_started_and_once(broker: Broker) -> None:
    async def main() -> None:
        admin = AioAdmin(brokers=broker.bootstrap)
        with pytest.raises(ClientClosed, match="async with"):
            await admin.topics()
        await admin.close()
        await admin.start()
        with pytest.raises(RuntimeError, match="started before"):
            await admin.start()
        await admin.close()
        await admin.close()
        with pytest.raises(ClientClosed):
            await admin.topics()

    run(main())


def test_after_closing_nothing_can_be_asked(broker: Broker) -> None:
    admin = Admin(bootstrap_servers=broker.bootstrap)
    assert admin.cluster().nodes
    admin.close()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.cluster()


def test_many_threads_may_ask_at_once(admin: Admin) -> None:
    outcomes: list[int] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(len(admin.cluster().nodes)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [1] * 8


def test_one_that_is_forgotten_ends(broker: Broker) -> None:
    admin = Admin(brokers=broker.bootstrap)
    thread = admin._thread._thread
    assert admin.cluster().nodes
    del admin
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_a_broker_that_is_not_there_is_named_within_the_time_given() -> None:
    with Broker() as broker:
        gone = broker.bootstrap
    with Admin(brokers=gone, default_api_timeout_ms=300) as admin:
        with pytest.raises(ApiTimeout, match=gone) as caught:
            admin.topics()
        assert "300 ms" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "bootstrap.servers is empty"),
        ({"brokers": "nowhere"}, "Write host:port"),
        ({"brokers": "a:1", "request_timout_ms": 1}, "did you mean"),
        ({"brokers": "a:1", "security_protocol": "SSL"}, "PLAINTEXT only"),
    ],
)
def test_settings_that_cannot_stand_leave_no_thread_behind(
    given: dict[str, Any], problem: str
) -> None:
    before = threading.active_count()
    make: Callable[..., Admin] = Admin
    with pytest.raises(ConfigError, match=problem):
        make(**given)
    assert threading.active_count() <= before
