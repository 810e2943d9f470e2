"""DeadLetters: writes records that cannot be decoded to a dead letter topic.

    Consumer(..., value="json", on_decode_error="dlq:orders-broken")

    fill ─► set aside ─► poll: sent, acknowledged ─► the records behind them are returned
                           └─► DeadLetterFailed: the position stays, and the next poll tries again

A dead letter is the unchanged record: key, value, headers and timestamp (unless that is before
1970). Headers with the names of Kafka Connect tell where the record was and what was wrong:
`__connect.errors.topic`, `.partition`, `.offset`, `.stage` (KEY_CONVERTER or VALUE_CONVERTER),
`.exception.class.name` and `.exception.message`.

The producer is made for the first dead letter, with the consumer's connection settings, and closed
with the consumer. It has `default.api.timeout.ms` to find the topic; a poll waits for that,
whatever its own timeout. It has as long again to deliver; a poll waits for that up to its own
timeout, and the next poll goes on waiting.

No position passes a dead letter that is not acknowledged, so none is lost. One may be written twice
if the consumer ends between its acknowledgement and the next commit. There are at most as many at
once as records are decoded ahead, or as an Arrow batch has rows.

Runs on the application's thread or task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from odradek.client.consumer.arguments import ConsumerArguments
from odradek.client.consumer.record import Record
from odradek.client.errors import DeadLetterFailed, DecodeError, KafkaError
from odradek.client.producer.futures import FutureRecordMetadata
from odradek.config.client import ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.protocol.records import MAX_TIMESTAMP, Header

PREFIX = "__connect.errors."
STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}

LeftS = Callable[[], float | None]
"""Returns the seconds that are left; None: no limit."""


def no_limit() -> None:
    """No time limit."""


class DeadLetterProducer(Protocol):
    """The producer of dead letters, which the blocking and the asyncio API implement."""

    async def enqueue(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        headers: list[Header],
        timestamp: int | None,
    ) -> FutureRecordMetadata:
        """Wait until the record is queued. Raises as producers do."""
        ...

    async def wait(self, sent: FutureRecordMetadata, timeout_s: float | None) -> None:
        """Wait until the outcome is known, or the timeout is over."""
        ...

    async def close(self, timeout_s: float | None) -> None:
        """Close the producer; records not acknowledged in time are dropped."""
        ...


class DeadLetters:
    """The dead letters of one consumer, written to `topic`."""

    def __init__(self, topic: str, producer: DeadLetterProducer) -> None:
        self.topic = topic
        self.column_letters: list[DecodeError] = []
        """The errors of column values that could not be decoded."""
        self._producer = producer
        self._sent: dict[DecodeError, FutureRecordMetadata] = {}
        """Records sent whose outcome was not awaited to its end."""

    async def publish(self, letters: list[DecodeError], left_s: LeftS = no_limit) -> bool:
        """Write the records to the topic and remove acknowledged ones from the list. False if the
        time is over before all are acknowledged.

        Raises `DeadLetterFailed` for the first one that cannot be written.
        """
        self._sent = {error: self._sent[error] for error in letters if error in self._sent}
        failure: tuple[DecodeError, KafkaError] | None = None
        for error in letters:
            if error not in self._sent:
                try:
                    self._sent[error] = await self._send(error)
                except KafkaError as reason:
                    failure = error, reason
                    break
        in_time = True
        for error, sent in list(self._sent.items()):
            if in_time:  # No time is left to wait for the others.
                await self._producer.wait(sent, left_s())
                in_time = sent.done()
            if not sent.done():
                continue
            del self._sent[error]
            outcome = sent.exception()
            if outcome is None:
                letters.remove(error)
            elif failure is None:
                failure = error, outcome
        if failure is not None:
            raise self._failed(*failure)
        return not letters

    async def _send(self, error: DecodeError) -> FutureRecordMetadata:
        record = error.record
        assert record is not None
        if record.topic == self.topic:
            raise DeadLetterFailed("the record is itself from the dead letter topic")
        timestamp_ms = record.timestamp_ms
        return await self._producer.enqueue(
            self.topic,
            record.value,
            key=record.key,
            headers=headers_of(error, record),
            timestamp=timestamp_ms if 0 <= timestamp_ms < MAX_TIMESTAMP else None,
        )

    def _failed(self, error: DecodeError, reason: KafkaError) -> DeadLetterFailed:
        record = error.record
        assert record is not None
        failed = DeadLetterFailed(
            f"{record.topic_partition} at offset {record.offset}: the record cannot be decoded "
            f"({error.__cause__!r}), nor written to the dead letter topic {self.topic}: "
            f"{str(reason).rstrip('.')}. Nothing is lost: the position stays before it. "
            f"What to do: {DeadLetterFailed.advice}"
        )
        failed.record = record
        failed.__cause__ = reason
        return failed

    async def close(self, timeout_s: float | None) -> None:
        """Close the producer within `timeout_s`. Records in flight are behind the position and are
        sent again by the consumer that goes on there.
        """
        await self._producer.close(timeout_s)


def headers_of(error: DecodeError, record: Record[bytes, bytes]) -> list[Header]:
    """Return the record's headers and the headers that describe the error, as Kafka Connect names
    them.
    """
    reason = error.__cause__ or error
    reported = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": STAGES[error.field],
        "exception.class.name": f"{type(reason).__module__}.{type(reason).__qualname__}",
        "exception.message": str(reason),
    }
    # Lone surrogates in an exception's text must not prevent the dead letter.
    encoded = [(PREFIX + name, text.encode(errors="replace")) for name, text in reported.items()]
    return [*record.headers, *encoded]


def dead_letters(
    arguments: ConsumerArguments, producer: Callable[[dict[str, Any]], DeadLetterProducer]
) -> DeadLetters | None:
    """Return the dead letters of a consumer, None if it has no dead letter topic. `producer` makes
    the API's producer.
    """
    topic = arguments.dead_letter_topic
    return (
        None if topic is None else DeadLetters(topic, producer(producer_settings(arguments.config)))
    )


def producer_settings(config: ConsumerConfig) -> dict[str, Any]:
    """Return the settings of the dead letter producer: the consumer's cluster, and its timeout for
    calls.
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
        # Large enough for every record that could be fetched, if the topic accepts it.
        "max.request.size": ProducerConfig.declared["buffer.memory"].default,
    }
