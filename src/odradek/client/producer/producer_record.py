"""A record to be sent, serialized, while it has to wait."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from odradek.client.producer.producer_batch import DeliveryCallback


@final
class ProducerRecord:
    """What is to be sent. `partition` -1: any; `headers` are encoded."""

    def __init__(
        self,
        topic: str,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: DeliveryCallback | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.callback = callback
