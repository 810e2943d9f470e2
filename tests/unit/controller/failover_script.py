"""One script for a cluster of three brokers: they fail and come back, administrators act.

It runs on our decisions (`test_failover_like_kafka`) and on a real Apache Kafka
(`tests/interop/kafka_cluster.py`), whose outcomes are in `failover_of_kafka.txt`. An outcome is the
partitions after a step, or the errors of an answer. Numbers of replicas are sorted, since the order
in which replicas come into an ISR depends on time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from odradek.protocol.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from unit.controller.cluster_making import a_topic

OUTCOMES = Path(__file__).with_name("failover_of_kafka.txt")
PREFERRED, UNCLEAN = 0, 1
TOPICS = ("t", "u", "v", "none")
"""Others have replicas by chance."""
STEPS = """\
describe t u v
elect preferred t 0 1
elect unclean t 0
elect preferred none 0
reassign t 0 to 9
reassign t 0 to 1,1
reassign t 0 to nothing
reassign t 7 to 1,2
reassign t 0 to 1,2 with the same factor
cancel t 0
kill 1
describe t u v
elect preferred t 0 1
elect unclean v 0
create w of 3 replicas
create x of 5 replicas
create y on 1
reassign v 0 to 2
ongoing
describe v
cancel v 0
ongoing
reassign t 2 to 2,3
describe t
reassign t 2 to 3,2
describe t
kill 2
describe t u v
start 1
describe t u v
elect preferred t 0 1 2
describe t
stop 3
describe t u v
kill 1
describe t u v
elect unclean t 0 1 2
start 3
describe t u v
start 1
describe t u v
elect unclean u 0
describe u
start 2
describe t u v
elect preferred of all
describe t u v
"""


class FailoverPeer(Protocol):
    """A cluster with brokers 1 to 3 and another one that is always there and answers."""

    def create(self, request: CreateTopicsRequest) -> CreateTopicsResponse: ...
    def describe(
        self, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsResponse: ...
    def elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse: ...
    def reassign(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse: ...
    def ongoing(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse: ...

    def kill(self, broker_id: int) -> None:
        """Kill a broker; return when no step is due."""

    def stop(self, broker_id: int) -> None:
        """Stop a broker in order; return when no step is due."""

    def start(self, broker_id: int) -> None:
        """Start a broker again; return when it is in all ISRs into which it may come."""


def run(peer: FailoverPeer) -> str:
    """Run the script; return its steps with their outcomes, one a line, indented."""
    two = {"min.insync.replicas": "2"}
    topics = [
        a_topic("t", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}, configs={**two}),
        a_topic("u", assignments={0: [1, 2]}),
        a_topic("v", assignments={0: [1]}),
    ]
    created = peer.create(CreateTopicsRequest(topics=topics))
    assert {topic.error_code for topic in created.topics} == {0}
    lines = []
    for step in STEPS.splitlines():
        lines.append(step)
        lines += [f"    {outcome}" for outcome in _outcomes(peer, step.split())]
    return "".join(f"{line}\n" for line in lines)


def _outcomes(peer: FailoverPeer, words: list[str]) -> Iterator[str]:
    command, *rest = words
    if command == "describe":
        yield from describe(peer, rest)
    elif command == "elect":
        yield from _elect(peer, rest)
    elif command in ("reassign", "cancel"):
        yield _reassign(peer, rest)
    elif command == "ongoing":
        response = peer.ongoing(ListPartitionReassignmentsRequest())
        for topic in response.topics:
            for each in topic.partitions:
                yield (
                    f"{topic.name}-{each.partition_index}: {each.replicas}, "
                    f"adding {each.adding_replicas}, removing {each.removing_replicas}"
                )
    elif command == "create":
        wanted = a_topic(rest[0], 2, int(rest[2]))
        if rest[1] == "on":
            wanted = a_topic(rest[0], assignments={0: [int(rest[2])]})
        (result,) = peer.create(CreateTopicsRequest(topics=[wanted])).topics
        yield ErrorCode(result.error_code).name
    else:
        action = {"kill": peer.kill, "stop": peer.stop, "start": peer.start}[command]
        action(int(rest[0]))


def describe(peer: FailoverPeer, names: list[str]) -> Iterator[str]:
    """Yield a line for each partition of the topics."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=100
    )
    for topic in sorted(peer.describe(request).topics, key=lambda topic: topic.name or ""):
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            yield (
                f"{topic.name}-{each.partition_index}: {ErrorCode(each.error_code).name}, "
                f"leader {each.leader_id} in epoch {each.leader_epoch}, "
                f"replicas {each.replica_nodes}, isr {sorted(each.isr_nodes)}, "
                f"elr {sorted(each.eligible_leader_replicas or [])}, "
                f"last known {each.last_known_elr or []}, "
                f"offline {sorted(each.offline_replicas)}"
            )


def _elect(peer: FailoverPeer, words: list[str]) -> Iterator[str]:
    kind, name, *numbers = words
    named = None
    if name != "of":
        named = [TopicPartitions(topic=name, partitions=[int(number) for number in numbers])]
    response = peer.elect(
        ElectLeadersRequest(
            election_type=PREFERRED if kind == "preferred" else UNCLEAN,
            topic_partitions=named,
        )
    )
    yield ErrorCode(response.error_code).name
    for topic in sorted(response.replica_election_results, key=lambda topic: topic.topic):
        if topic.topic not in TOPICS:
            continue
        for each in sorted(topic.partition_result, key=lambda each: each.partition_id):
            yield f"{topic.topic}-{each.partition_id}: {ErrorCode(each.error_code).name}"


def _reassign(peer: FailoverPeer, words: list[str]) -> str:
    name, number = words[0], int(words[1])
    replicas = None
    if len(words) > 3:
        replicas = [] if words[3] == "nothing" else [int(each) for each in words[3].split(",")]
    target = ReassignablePartition(partition_index=number, replicas=replicas)
    response = peer.reassign(
        AlterPartitionReassignmentsRequest(
            allow_replication_factor_change="factor" not in words,
            topics=[ReassignableTopic(name=name, partitions=[target])],
        )
    )
    return ErrorCode(response.responses[0].partitions[0].error_code).name
