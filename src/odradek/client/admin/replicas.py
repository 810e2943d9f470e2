"""Replicas and their leaders: reassignments (KIP-455) and elections (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.admin.calls import Calls, error_of_code, raise_for_code
from odradek.client.admin.results import Reassignment
from odradek.client.errors import KafkaError
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition, numbers_by_topic
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class ReplicaCalls(Calls):
    """The calls about replicas and leaders of partitions."""

    async def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to other brokers, given by their ids with the preferred leader
        first; None cancels a move that is under way. Returns None or the error for each.

        The records are copied while the partitions serve their clients: see `reassignments`.
        """
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self.api_timeout_ms,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=number,
                            replicas=None if (ids := replicas[key]) is None else list(ids),
                        )
                        for number in numbers
                        for key in [TopicPartition(topic, number)]
                    ],
                )
                for topic, numbers in numbers_by_topic(sorted(replicas)).items()
            ],
        )

        async def attempt() -> AlterPartitionReassignmentsResponse:
            answer = await self.ask_controller(request, AlterPartitionReassignmentsResponse)
            raise_for_code(answer.error_code, "reassigning partitions", answer.error_message)
            return answer

        answer = await self.retry(attempt)
        return {
            TopicPartition(topic.name, each.partition_index): error_of_code(
                each.error_code,
                f"reassigning partition {topic.name}-{each.partition_index}",
                each.error_message,
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    async def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the moves that are under way, of these partitions or of all (None)."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in numbers_by_topic(sorted(partitions)).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=self.api_timeout_ms, topics=topics)

        async def attempt() -> ListPartitionReassignmentsResponse:
            answer = await self.ask_controller(request, ListPartitionReassignmentsResponse)
            raise_for_code(answer.error_code, "listing reassignments", answer.error_message)
            return answer

        answer = await self.retry(attempt)
        found = {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }
        return dict(sorted(found.items()))

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of these partitions, or of all (None). Returns None or the error for each;
        a partition that needed no election counts as done.

        The preferred leader is elected, which is the first replica, if it is in sync. `unclean`:
        where no replica in sync is alive, any other is elected, and the records that it lacks are
        lost.
        """
        wanted = None
        if partitions is not None:
            wanted = [
                TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in numbers_by_topic(sorted(partitions)).items()
            ]
        request = ElectLeadersRequest(
            election_type=int(unclean), topic_partitions=wanted, timeout_ms=self.api_timeout_ms
        )

        async def attempt() -> ElectLeadersResponse:
            answer = await self.ask_controller(request, ElectLeadersResponse)
            raise_for_code(answer.error_code, "electing leaders")
            return answer

        answer = await self.retry(attempt)
        return {
            TopicPartition(topic.topic, each.partition_id): None
            if each.error_code == ErrorCode.ELECTION_NOT_NEEDED
            else error_of_code(
                each.error_code,
                f"electing the leader of partition {topic.topic}-{each.partition_id}",
                each.error_message,
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }
