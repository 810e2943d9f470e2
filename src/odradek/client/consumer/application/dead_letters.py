"""Dead letters: records that cannot be decoded, on their way to a topic of their own.

    Consumer(..., value="json", on_decode_error="dlq:orders-broken")

    fill ─► set aside ─► poll: sent, acknowledged ─► what is behind them is handed out
                           └─► DeadLetterFailed: everything stays where it is, and the next poll
                               tries again

A dead letter is the record as it came: key, value, headers and timestamp (unless that is before
1970), with headers added that say where it was and what was wrong, by the names that Kafka Connect
gives them: `__connect.errors.topic`, `.partition`, `.offset`, `.stage` (KEY_CONVERTER or
VALUE_CONVERTER), `.exception.class.name` and `.exception.message`. The producer is made when the
first is to be sent, with the consumer's settings of connections, and closed with the consumer. It
has `default.api.timeout.ms` to know the topic, for which a poll waits however little time it was
given, and as long again to deliver: for that it waits up to its own timeout, and the next one goes
on waiting.

No position passes a dead letter that was not acknowledged, so none is lost; one may be written
twice, where a consumer ends between its acknowledgement and the next commit. There are never more
at once than are decoded ahead, or than an Arrow batch has rows.

The application's thread or task only.
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
"""How many seconds are left; None: any number."""


def no_limit() -> None:
    """Any number of seconds."""


class DeadLetterProducer(Protocol):
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

    async def wait(self, sent: FutureRecordMetadata, timeout_s: float | None) -> None:
        """Until its outcome is known, or time is over."""
        ...

    async def close(self, timeout_s: float | None) -> None:
        """There will be no more; what is not acknowledged in time is given up."""
        ...


class DeadLetters:
    """Of one consumer, to `topic`."""

    def __init__(self, topic: str, producer: DeadLetterProducer) -> None:
        self.topic = topic
        self.column_letters: list[DecodeError] = []
        """What a decoder of columns could make nothing of."""
        self._producer = producer
        self._sent: dict[DecodeError, FutureRecordMetadata] = {}
        """Those whose outcome nobody has waited for to its end."""

    async def publish(self, letters: list[DecodeError], left_s: LeftS = no_limit) -> bool:
        """Write them to the topic, and take out of the list what is acknowledged; False if time is
        over before all are. Raises `DeadLetterFailed` for the first that cannot be written.
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
            if in_time:  # Else there is none left to wait for the others.
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
            raise DeadLetterFailed("it is a dead letter itself, and would go round in circles")
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
            f"{str(reason).rstrip('.')}. Nothing is lost: the consumer stands before it. "
            f"What to do: {DeadLetterFailed.advice}"
        )
        failed.record = record
        failed.__cause__ = reason
        return failed

    async def close(self, timeout_s: float | None) -> None:
        """The consumer closes, within so many seconds. What is still under way is behind its
        position, and is sent again by who goes on there.
        """
        await self._producer.close(timeout_s)


def headers_of(error: DecodeError, record: Record[bytes, bytes]) -> list[Header]:
    """Those of the record, and where it was and what was wrong, as Kafka Connect says it."""
    reason = error.__cause__ or error
    reported = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": STAGES[error.field],
        "exception.class.name": f"{type(reason).__module__}.{type(reason).__qualname__}",
        "exception.message": str(reason),
    }
    # What no text can say (lone surrogates, of a careless deserializer) must not be in the way.
    encoded = [(PREFIX + name, text.encode(errors="replace")) for name, text in reported.items()]
    return [*record.headers, *encoded]


def dead_letters(
    made: ConsumerArguments, producer: Callable[[dict[str, Any]], DeadLetterProducer]
) -> DeadLetters | None:
    """Of a consumer made so, by its face's producer; None if none are wanted."""
    topic = made.dead_letter_topic
    return None if topic is None else DeadLetters(topic, producer(producer_settings(made.config)))


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
