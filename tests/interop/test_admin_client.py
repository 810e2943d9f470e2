"""Our admin client returns the same from this project's broker and a real Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from interop.apache_kafka import ApacheKafka
from odradek.client.admin.results import ConfigEntry, NewTopic, Topic
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.producer import Producer
from odradek.client.errors import KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

GROUP = "admin-client-readers"
LOG = TopicPartition("admin-client-log", 0)
OTHER = TopicPartition("admin-client-log", 1)
PATIENCE_S = 10.0
T = TypeVar("T")


def outcome(call: Callable[[], Any]) -> object:
    """Return the result of a call, or the kind of its error."""
    try:
        return call()
    except KafkaError as error:
        return type(error).__name__, error.name


def produce(bootstrap: str, count: int) -> None:
    """Produce records with their offsets as timestamps."""
    with Producer(brokers=bootstrap) as producer:
        sent = [
            producer.send(LOG.topic, b"value", partition=LOG.partition, timestamp=1000 + number)
            for number in range(count)
        ]
    assert [record.result().offset for record in sent] == list(range(count))


def when_known(admin: Admin, name: str) -> Topic:
    """Describe a topic that was created: Kafka answers before its broker has the metadata."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return admin.topic(name)
        except UnknownTopicOrPartition:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def repeated(ask: Callable[[], T], until: Callable[[T], bool]) -> T:
    """Ask until the answer is right, or patience is over; return the last answer. Kafka answers a
    change before its broker has applied it."""
    ends = time.monotonic() + PATIENCE_S
    while True:
        answer = ask()
        if until(answer) or time.monotonic() > ends:
            return answer
        time.sleep(0.05)


def when_gone(admin: Admin, name: str) -> object:
    """Return the outcome of describing a topic that was deleted."""
    return repeated(
        lambda: outcome(lambda: admin.topic(name)), lambda told: not isinstance(told, Topic)
    )


def topics(admin: Admin) -> list[object]:
    config = {"retention.ms": 60_000, "cleanup.policy": "delete"}
    created = outcome(lambda: admin.create_topic(LOG.topic, partitions=2, config=config))
    topic = when_known(admin, LOG.topic)
    mine = [each.name for each in admin.topics() if each.name.startswith("admin-client")]
    many = [NewTopic("admin-client-b", 1), NewTopic("no spaces")]
    return [
        created,
        outcome(lambda: admin.create_topic(LOG.topic)),
        outcome(lambda: admin.create_topic(LOG.topic, exist_ok=True)),
        [(p.partition, p.leader, p.replicas, p.isr, p.leader_epoch) for p in topic.partitions],
        mine,
        {name: e and e.name for name, e in admin.create_topics_many(many).items()},
        outcome(lambda: admin.create_topic("admin-client-c", partitions=0)),
        outcome(lambda: admin.create_topic("admin-client-c", replication=7)),
        outcome(lambda: admin.create_topic("admin-client-c", config={"retention.ms": "x"})),
        outcome(lambda: admin.create_topic("admin-client-c", validate_only=True)),
        outcome(lambda: admin.create_partitions("admin-client-b", 3)),
        outcome(lambda: admin.create_partitions("admin-client-b", 2)),
        outcome(lambda: admin.delete_topic("admin-client-b")),
        outcome(lambda: admin.delete_topic("admin-client-b")),
        outcome(lambda: admin.delete_topic("admin-client-b", missing_ok=True)),
        when_gone(admin, "admin-client-b"),
    ]


def when_changed(admin: Admin, name: str, former: str | None) -> dict[str, ConfigEntry]:
    """Describe the settings of the topic after a change of one that had another value."""
    return repeated(
        lambda: admin.describe_config(topic=LOG.topic), lambda config: config[name].value != former
    )


def settings(admin: Admin) -> list[object]:
    name = "max.message.bytes"
    former = admin.describe_config(topic=LOG.topic)[name].value
    changed = outcome(lambda: admin.set_config({name: 2_000_000}, topic=LOG.topic))
    config = when_changed(admin, name, former)
    shown = ("retention.ms", "max.message.bytes", "cleanup.policy", "segment.bytes")
    return [
        changed,
        [(name, config[name].value, config[name].source, config[name].sensitive) for name in shown],
        outcome(lambda: admin.set_config({name: None}, topic=LOG.topic)),
        when_changed(admin, name, "2000000")[name].value,
        outcome(lambda: admin.set_config({"no.such.setting": 1}, topic=LOG.topic)),
        outcome(lambda: admin.describe_config(topic="admin-client-missing")),
        admin.describe_config(broker=1)["node.id"].value,
        outcome(lambda: admin.set_config({"node.id": 2}, broker=1)),
    ]


def records(admin: Admin) -> list[object]:
    at = datetime.fromtimestamp(1.004, UTC)
    admin.alter_group_offsets(GROUP, {LOG: 1, OTHER: 0})
    return [
        admin.end_offsets([LOG, OTHER]),
        [outcome(lambda t=t: admin.list_offsets({LOG: t})) for t in (-1, -2, -3, 1004, 10**14)],  # type: ignore[misc]
        outcome(lambda: admin.delete_records({LOG: 3})),
        outcome(lambda: admin.delete_records({LOG: 99})),
        outcome(lambda: admin.delete_records({TopicPartition(LOG.topic, 9): 1})),
        admin.beginning_offsets([LOG]),
        {p: move.after for p, move in admin.seek_group(GROUP, at).items()},
        {p: move.after for p, move in admin.seek_group(GROUP, "start").items()},
    ]


def groups(admin: Admin) -> list[object]:
    described = admin.group(GROUP)
    lag = admin.lag(GROUP)
    return [
        [g.group_id for g in admin.groups() if g.group_id == GROUP],
        (described.state, described.protocol_type, described.members),
        {p: each.offset for p, each in admin.group_offsets(GROUP).items()},
        {p: (each.committed, each.lag) for p, each in lag.items()},
        outcome(lambda: admin.delete_group_offsets(GROUP, [OTHER])),
        list(admin.group_offsets(GROUP)),
        outcome(lambda: admin.delete_group(GROUP)),
        outcome(lambda: admin.delete_group(GROUP)),
        outcome(lambda: admin.group(GROUP)),
        outcome(lambda: admin.group_offsets(GROUP)),
    ]


def script(bootstrap: str) -> dict[str, list[object]]:
    """Call every part of the client; return the results."""
    with Admin(brokers=bootstrap) as admin:
        told = {"topics": topics(admin), "settings": settings(admin)}
        produce(bootstrap, 10)
        told["records"] = records(admin)
        told["groups"] = groups(admin)
        cluster = admin.cluster()
        told["cluster"] = [
            [node.id for node in cluster.nodes],
            cluster.controller_id,
            sorted(admin.log_dirs()),
        ]
    return told


def test_kafka_is_said_not_to_show_what_waits_in_it(kafka: ApacheKafka) -> None:
    with (
        Admin(brokers=kafka.bootstrap) as admin,
        pytest.raises(UnsupportedVersion, match="only Odradek brokers answer DescribeWaiting"),
    ):
        admin.describe_waiting()


def test_the_admin_client_returns_the_same_from_both_brokers(
    kafka: ApacheKafka, ours: Broker
) -> None:
    of_kafka, of_ours = script(kafka.bootstrap), script(ours.bootstrap)
    for part, told in of_kafka.items():
        assert of_ours[part] == told, part
