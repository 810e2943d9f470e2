"""Dead letters: records that cannot be decoded, on their way to a topic of their own.

    Consumer(..., value="json", on_decode_error="dlq:orders-broken")

    fill ─► set aside ─► poll: sent, acknowledged ─► what is behind them is handed out
                           └─► DeadLetterFailed: everything stays where it is, and the next poll
                               tries again

A dead letter is the record as it came: key, value, headers and timestamp, with headers added that
say where it was and what was wrong, by the names that Kafka Connect gives them:
`__connect.errors.topic`, `.partition`, `.offset`, `.stage` (KEY_CONVERTER or VALUE_CONVERTER),
`.exception.class.name` and `.exception.message`. The producer is made when the first is to be sent,
with the consumer's settings of connections, and closed with the consumer; it takes up to
`default.api.timeout.ms` to know the topic, and as long again to deliver, within the poll.

No position passes a dead letter that was not acknowledged, so none is lost; one may be written
twice, where a consumer ends between its acknowledgement and the next commit. There are never more
at once than are decoded ahead, or than an Arrow batch has rows.

The application's thread or task only.
"""

from __future__ import annotations

from typing import Any, Protocol

from odradek.client.consumer.record import Record
from odradek.client.errors import DeadLetterFailed, DecodeError, KafkaError
from odradek.client.producer.delivery import FutureRecordMetadata
from odradek.config.client import ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.protocol.records import Header

PREFIX = "__connect.errors."
STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}
NO_TIMESTAMP = -1


class Office(Protocol):
    """A face's producer of dead letters."""

    async def enqueue(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        headers: list[Header],
        timestamp: int | None,
    ) -> FutureRecordMetadata:
        """Wait until it is queued. Raises as producers do."""
        ...

    async def outcome(self, sent: FutureRecordMetadata) -> None:
        """Wait until it is acknowledged. Raises what it failed with."""
        ...

    async def close(self) -> None:
        """There will be no more."""
        ...


class DeadLetters:
    """Of one consumer, to `topic`."""

    def __init__(self, topic: str, office: Office) -> None:
        self.topic = topic
        self.of_columns: list[DecodeError] = []
        """What a decoder of columns could make nothing of."""
        self._office = office

    async def bury(self, letters: list[DecodeError]) -> None:
        """Write them to the topic, and take out of the list what is acknowledged. Raises
        `DeadLetterFailed` for the first that is not.
        """
        waiting = list(letters)
        sent: list[FutureRecordMetadata] = []
        refused: KafkaError | None = None
        try:
            for error in waiting:
                future = await self._send(error)
                sent.append(future)
        except KafkaError as reason:
            refused = reason
        lost: dict[DecodeError, KafkaError] = {}
        for error, future in zip(waiting, sent, strict=False):
            try:
                await self._office.outcome(future)
            except KafkaError as reason:
                lost[error] = reason
        letters[:] = [*lost, *waiting[len(sent) :]]
        if letters:
            trouble = lost.get(letters[0]) or refused
            assert trouble is not None
            raise self._failed(letters[0], trouble)

    async def _send(self, error: DecodeError) -> FutureRecordMetadata:
        record = error.record
        assert record is not None
        if record.topic == self.topic:
            raise DeadLetterFailed("it is a dead letter itself, and would go round in circles")
        timestamp: int | None = record.timestamp_ms
        return await self._office.enqueue(
            self.topic,
            record.value,
            key=record.key,
            headers=headers_of(error, record),
            timestamp=None if timestamp == NO_TIMESTAMP else timestamp,
        )

    def _failed(self, error: DecodeError, reason: KafkaError) -> DeadLetterFailed:
        record = error.record
        assert record is not None
        failed = DeadLetterFailed(
            f"{record.topic_partition} at offset {record.offset}: the record cannot be decoded "
            f"({error.__cause__!r}), nor written to the dead letter topic {self.topic}: {reason} "
            f"Nothing is lost: the consumer stands before it. What to do: {DeadLetterFailed.advice}"
        )
        failed.record = record
        failed.__cause__ = reason
        return failed

    async def close(self) -> None:
        """The consumer closes."""
        await self._office.close()


def headers_of(error: DecodeError, record: Record[bytes, bytes]) -> list[Header]:
    """Those of the record, and where it was and what was wrong, as Kafka Connect says it."""
    reason = error.__cause__ or error
    told = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": STAGES[error.field],
        "exception.class.name": f"{type(reason).__module__}.{type(reason).__qualname__}",
        "exception.message": str(reason),
    }
    # What no text can say (lone surrogates, of a careless deserializer) must not be in the way.
    encoded = [(PREFIX + name, text.encode(errors="replace")) for name, text in told.items()]
    return [*record.headers, *encoded]


def producer_settings(config: ConsumerConfig) -> dict[str, Any]:
    """For the producer of a consumer's dead letters: the same cluster, and calls that take as long
    as the consumer's may.
    """
    shared = {
        name: layer.values[name]
        for name in ClientConfig.declared
        if (layer := config.layer_of(name)) is not None
    }
    limit_ms = config.default_api_timeout_ms
    return {
        **shared,
        "client.id": f"{config.client_id}-dead-letters",
        "linger.ms": 0,
        "max.block.ms": limit_ms,
        "delivery.timeout.ms": max(limit_ms, config.request_timeout_ms),
        # What could be fetched can be sent, if the topic takes it.
        "max.request.size": ProducerConfig.declared["buffer.memory"].default,
    }
