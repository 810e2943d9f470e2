"""Three nodes answer as three nodes of Apache Kafka do, by field, and Kafka's tools see no more.

The requests go to node 1 of both clusters, which is the active controller or is not. The tools get
the same runs with both; their output is compared as in `test_command_line_tools`.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.processes import Up, data_dir
from interop.apache_kafka_cluster import SETTINGS, ApacheKafkaCluster
from interop.differential.comparing import Deviation, compare, unknown, unused
from interop.differential.peer import Peer, common_versions
from interop.differential.scripts import three_nodes
from interop.test_command_line_tools import FEWER_FEATURES, TOOLS, WORDING, readable
from interop.tool_runner import ToolRunner
from odradek import Admin
from odradek.client.admin.results import Quorum
from odradek.model.topics import uuid_text

pytestmark = pytest.mark.interop

KNOWN: tuple[Deviation, ...] = ()
REASONS = {
    "kafka-topics --create --topic four --replication-factor 4": WORDING,
    "kafka-metadata-quorum remove-controller --controller-id 9 --controller-directory-id "
    "AAAAAAAAAAAAAAAAAAAABQ": WORDING,
    "kafka-features describe": FEWER_FEATURES,
}
"""Runs of tools whose output differs, and why."""
FILES: dict[str, object] = {
    "one.json": {"partitions": [{"topic": "tools", "partition": 0}]},
    "topics.json": {"topics": [{"topic": "tools"}], "version": 1},
    "move.json": {
        "version": 1,
        "partitions": [
            {"topic": "tools", "partition": 0, "replicas": [2, 3, 1]},
            {"topic": "tools", "partition": 1, "replicas": [3, 1]},
        ],
    },
    "grow.json": {
        "version": 1,
        "partitions": [{"topic": "tools", "partition": 1, "replicas": [1, 2, 3]}],
    },
    "wrong.json": {
        "version": 1,
        "partitions": [{"topic": "tools", "partition": 0, "replicas": [1, 77]}],
    },
}
T = ("--topic", "tools")
PREFERRED = ("--election-type", "preferred")
RUNS: tuple[tuple[str, ...], ...] = (
    ("kafka-topics", "--create", *T, "--replica-assignment", "1:2:3,2:3:1"),
    ("kafka-topics", "--create", "--topic", "four", "--replication-factor", "4"),
    ("kafka-topics", "--describe", *T),
    ("kafka-topics", "--describe", "--under-replicated-partitions"),
    ("kafka-topics", "--describe", "--unavailable-partitions"),
    ("kafka-reassign-partitions", "--execute", "--reassignment-json-file", "move.json"),
    ("kafka-reassign-partitions", "--verify", "--reassignment-json-file", "move.json"),
    ("kafka-reassign-partitions", "--list"),
    ("kafka-topics", "--describe", *T),
    ("kafka-leader-election", *PREFERRED, *T, "--partition", "0"),
    ("kafka-leader-election", *PREFERRED, "--path-to-json-file", "one.json"),
    ("kafka-leader-election", *PREFERRED, "--all-topic-partitions"),
    ("kafka-topics", "--describe", *T),
    ("kafka-reassign-partitions", "--execute", "--reassignment-json-file", "grow.json"),
    ("kafka-reassign-partitions", "--verify", "--reassignment-json-file", "grow.json"),
    ("kafka-reassign-partitions", "--execute", "--reassignment-json-file", "wrong.json"),
    ("kafka-reassign-partitions", "--cancel", "--reassignment-json-file", "grow.json"),
    ("kafka-configs", "--alter", "--broker", "2", "--add-config", "log.cleaner.threads=2"),
    ("kafka-configs", "--describe", "--broker", "2"),
    ("kafka-configs", "--describe", "--broker", "3"),
    ("kafka-configs", "--alter", "--broker", "2", "--delete-config", "log.cleaner.threads"),
    ("kafka-metadata-quorum", "describe", "--status"),
    ("kafka-metadata-quorum", "describe", "--replication"),
    (
        "kafka-metadata-quorum",
        "remove-controller",
        "--controller-id",
        "9",
        "--controller-directory-id",
        "AAAAAAAAAAAAAAAAAAAABQ",
    ),
    ("kafka-features", "describe"),
    ("kafka-features", "upgrade", "--feature", "no.such.feature=1"),
    ("kafka-cluster", "cluster-id"),
    ("kafka-cluster", "list-endpoints"),
    ("kafka-cluster", "unregister", "--id", "77"),
)
SHOWN = 30


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Three processes of `odradek up -n 3`, which join the quorum only when they are told to."""
    settings = SETTINGS | {"controller.quorum.auto.join.enable": "false"}
    given = [word for item in settings.items() for word in ("--set", "=".join(item))]
    directory = data_dir(tmp_path_factory.mktemp("three-nodes"))
    words = ("-n", "3", "--port", "0", "--http", "none", "--data-dir", directory, *given)
    with Up(*words) as running:
        yield running
        running.stop(signal.SIGTERM)


@pytest.fixture
def peers(ours: Up, three_kafkas: ApacheKafkaCluster) -> Iterator[tuple[Peer, Peer]]:
    versions = common_versions(three_kafkas.ports[1])
    port = int(ours.bootstrap.split(",")[0].rpartition(":")[2])
    both = Peer("odradek", port, versions), Peer("kafka", three_kafkas.ports[1], versions)
    for peer in both:
        peer.delete_all_topics()
    yield both
    for peer in both:
        peer.end()


@pytest.mark.parametrize("name", three_nodes.SCRIPTS)
def test_three_nodes_answer_as_three_of_kafka(name: str, peers: tuple[Peer, Peer]) -> None:
    for peer in peers:
        three_nodes.SCRIPTS[name](peer)
    differences = compare(name, peers[0].steps, peers[1].steps)
    strange = unknown(differences, KNOWN)
    shown = "\n".join(str(each)[:500] for each in strange[:SHOWN])
    assert not strange, f"{len(strange)} unknown differences:\n{shown}"
    mine = [each for each in KNOWN if each.step.startswith(f"{name}:")]
    stale = unused(differences, mine)
    assert not stale, "\n".join(f"{each.step} | {each.path}" for each in stale)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the files that some tools read."""
    directory = tmp_path_factory.mktemp("tools")
    for name, content in FILES.items():
        (directory / name).write_text(json.dumps(content))
    return directory


def test_kafkas_tools_print_the_same_with_both_clusters(
    tools: ToolRunner,
    files: Path,
    ours: Up,
    three_kafkas: ApacheKafkaCluster,
    peers: tuple[Peer, Peer],
) -> None:
    different, stale = [], []
    for number, (tool, *words) in enumerate(RUNS):
        given = [str(files / word) if word in FILES else word for word in words]
        results = []
        for server, peer in zip((ours.bootstrap, three_kafkas.bootstrap), peers, strict=True):
            address = ("--bootstrap-server", server)
            if tool == "kafka-cluster":
                results.append(tools.run(TOOLS[tool], given[0], *address, *given[1:]))
            else:
                results.append(tools.run(TOOLS[tool], *address, *given))
            three_nodes.await_in_sync(peer)
        label = " ".join((tool, *words))
        same = results[0].code == results[1].code and all(
            readable(mine) == readable(theirs)
            for mine, theirs in zip(results[0][1:], results[1][1:], strict=True)
        )
        if same and label in REASONS:
            stale.append(label)
        elif not same and label not in REASONS:
            different.append(f"{number} {label}\n  ours  {results[0]}\n  kafka {results[1]}")
    assert not different, "\n".join(different)
    assert not stale, "known differences that no longer occur"


class Voter(NamedTuple):
    """A voter of a cluster, as the tool of the quorum names it."""

    server: str
    properties: Path
    """The configuration of the node, which the tool reads when it adds it."""
    directory_id: str


def quorum_of(server: str) -> Quorum:
    with Admin(brokers=server) as admin:
        return admin.quorum()


def voter_of(server: str, node_id: int, properties: Path) -> Voter:
    """Return a voter of a cluster."""
    voters = {each.node_id: each for each in quorum_of(server).voters}
    return Voter(server, properties, uuid_text(voters[node_id].directory_id))


def write_properties(cluster: Up, node_id: int, properties: Path) -> Path:
    """Write the configuration of a node of ours as one of Kafka has it."""
    (directory,) = [each["data_dir"] for each in cluster.ready["nodes"] if each["id"] == node_id]
    ((name, address),) = quorum_of(cluster.bootstrap).listeners[node_id].items()
    lines = (
        "process.roles=broker,controller",
        f"node.id={node_id}",
        f"log.dirs={directory}",
        f"listeners={name}://{address}",
        f"controller.listener.names={name}",
    )
    properties.write_text("\n".join(lines))
    return properties


def runs_of(node: Voter, node_id: int) -> dict[str, tuple[str, ...]]:
    """Return the runs that take a voter out of the quorum and into it again, by what they do."""
    remove = ("remove-controller", "-i", str(node_id), "-d")
    add = ("--command-config", str(node.properties), "add-controller")
    return {
        "remove, dry run": (*remove, node.directory_id, "--dry-run"),
        "add a voter": add,
        "remove another directory": (*remove, "AAAAAAAAAAAAAAAAAAAABQ"),
        "remove": (*remove, node.directory_id),
        "remove again": (*remove, node.directory_id),
        "describe two": ("describe", "--status"),
        "add, dry run": (*add, "--dry-run"),
        "add": add,
        "add again": add,
        "describe three": ("describe", "--status"),
    }


REFUSED = ["add a voter", "remove another directory", "remove again", "add again"]


def error_of(text: str) -> str:
    """Return the name of the error that a tool prints; its text is in each broker's words."""
    return text.partition(": ")[0]


def voters_in(text: str) -> list[str]:
    """Return the lines of an output without the ids of directories."""
    return readable(re.sub(r"(directory id )[\w-]{22}", r"\1<id>", text))


def test_kafkas_tool_takes_a_voter_out_of_the_quorum_and_adds_it_again(
    tools: ToolRunner, tmp_path: Path, ours: Up, three_kafkas: ApacheKafkaCluster
) -> None:
    leaders = {quorum_of(each.bootstrap).leader for each in (ours, three_kafkas)}
    node_id = min({1, 2, 3} - leaders)
    written = write_properties(ours, node_id, tmp_path / "node.properties")
    nodes = (
        voter_of(ours.bootstrap, node_id, written),
        voter_of(three_kafkas.bootstrap, node_id, three_kafkas.properties_file(node_id)),
    )
    mine, theirs = (
        {
            what: tools.run(
                TOOLS["kafka-metadata-quorum"], "--bootstrap-server", node.server, *words
            )
            for what, words in runs_of(node, node_id).items()
        }
        for node in nodes
    )
    for what, own in mine.items():
        assert own.code == theirs[what].code, (what, own, theirs[what])
        assert readable(error_of(own.err)) == readable(error_of(theirs[what].err)), what
        assert voters_in(own.out) == voters_in(theirs[what].out), what
    assert [what for what, own in mine.items() if own.code] == REFUSED
