"""Batches as a Produce request, and its response as one outcome per batch.

Up to version 12 a request names topics, from version 13 on it gives their ids. The response is
matched by what the request contained, whichever of the two the broker uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from odradek.client.metadata.cluster_image import ClusterImage
from odradek.client.metadata.metadata import CurrentLeader
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.transaction_phases import ProducerTransaction
from odradek.client.transaction import VERSION_2
from odradek.model.errors import ErrorCode, error_code
from odradek.model.node import Node
from odradek.model.topics import ZERO_UUID
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.compression import CompressionType

NONE: Final = ErrorCode.NONE
LAST_VERSION_BY_NAME: Final = 12
LAST_VERSION_OF_ADDED_PARTITIONS: Final = 11
"""From the next version on, a request adds its partitions to the transaction (KIP-890)."""
ZSTD_VERSION: Final = 7
NO_OFFSET: Final = -1


class Outcome(NamedTuple):
    """The result of sending a batch, from the response or from a failure. `text` explains it."""

    error: ErrorCode
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    text: str | None = None
    record_errors: Mapping[int, str | None] = {}


WRITTEN_UNSEEN = Outcome(ErrorCode.NONE)
"""The outcome with acks=0, where there is no response."""


class ProduceBatches:
    """The batches of one request: at most one of each partition."""

    def __init__(
        self,
        batches: Sequence[ProducerBatch],
        acks: int,
        timeout_ms: int,
        codec: int,
        image: ClusterImage,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self.batches = batches
        self._transaction = transaction
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._codec = codec
        self._topics: dict[str, list[ProducerBatch]] = {}
        for batch in batches:
            self._topics.setdefault(batch.topic_partition.topic, []).append(batch)
        self._ids: dict[str, UUID] = {
            name: topic.topic_id
            for name in self._topics
            if (topic := image.topics.get(name)) is not None and topic.topic_id != ZERO_UUID
        }

    def request(self) -> RequestBuilder:
        """Return the request, with the limits of its version."""
        lowest = ZSTD_VERSION if self._codec == CompressionType.ZSTD else 0
        highest = 32767 if len(self._ids) == len(self._topics) else LAST_VERSION_BY_NAME
        if self._transaction is not None:
            if self._transaction.version >= VERSION_2:
                lowest = LAST_VERSION_OF_ADDED_PARTITIONS + 1
            else:
                highest = LAST_VERSION_OF_ADDED_PARTITIONS
        return RequestBuilder(ProduceRequest, self._build, min_version=lowest, max_version=highest)

    def _build(self, version: int) -> ProduceRequest:
        by_name = version <= LAST_VERSION_BY_NAME
        return ProduceRequest(
            transactional_id=(
                None if self._transaction is None else self._transaction.transactional_id
            ),
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name if by_name else "",
                    topic_id=ZERO_UUID if by_name else self._ids[name],
                    partition_data=[
                        PartitionProduceData(
                            index=batch.topic_partition.partition, records=batch.data
                        )
                        for batch in batches
                    ],
                )
                for name, batches in self._topics.items()
            ],
        )

    def outcomes(self, response: ProduceResponse) -> list[tuple[ProducerBatch, Outcome]]:
        """Return the outcome of every batch, in the order of `batches`."""
        if len(self.batches) == 1 and len(response.responses) == 1:
            only = self._only_answer(response.responses[0], self.batches[0])
            if only is not None:
                return [(self.batches[0], outcome_of(only))]
        answers = {
            (topic.name or topic.topic_id, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        return [(batch, outcome_of(self._answer(answers, batch))) for batch in self.batches]

    def _only_answer(
        self, topic: TopicProduceResponse, batch: ProducerBatch
    ) -> PartitionProduceResponse | None:
        """Return the response for a single batch without a table; None if it does not match."""
        name, number = batch.topic_partition
        if len(topic.partition_responses) != 1:
            return None
        answer = topic.partition_responses[0]
        if topic.name:
            same = topic.name == name
        else:
            # By number: comparing UUID objects runs interpreted code.
            known = self._ids.get(name)
            same = known is not None and topic.topic_id.int == known.int
        return answer if same and answer.index == number else None

    def _answer(
        self, answers: Mapping[Any, PartitionProduceResponse], batch: ProducerBatch
    ) -> PartitionProduceResponse | None:
        name, number = batch.topic_partition
        found = answers.get((name, number))
        return answers.get((self._ids.get(name), number)) if found is None else found

    def leader_changes(self, response: ProduceResponse) -> tuple[list[CurrentLeader], list[Node]]:
        """Return the new leaders named in the response, and their addresses (KIP-951)."""
        if not any(
            answer.current_leader is not None
            for topic in response.responses
            for answer in topic.partition_responses
        ):
            return [], []
        names = {topic_id: name for name, topic_id in self._ids.items()}
        changes = [
            CurrentLeader(
                topic.name or names.get(topic.topic_id, ""),
                answer.index,
                answer.current_leader.leader_id,
                answer.current_leader.leader_epoch,
            )
            for topic in response.responses
            for answer in topic.partition_responses
            if answer.current_leader is not None and answer.current_leader.leader_id >= 0
        ]
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        return changes, nodes


def outcome_of(answer: PartitionProduceResponse | None) -> Outcome:
    """Return the outcome of one partition; `answer` None: the response leaves it out."""
    if answer is None:
        return Outcome(ErrorCode.NETWORK_EXCEPTION, text="the broker's answer leaves it out")
    if answer.error_code == NONE:
        return Outcome(NONE, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset)
    return Outcome(
        error_code(answer.error_code),
        log_start_offset=answer.log_start_offset,
        text=answer.error_message,
        record_errors={e.batch_index: e.batch_index_error_message for e in answer.record_errors},
    )
