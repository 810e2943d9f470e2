"""Brokers fail and come back, administrators act: our decisions are those of Apache Kafka 4.3.1.

Its outcomes were recorded by `tests/interop/kafka_cluster.py`.
"""

from __future__ import annotations

import random

from odradek.broker.handlers.describe_topic_partitions import topic_response
from odradek.controller.image import NO_LEADER
from odradek.controller.leader_election import elect_everywhere, elect_leaders
from odradek.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from odradek.controller.topics import create_topics
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from unit.controller.controlled_cluster import ControlledCluster
from unit.controller.failover_script import OUTCOMES, run


class Decisions:
    """A cluster of our decisions, in which replicas come into the ISR as soon as they may."""

    def __init__(self) -> None:
        self.cluster = ControlledCluster(1, 2, 3, 4, auto_leader_rebalance_enable="false")
        self.incarnations = dict.fromkeys((1, 2, 3), 0)

    def create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        cluster = self.cluster
        decision = create_topics(cluster.image, request, cluster.config, random.Random(1))
        cluster.submit(decision.records)
        return decision.response

    def describe(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        found = [self.cluster.image.topics[topic.name] for topic in request.topics]
        return DescribeTopicPartitionsResponse(
            topics=[
                topic_response(self.cluster.image, topic, 0, len(topic.partitions))
                for topic in found
            ]
        )

    def elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        cluster = self.cluster
        if request.topic_partitions is not None:
            decision = elect_leaders(cluster.image, request, cluster.config)
            cluster.submit(decision.records)
            self._catch_up()
            return decision.response
        response = cluster.run(elect_everywhere(cluster.image, request, lambda: cluster.config))
        self._catch_up()
        return response

    def reassign(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        cluster = self.cluster
        decision = alter_partition_reassignments(cluster.image, request, cluster.config)
        cluster.submit(decision.records)
        self._catch_up()
        return decision.response

    def ongoing(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return list_partition_reassignments(self.cluster.image, request)

    def kill(self, broker_id: int) -> None:
        self.cluster.control.disconnected(broker_id, self.cluster.now_ms)
        self.cluster.wait(1_000)
        self._catch_up()

    def stop(self, broker_id: int) -> None:
        while not self.cluster.beat(broker_id, stop=True).should_shut_down:
            self.cluster.run_due_steps()
            self._catch_up()
        self.cluster.run_due_steps()
        self._catch_up()
        self.clean = broker_id

    def start(self, broker_id: int) -> None:
        self.incarnations[broker_id] += 1
        was_clean = getattr(self, "clean", None) == broker_id
        previous = self.cluster.processes[broker_id].epoch if was_clean else -1
        error = self.cluster.register(
            broker_id, incarnation=self.incarnations[broker_id], previous_epoch=previous
        )
        assert error == 0
        self.cluster.beat(broker_id)
        self.cluster.run_due_steps()
        self._catch_up()

    def _catch_up(self) -> None:
        """Let every active replica come into its ISR, and every broker replay the metadata."""
        cluster = self.cluster
        for broker in list(cluster.image.brokers.values()):
            if broker.active:
                cluster.beat(broker.id)
        for topic in cluster.image.topics.values():
            for number, partition in topic.partitions.items():
                isr = [
                    each
                    for each in partition.replicas
                    if each in cluster.image.brokers and cluster.image.brokers[each].active
                ]
                if partition.leader != NO_LEADER and set(isr) != set(partition.isr):
                    cluster.alter(cluster.alteration(isr, topic.name, number))


def test_brokers_that_fail_and_return_leave_what_they_leave_in_kafka() -> None:
    assert run(Decisions()) == OUTCOMES.read_text(encoding="utf-8")
