"""Committed offsets read by Kafka's kafka-consumer-groups and DumpLogSegments.

The records of `__consumer_offsets` are those that a real Kafka writes for the same requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.apache_kafka import ApacheKafka
from interop.differential.peer import Peer, served_versions
from interop.differential.scripts.committed import committing, fetching
from interop.differential.scripts.committed_ends import deleting
from interop.differential.scripts.group_steps import JOIN, SYNC, coordinator_found, joining, syncing
from odradek.model.topics import CONSUMER_OFFSETS
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

RunTool = Callable[..., str]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUP = "as written"


def log_of_groups(ours: Broker) -> list[Path]:
    """Return our segments of `__consumer_offsets`, which has one partition here."""
    topic = ours.node.broker.image.topic(CONSUMER_OFFSETS)
    assert topic is not None
    partition = ours.node.replicas.by_id[topic.id, 0]
    return sorted(Path(partition.log.directory).glob("*.log"))


def records_of(run_tool: RunTool, logs: list[Path]) -> list[Any]:
    """Return the (key, payload) pairs that Kafka reads in files, for our group alone, without
    times.
    """
    told = run_tool(
        DUMP, "--offsets-decoder", "--print-data-log", "--files", ",".join(map(str, logs))
    )
    found = re.findall(r"key: (\{.*?\}) payload: ?(\{.*\}|<DELETE>)$", told, re.M)
    return [
        [json.loads(key), None if value == "<DELETE>" else without_times(json.loads(value))]
        for key, value in found
        if json.loads(key)["data"]["group"] == GROUP
    ]


def without_times(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {
            name: "<now>" if name.lower().endswith("timestamp") else without_times(value)
            for name, value in tree.items()
        }
    return [without_times(each) for each in tree] if isinstance(tree, list) else tree


def what_groups_do(peer: Peer) -> None:
    """Commit by name and id, as a member, with a retention time; join; delete offsets."""
    coordinator_found(peer)
    ids = {"written": peer.new_topic("written", 2)}
    peer.ask(committing(GROUP, {"written": [(0, 5, 3, "told"), (1, 7, -1, None)]}), 9)
    peer.ask(committing(GROUP, {"written": [(0, 6, -1, "by id")]}, ids=ids), 10)
    peer.ask(committing(GROUP, {"written": [(1, 8, -1, "")]}, retention_ms=3_600_000), 2)
    peer.ask(deleting(GROUP, {"written": [1]}), 0)
    member = peer.ask(joining(GROUP, instance="i"), JOIN).member_id
    peer.ask(syncing(GROUP, 1, member, {member: b"\0\1all"}, instance="i"), SYNC)
    offsets = {"written": [(0, 9, 0, "as a member")]}
    said: dict[str, Any] = {"generation": 1, "member": member, "instance": "i"}
    peer.ask(committing(GROUP, offsets, **said), 8)  # type: ignore[arg-type]


def test_our_offsets_log_has_the_records_that_kafka_writes(
    ours: Broker, kafka: ApacheKafka, run_tool: RunTool
) -> None:
    versions = served_versions(kafka.port)
    peers = Peer("odradek", ours.port, versions), Peer("kafka", kafka.port, versions)
    for peer in peers:
        peer.delete_all_topics()
        what_groups_do(peer)
        peer.end()
    found = records_of(run_tool, log_of_groups(ours))
    expected = records_of(
        run_tool, sorted((kafka.data_dir / f"{CONSUMER_OFFSETS}-0").glob("*.log"))
    )
    assert [row[0] for row in found] == [row[0] for row in expected]
    for ours_row, kafka_row in zip(found, expected, strict=True):
        assert masked(ours_row) == masked(kafka_row)
    assert len(found) == 7


def masked(row: Any) -> Any:
    """Replace the ids drawn by each broker, and the client's host."""
    text = json.dumps(row)
    text = re.sub(r"i-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<member>", text)
    text = re.sub(r'"topicId": "(?!A{22})[^"]*"', '"topicId": "<id>"', text)
    return re.sub(r'"clientHost": "[^"]*"', '"clientHost": "<host>"', text)


@pytest.fixture
def groups(ours: Broker, run_tool: RunTool) -> Callable[..., str]:
    """`groups(*arguments)`, which returns the output of kafka-consumer-groups."""

    def run(*arguments: str, check: bool = True) -> str:
        return run_tool(GROUPS, "--bootstrap-server", ours.bootstrap, *arguments, check=check)

    return run


def rows(told: str) -> list[list[str]]:
    """Return the columns of each line of a description."""
    lines = [line.split() for line in told.splitlines() if line.strip()]
    return [line for line in lines if line[0] not in ("GROUP", "Consumer", "Topic", "TOPIC")]


def filled(ours: Broker, topic: str, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": ours.bootstrap})
    with_partitions = Peer("setup", ours.port, {})
    with_partitions.new_topic(topic, partitions)
    with_partitions.close()
    for number in range(20):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(30) == 0


def commit(ours: Broker, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": ours.bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def test_kafka_consumer_groups_describes_resets_and_deletes_offsets(
    ours: Broker, groups: Callable[..., str]
) -> None:
    filled(ours, "java-lag")
    commit(ours, "java-lag-group", "java-lag", {0: 4, 1: 10})
    assert "java-lag-group" in groups("--list").split()
    named = ("--group", "java-lag-group")
    told = rows(groups("--describe", *named))
    assert [row[1:6] for row in told] == [
        ["java-lag", "0", "4", "10", "6"],
        ["java-lag", "1", "10", "10", "0"],
    ]
    assert "Empty" in groups("--describe", "--state", *named)
    reset = ("--reset-offsets", *named, "--topic", "java-lag", "--execute")
    groups(*reset, "--shift-by", "-3")
    assert [row[3] for row in rows(groups("--describe", *named))] == ["1", "7"]
    groups(*reset, "--to-latest")
    assert [row[5] for row in rows(groups("--describe", *named))] == ["0", "0"]
    output = groups("--delete-offsets", *named, "--topic", "java-lag:0")
    assert "Successful" in output
    assert [row[2] for row in rows(groups("--describe", *named))] == ["1"]
    groups("--delete", *named)
    assert "java-lag-group" not in groups("--list").split()


def test_offsets_of_a_topic_with_a_reading_member_are_not_deleted(
    ours: Broker, groups: Callable[..., str]
) -> None:
    filled(ours, "java-read", 1)
    consumer = Consumer(
        {
            "bootstrap.servers": ours.bootstrap,
            "group.id": "java-readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["java-read"])
    message = consumer.poll(60)
    assert message is not None and message.error() is None
    consumer.commit(message=message, asynchronous=False)
    named = ("--group", "java-readers")
    told = rows(groups("--describe", *named))
    assert told[0][1:6] == ["java-read", "0", "1", "20", "19"]
    assert told[0][6].startswith("rdkafka-")
    refused = groups("--delete-offsets", *named, "--topic", "java-read", check=False)
    assert "GroupSubscribedToTopicException" in refused or "subscribed" in refused, refused
    refused = groups("--reset-offsets", *named, "--all-topics", "--to-earliest", "--execute")
    assert "inactive" in refused, refused
    consumer.close()
    groups("--delete-offsets", *named, "--topic", "java-read")
    peer = Peer("look", ours.port, served_versions(ours.port))
    answer = peer.ask(fetching(9, {"java-readers": None}), 9)
    assert answer.groups[0].topics == []
    peer.close()
