"""A producer with Kafka's defaults in simulated time, and one scripted broker."""

from __future__ import annotations

from typing import Any

from odradek.client.producer.arguments import producer_settings
from odradek.client.producer.futures import CoroutineWait, FutureRecordMetadata
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.waiter import Waiter, completed
from odradek.config.producer import ProducerConfig
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.records import NO_HEADERS
from odradek.testing.scripted import SILENT, ScriptedCluster


class ScriptedProducer:
    """`requests` are the (topic, partition) pairs of each Produce request, in order; `asked_for`
    the topics that each Metadata request names. While `answers` is False, Produce is not answered.
    """

    def __init__(self, partitions: int = 1, **settings: Any) -> None:
        self.cluster = ScriptedCluster(1)
        self.cluster.create("t", [1] * partitions)
        self.answers = True
        self.base_offset = 0
        self.requests: list[list[tuple[str, int]]] = []
        self.asked_for: list[list[str]] = []
        self.cluster.answers[InitProducerIdRequest] = lambda request, version: (
            InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=0)
        )
        self.cluster[1].answers[ProduceRequest] = self._produce
        self.cluster[1].answers[MetadataRequest] = self._metadata
        config = ProducerConfig.load(
            {"bootstrap_servers": self.cluster.bootstrap, "linger_ms": 0, **settings}
        )
        self.side = self.cluster.client()
        self.engine = self.side.engine(max_in_flight=config.max_in_flight_requests_per_connection)
        self.core = ProducerCore(self.engine, producer_settings(config), CoroutineWait())
        self.side.do(lambda: self.core.start(self.core.sender.run_soon))

    def _metadata(self, request: MetadataRequest, version: int) -> Any:
        self.asked_for.append([topic.name or "" for topic in request.topics or ()])
        return self.cluster.metadata(request)

    def _produce(self, request: ProduceRequest, version: int) -> Any:
        names = {topic.topic_id: name for name, topic in self.cluster.topics.items()}
        self.requests.append(
            [
                (topic.name or names[topic.topic_id], part.index)
                for topic in request.topic_data
                for part in topic.partition_data
            ]
        )
        if not self.answers:
            return SILENT
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=part.index, error_code=0, base_offset=self.base_offset
                        )
                        for part in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def send(
        self, value: bytes, topic: str = "t", partition: int = 0
    ) -> Waiter[FutureRecordMetadata]:
        """Done when the record is in the accumulator, or cannot get there."""

        def send() -> Waiter[FutureRecordMetadata]:
            taken = self.core.router.send(topic, partition, 1_000, None, value, NO_HEADERS, None)
            if isinstance(taken, SerializedRecord):
                return self.core.send_later(taken).waiter
            return completed(taken)

        return self.side.do(send)

    def accepted(self, value: bytes, topic: str = "t", partition: int = 0) -> FutureRecordMetadata:
        """Send and let time pass until the record is in the accumulator."""
        waiter = self.send(value, topic, partition)
        self.cluster.until(lambda: waiter.done)
        return waiter.result()

    def offset(self, future: FutureRecordMetadata) -> int:
        """Let time pass until the record is acknowledged."""
        self.cluster.until(future.done)
        delivery: Any = future.result(0)
        offset: int = delivery.offset
        return offset
