"""Kafka's own Java tools with this broker: topics, settings, producing, consuming, offsets.

The Java consumer reads without a group: the console consumer with a partition, and our own class
`AssignedConsumer.java` in place of the perf tool, which needs groups.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

RunTool = Callable[..., str]
TOOLS = "org.apache.kafka.tools"
ASSIGNED_CONSUMER = str(Path(__file__).with_name("AssignedConsumer.java"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def topics(ours: Broker, run_tool: RunTool) -> Callable[..., str]:
    """`topics(*arguments)`, which returns the output of kafka-topics."""

    def run(*arguments: str) -> str:
        return run_tool(f"{TOOLS}.TopicCommand", "--bootstrap-server", ours.bootstrap, *arguments)

    return run


def test_kafka_topics_creates_alters_lists_and_deletes_topics(topics: Callable[..., str]) -> None:
    name = "java-topics"
    topics("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=100000")
    topics("--alter", "--topic", name, "--partitions", "3")
    described = topics("--describe", "--topic", name)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s", described)
    assert "retention.ms=100000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 3
    assert name in topics("--list").split()
    topics("--delete", "--topic", name)
    assert name not in topics("--list").split()


def test_kafka_configs_alters_and_describes_settings(
    ours: Broker, run_tool: RunTool, topics: Callable[..., str]
) -> None:
    def configs(*arguments: str) -> str:
        return run_tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", ours.bootstrap, *arguments
        )

    topics("--create", "--topic", "java-configs")
    topic = ("--entity-type", "topics", "--entity-name", "java-configs")
    configs("--alter", *topic, "--add-config", "retention.ms=200000,max.message.bytes=5000")
    configs("--alter", *topic, "--delete-config", "max.message.bytes")
    described = configs("--describe", *topic)
    assert "retention.ms=200000" in described
    assert "max.message.bytes" not in described
    everything = configs("--describe", "--all", *topic)
    assert "max.message.bytes=1048588" in everything
    broker = configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert "log.retention.hours=168" in broker


def test_a_java_consumer_reads_all_records_of_the_perf_tool(
    ours: Broker, run_tool: RunTool, topics: Callable[..., str]
) -> None:
    name, count, size = "java-perf", 50_000, 200
    topics("--create", "--topic", name, "--partitions", "2")
    told = run_tool(
        f"{TOOLS}.ProducerPerformance",
        *("--bootstrap-server", ours.bootstrap, "--topic", name),
        *("--num-records", str(count), "--record-size", str(size), "--throughput", "-1"),
        *("--command-property", "acks=all", "compression.type=lz4"),
    )
    assert f"{count} records sent" in told
    offsets = run_tool(
        f"{TOOLS}.GetOffsetShell", "--bootstrap-server", ours.bootstrap, "--topic", name
    )
    ends = [int(line.rpartition(":")[2]) for line in sorted(offsets.split())]
    assert sum(ends) == count
    read = run_tool(ASSIGNED_CONSUMER, ours.bootstrap, name, "2", str(count), "read_committed")
    assert read.startswith(f"{count} records {count * size} bytes {ends[0]} {ends[1]} ")


@pytest.mark.parametrize("codec", CODECS)
def test_a_java_consumer_reads_every_codec_of_librdkafka(
    ours: Broker, run_tool: RunTool, codec: str
) -> None:
    name = f"java-codec-{codec}"
    values = [f"{number}-{'abcdefgh' * (number % 50)}".encode() for number in range(2_000)]
    producer = Producer({"bootstrap.servers": ours.bootstrap, "compression.type": codec})
    for value in values:
        producer.produce(name, value, partition=0)
    assert producer.flush(20) == 0
    read = run_tool(
        ASSIGNED_CONSUMER, ours.bootstrap, name, "1", str(len(values)), "read_uncommitted"
    )
    assert read.split()[-1] == str(zlib.crc32(b"".join(values)))


def test_the_console_consumer_prints_the_console_producers_records(
    ours: Broker, run_tool: RunTool
) -> None:
    server = ("--bootstrap-server", ours.bootstrap, "--topic", "java-console")
    run_tool(
        f"{TOOLS}.ConsoleProducer",
        *server,
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        stdin="a:1\nb:2\nc:\n",
    )
    read = run_tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *server,
        *("--partition", "0", "--offset", "earliest", "--max-messages", "3"),
        *("--timeout-ms", "20000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"),
    )
    assert read.splitlines() == ["Offset:0\ta\t1", "Offset:1\tb\t2", "Offset:2\tc\t"]


def test_tools_delete_records_and_print_sizes_and_offsets(
    ours: Broker, run_tool: RunTool, tmp_path: Path
) -> None:
    name = "java-trimmed"
    producer = Producer({"bootstrap.servers": ours.bootstrap})
    for _ in range(3):
        for number in range(10):
            producer.produce(name, str(number), partition=0, timestamp=1000 + number)
        assert producer.flush(20) == 0
    request = tmp_path / "delete.json"
    partition = {"topic": name, "partition": 0, "offset": 12}
    request.write_text(json.dumps({"partitions": [partition], "version": 1}))
    server = ("--bootstrap-server", ours.bootstrap)
    deleted = run_tool(f"{TOOLS}.DeleteRecordsCommand", *server, "--offset-json-file", str(request))
    assert f"partition: {name}-0\tlow_watermark: 12" in deleted
    told = [
        run_tool(f"{TOOLS}.GetOffsetShell", *server, "--topic", name, "--time", time).strip()
        for time in ("earliest", "latest", "max-timestamp")
    ]
    assert told == [f"{name}:0:12", f"{name}:0:30", f"{name}:0:9"]
    sizes = run_tool(f"{TOOLS}.LogDirsCommand", *server, "--describe", "--topic-list", name)
    listed = json.loads(next(line for line in sizes.splitlines() if line.startswith("{")))
    log_dir = listed["brokers"][0]["logDirs"][0]
    assert log_dir["error"] is None
    assert [row["partition"] for row in log_dir["partitions"]] == [f"{name}-0"]
    assert log_dir["partitions"][0]["size"] > 0


def test_kafka_broker_api_versions_reads_the_served_versions(
    ours: Broker, run_tool: RunTool
) -> None:
    told = run_tool(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", ours.bootstrap)
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", told)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", told)
    assert re.search(r"JoinGroup\(11\): 0 to 9 \[usable: 9\]", told)
    assert re.search(r"AddPartitionsToTxn\(24\): 0 to 5 \[usable: 5\]", told)
