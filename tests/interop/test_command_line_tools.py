"""Kafka's own command line tools print the same and end alike with this broker and a real Kafka.

Each script is a list of runs of one tool. Both brokers get the same runs in the same order; exit
codes and output are compared line by line, after what must differ was replaced (`PLACES`). A run
whose output differs for a known reason is in `KNOWN`; its exit code is compared nevertheless,
unless the run is in `OTHER_EXIT_CODES`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from interop.apache_kafka import ApacheKafka
from interop.tool_runner import ToolRun, ToolRunner
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
}
FILES: dict[str, object] = {
    "hasty.properties": "default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n",
    "offsets.csv": "tools-a,0,1\ntools-a,1,3\n",
    "one.json": {"partitions": [{"topic": "tools-a", "partition": 0}]},
    "unknown.json": {"partitions": [{"topic": "tools-none", "partition": 0}]},
    "topics.json": {"topics": [{"topic": "tools-a"}], "version": 1},
    "here.json": {
        "version": 1,
        "partitions": [{"topic": "tools-a", "partition": 0, "replicas": [1]}],
    },
    "elsewhere.json": {
        "version": 1,
        "partitions": [{"topic": "tools-a", "partition": 0, "replicas": [77]}],
    },
}
A, GROUP = ("--topic", "tools-a"), ("--group", "tools-group")
TOPIC_S = ("--entity-type", "topics", "--entity-name", "tools-settings")
TWO_SETTINGS = "retention.ms=200000,cleanup.policy=[compact,delete]"
BROKER, BROKERS = ("--broker", "1"), ("--broker-defaults",)
READER = ("--allow-principal", "User:ada", "--operation", "Read", "--topic", "tools-a")
SHORT_API_TIMEOUT = ("--command-config", "hasty.properties")
"""The tool waits for a broker that does not exist, as long as its settings say."""
PREFERRED, UNCLEAN = ("--election-type", "preferred"), ("--election-type", "unclean")

SCRIPTS: dict[str, list[tuple[str, ...]]] = {
    "kafka-topics": [
        ("--create", "--topic", "tools-b", "--partitions", "3", "--config", "retention.ms=5000"),
        ("--create", "--topic", "tools-b"),
        ("--create", "--topic", "tools-b", "--if-not-exists"),
        ("--create", "--topic", "tools-c", "--replication-factor", "2"),
        ("--create", "--topic", "tools-c", "--config", "retention.ms=soon"),
        ("--create", "--topic", "tools-c", "--replica-assignment", "1,1"),
        ("--create", "--topic", "bad name"),
        ("--list",),
        ("--list", "--exclude-internal"),
        ("--describe",),
        ("--describe", "--topic", "tools-b"),
        ("--describe", "--topic", "tools-none"),
        ("--describe", "--topic", "tools-none", "--if-exists"),
        ("--describe", "--topics-with-overrides"),
        ("--describe", "--under-replicated-partitions"),
        ("--describe", "--unavailable-partitions"),
        ("--describe", "--under-min-isr-partitions"),
        ("--describe", "--at-min-isr-partitions"),
        ("--alter", "--topic", "tools-b", "--partitions", "4"),
        ("--alter", "--topic", "tools-b", "--partitions", "2"),
        ("--alter", "--topic", "tools-none", "--partitions", "2"),
        ("--delete", "--topic", "tools-[bc]"),
        ("--delete", "--topic", "tools-none"),
        ("--delete", "--topic", "tools-none", "--if-exists"),
        ("--create",),
    ],
    "kafka-configs": [
        ("--alter", *TOPIC_S, "--add-config", TWO_SETTINGS),
        ("--describe", *TOPIC_S),
        ("--describe", "--all", *TOPIC_S),
        ("--alter", *TOPIC_S, "--delete-config", "retention.ms"),
        ("--alter", *TOPIC_S, "--delete-config", "retention.ms"),
        ("--alter", *TOPIC_S, "--add-config", "no.such.setting=1"),
        ("--alter", *TOPIC_S, "--add-config", "retention.ms=soon"),
        ("--alter", "--topic", "tools-none", "--add-config", "retention.ms=1"),
        ("--describe", "--topic", "tools-none"),
        ("--describe", "--entity-type", "topics"),
        ("--alter", *BROKER, "--add-config", "log.cleaner.threads=2,message.max.bytes=2000000"),
        ("--describe", *BROKER),
        ("--describe", "--all", *BROKER),
        ("--alter", *BROKER, "--delete-config", "log.cleaner.threads,message.max.bytes"),
        ("--describe", *BROKER),
        ("--alter", *BROKER, "--add-config", "sasl.kerberos.min.time.before.relogin=1000"),
        ("--alter", *BROKER, "--delete-config", "sasl.kerberos.min.time.before.relogin"),
        ("--alter", *BROKER, "--add-config", "node.id=5"),
        ("--alter", *BROKER, "--add-config", "min.insync.replicas=2"),
        ("--alter", *BROKERS, "--add-config", "max.connections=1000"),
        ("--describe", *BROKERS),
        ("--alter", *BROKERS, "--delete-config", "max.connections"),
        ("--alter", *BROKERS, "--delete-config", "min.insync.replicas"),
        ("--describe", "--entity-type", "brokers"),
        ("--describe", "--broker", "77"),
        ("--alter", *GROUP, "--add-config", "consumer.session.timeout.ms=50000"),
        ("--describe", *GROUP),
        ("--describe", "--all", *GROUP),
        ("--describe", "--entity-type", "groups"),
        ("--alter", *GROUP, "--add-config", "consumer.session.timeout.ms=5"),
        ("--alter", *GROUP, "--delete-config", "consumer.session.timeout.ms"),
        ("--alter", "--client-metrics", "m", "--add-config", "metrics=[a,b],interval.ms=1000"),
        ("--describe", "--client-metrics", "m"),
        ("--describe", "--entity-type", "client-metrics"),
        ("--alter", "--client-metrics", "m", "--add-config", "interval.ms=1"),
        ("--alter", "--client-metrics", "m", "--delete-config", "metrics,interval.ms"),
        ("--describe", "--user", "ada"),
        ("--describe", "--entity-type", "users"),
        ("--describe", "--entity-type", "clients"),
        ("--describe", "--client", "c"),
        ("--describe", "--entity-type", "ips"),
        ("--describe",),
    ],
    "kafka-consumer-groups": [
        (*GROUP, "--reset-offsets", "--to-earliest", *A, "--dry-run"),
        (*GROUP, "--reset-offsets", "--to-offset", "2", *A, "--execute"),
        ("--list",),
        ("--list", "--state"),
        ("--list", "--state", "Stable"),
        ("--list", "--type"),
        ("--describe", *GROUP),
        ("--describe", *GROUP, "--offsets"),
        ("--describe", *GROUP, "--members"),
        ("--describe", *GROUP, "--members", "--verbose"),
        ("--describe", *GROUP, "--state"),
        ("--describe", "--all-groups"),
        ("--describe", "--group", "tools-none"),
        (*GROUP, "--reset-offsets", "--shift-by", "-1", *A, "--execute"),
        (*GROUP, "--reset-offsets", "--to-latest", "--all-topics", "--execute"),
        (*GROUP, "--reset-offsets", "--to-datetime", "2020-01-01T00:00:00.000", *A, "--execute"),
        (*GROUP, "--reset-offsets", "--by-duration", "PT1H", *A, "--execute"),
        (*GROUP, "--reset-offsets", "--to-current", *A, "--export", "--dry-run"),
        (*GROUP, "--reset-offsets", "--to-offset", "2", "--topic", "tools-none", "--execute"),
        (*GROUP, "--reset-offsets", "--from-file", "offsets.csv", "--dry-run"),
        (*GROUP, "--reset-offsets", "--from-file", "offsets.csv", "--execute"),
        ("--validate-regex", "tools-.*"),
        ("--validate-regex", "tools-["),
        (*GROUP, "--delete-offsets", "--topic", "tools-a:1"),
        (*GROUP, "--delete-offsets", "--topic", "tools-none"),
        ("--describe", *GROUP),
        ("--delete", *GROUP),
        ("--delete", *GROUP),
        ("--delete", "--group", "tools-none"),
        ("--list",),
        ("--describe",),
    ],
    "kafka-get-offsets": [
        A,
        (*A, "--time", "earliest"),
        (*A, "--time", "max-timestamp"),
        (*A, "--time", "1003"),
        (*A, "--partitions", "1"),
        (*A, "--partitions", "7"),
        ("--topic-partitions", "tools-a:0,tools-.*:1-"),
        ("--topic", "tools-none"),
        ("--topic", "tools-.*", "--exclude-internal-topics"),
        (*A, "--time", "earliest-local"),
        (*A, "--time", "latest-tiered"),
        (*A, "--time", "whenever"),
    ],
    "kafka-log-dirs": [
        ("--describe", "--topic-list", "tools-a"),
        ("--describe", "--topic-list", "tools-a", "--broker-list", "1"),
        ("--describe", "--topic-list", "tools-none"),
        ("--describe", "--broker-list", "77"),
        ("--describe", "--broker-list", "one"),
        (),
    ],
    "kafka-broker-api-versions": [()],
    "kafka-leader-election": [
        (*PREFERRED, *A, "--partition", "0"),
        (*PREFERRED, "--all-topic-partitions"),
        (*PREFERRED, "--path-to-json-file", "one.json"),
        (*PREFERRED, "--path-to-json-file", "unknown.json"),
        (*PREFERRED, *A, "--partition", "9"),
        (*UNCLEAN, *A, "--partition", "0"),
        (*UNCLEAN, "--all-topic-partitions"),
        A,
    ],
    "kafka-metadata-quorum": [
        ("describe", "--status"),
        ("describe", "--replication"),
        ("describe", "--replication", "--human-readable"),
        ("describe",),
        ("add-controller",),
    ],
    "kafka-reassign-partitions": [
        ("--generate", "--topics-to-move-json-file", "topics.json", "--broker-list", "1"),
        (
            "--generate",
            "--topics-to-move-json-file",
            "topics.json",
            "--broker-list",
            "77",
            *SHORT_API_TIMEOUT,
        ),
        ("--execute", "--reassignment-json-file", "here.json"),
        ("--verify", "--reassignment-json-file", "here.json"),
        ("--execute", "--reassignment-json-file", "here.json", "--throttle", "1000"),
        ("--verify", "--reassignment-json-file", "here.json"),
        ("--execute", "--reassignment-json-file", "elsewhere.json", *SHORT_API_TIMEOUT),
        ("--verify", "--reassignment-json-file", "elsewhere.json", *SHORT_API_TIMEOUT),
        ("--cancel", "--reassignment-json-file", "here.json"),
        ("--list",),
    ],
    "kafka-features": [
        ("describe",),
        ("upgrade", "--feature", "metadata.version=30", "--dry-run"),
        ("upgrade", "--feature", "metadata.version=99"),
        ("downgrade", "--feature", "metadata.version=29"),
        ("downgrade", "--feature", "metadata.version=1", "--unsafe"),
        ("upgrade", "--feature", "no.such.feature=1"),
        ("disable", "--feature", "no.such.feature"),
        ("version-mapping",),
        ("feature-dependencies", "--feature", "metadata.version=30"),
    ],
    "kafka-cluster": [
        ("cluster-id",),
        ("list-endpoints",),
        ("list-endpoints", "--include-fenced-brokers"),
        ("unregister", "--id", "77"),
    ],
    "kafka-acls": [
        ("--list",),
        ("--list", *A),
        ("--add", *READER),
        ("--remove", "--force", *READER),
        ("--add",),
    ],
}
ID = r"[A-Za-z0-9_-]{22}"
PLACES: tuple[tuple[str, str], ...] = (
    (r"127\.0\.0\.1:[0-9]+", "<server>"),
    (r"(?<=127\.0\.0\.1)( +)[0-9]{4,5}\b", r"\1<port>"),
    (rf"(TopicId: |directoryId\": ?\"|Cluster ID: |ClusterId: +){ID}", r"\1<id>"),
    (r"\"logDir\":\"[^\"]*\"", '"logDir":"<dir>"'),
    (r"\"log_dirs\":\[\"/[^\]]*\"\]", '"log_dirs":["<dir>"]'),
    (r"(CLUSTER|CONTROLLER|PLAINTEXT)://<server>", "<listener>"),
    (r"(LeaderId: +|Local controller )[0-9]+", r"\1<n>"),
    (r"adminclient-[0-9]+", "<client>"),
    (r"(LeaderEpoch|HighWatermark|LastFetchTimestamp|LastCaughtUpTimestamp): +[0-9]+", r"\1: <n>"),
    (r"(MaxFollowerLagTimeMs|MaxFollowerLag): +[0-9]+", r"\1: <n>"),
    (rf"^([0-9]+\s+){ID}\s+[0-9]+.*$", r"\1<replica>"),
    (r"Epoch: [0-9]+", "Epoch: <n>"),
    (r"(deadlineMs|tries|nextAllowedTryMs)=-?[0-9]+|[0-9]+ attempt\(s\)", "<n>"),
)
WORDING = "The same error in this broker's words."
FEWER_FEATURES = "Kafka reads older metadata versions too, and has features of what is not here."
NOT_SERVED = "Kafka lists requests and settings of what is not here."
KNOWN: dict[str, str] = {
    "kafka-topics --create --topic tools-c --replication-factor 2": WORDING,
    "kafka-topics --create --topic bad name": WORDING,
    "kafka-configs --alter --broker 1 --add-config node.id=5": WORDING,
    "kafka-configs --alter --broker 1 --add-config min.insync.replicas=2": WORDING,
    "kafka-configs --alter --broker-defaults --delete-config min.insync.replicas": WORDING,
    "kafka-configs --alter --group tools-group --add-config consumer.session.timeout.ms=5": WORDING,
    "kafka-configs --describe --all --broker 1": NOT_SERVED,
    "kafka-broker-api-versions": NOT_SERVED,
    "kafka-features describe": FEWER_FEATURES,
    "kafka-features upgrade --feature metadata.version=99": FEWER_FEATURES,
    "kafka-features downgrade --feature metadata.version=29": FEWER_FEATURES,
    "kafka-features downgrade --feature metadata.version=1 --unsafe": FEWER_FEATURES,
}
"""Runs whose output differs, and why."""
OTHER_EXIT_CODES: dict[str, str] = {}
"""Runs that end otherwise, and why."""
REASONS = {**KNOWN, **OTHER_EXIT_CODES}


def readable(text: str) -> list[str]:
    """Return the lines of an output without traces, and without what differs by its nature."""
    lines = (line.rstrip() for line in text.splitlines())
    kept = [line for line in lines if line and not line.lstrip().startswith(("at ", "... "))]
    for pattern, name in PLACES:
        kept = [re.sub(pattern, name, line) for line in kept]
    return sorted(kept)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the files that some tools read."""
    directory = tmp_path_factory.mktemp("tools")
    for name, content in FILES.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / name).write_text(text)
    return directory


@pytest.fixture(scope="module")
def servers(ours: Broker, kafka: ApacheKafka, tools: ToolRunner) -> tuple[str, str]:
    """Both brokers, each with the topics `tools-a`, which has five records in each partition, and
    `tools-settings`.
    """
    both = (ours.bootstrap, kafka.bootstrap)
    for server in both:
        topics = (TOOLS["kafka-topics"], "--bootstrap-server", server)
        listed = tools.run(*topics, "--list", "--exclude-internal").out.split()
        for topic in listed:
            assert tools.run(*topics, "--delete", "--topic", re.escape(topic)).code == 0
        groups = (TOOLS["kafka-consumer-groups"], "--bootstrap-server", server)
        tools.run(*groups, "--delete", "--all-groups")
        for topic in ("tools-a", "tools-settings"):
            new = ("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=-1")
            created = tools.run(*topics, *new)
            assert created.code == 0, created
        producer = Producer({"bootstrap.servers": server})
        for number in range(5):
            for partition in (0, 1):
                producer.produce("tools-a", b"value", partition=partition, timestamp=1000 + number)
            assert producer.flush(20) == 0
    return both


def run(tools: ToolRunner, files: Path, tool: str, server: str, words: tuple[str, ...]) -> ToolRun:
    """Run a tool with the arguments of a script."""
    given = [str(files / word) if word in FILES else word for word in words]
    address = ("--bootstrap-server", server)
    if tool == "kafka-cluster" and given:
        return tools.run(TOOLS[tool], given[0], *address, *given[1:])
    return tools.run(TOOLS[tool], *address, *given)


@pytest.mark.parametrize("tool", SCRIPTS)
def test_a_tool_prints_the_same_with_both_brokers(
    tool: str, tools: ToolRunner, files: Path, servers: tuple[str, str]
) -> None:
    different, stale = [], []
    for words in SCRIPTS[tool]:
        with_ours, with_kafka = (run(tools, files, tool, server, words) for server in servers)
        label = " ".join((tool, *words))
        same_code = with_ours.code == with_kafka.code
        same_text = [readable(text) for text in with_ours[1:]] == [
            readable(text) for text in with_kafka[1:]
        ]
        same = (same_code or label in OTHER_EXIT_CODES) and (same_text or label in REASONS)
        if not same:
            different.append(f"{label}\n  ours  {with_ours}\n  kafka {with_kafka}")
        if same_text and label in REASONS:
            stale.append(label)
    assert not different, "\n".join(different)
    assert not stale, "known differences that no longer occur"


@pytest.mark.parametrize(
    ("setting", "request_name"),
    [
        ("producer_byte_rate=1000", "ALTER_CLIENT_QUOTAS"),
        ("SCRAM-SHA-256=[password=secret]", "ALTER_USER_SCRAM_CREDENTIALS"),
    ],
)
def test_kafka_configs_says_that_quotas_and_credentials_cannot_be_stored(
    tools: ToolRunner, ours: Broker, setting: str, request_name: str
) -> None:
    server = ("--bootstrap-server", ours.bootstrap)
    words = ("--alter", "--user", "ada", "--add-config", setting)
    ended = tools.run(TOOLS["kafka-configs"], *server, *words)
    assert ended.code == 1
    assert f"The node does not support {request_name}" in ended.err
