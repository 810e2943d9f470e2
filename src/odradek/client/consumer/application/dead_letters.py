"""DeadLetters: writes records that cannot be decoded to a dead letter topic.

    Consumer(..., value="json", on_decode_error="dlq:orders-broken")

    fill ─► set aside ─► sent ─► acknowledged: the records behind them are returned
                          ├─► no outcome in time: the position stays, the next poll waits on
                          └─► DeadLetterFailed: the position stays, and the next poll tries again

A dead letter is the unchanged record: key, value, headers and timestamp (unless that is before
1970). Headers with the names of Kafka Connect tell where the record was and what was wrong:
`__connect.errors.topic`, `.partition`, `.offset`, `.stage` (KEY_CONVERTER or VALUE_CONVERTER),
`.exception.class.name` and `.exception.message`.

The producer is made for the first dead letter, with the consumer's connection settings, and closed
with the consumer. It runs on the consumer's engine, with connections of its own. It has
`default.api.timeout.ms` to find the topic and room for the record, and as long again to deliver.
Nothing blocks on it: a poll returns when its own timeout is over, and takes part in rebalances
meanwhile; later polls go on waiting. Only a batch of Arrow rows is returned no earlier than the
dead letters of its values are acknowledged. If a rebalance comes first, its rows are read again.

No position passes a dead letter that is not acknowledged, so none is lost. One may be written twice
if the consumer ends between its acknowledgement and the next commit, or if its rows are read again.
There are at most as many at once as records are decoded ahead, or as an Arrow batch has rows.

Runs on the application's thread or task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from odradek.client.consumer.arguments import ConsumerArguments
from odradek.client.consumer.record import Record
from odradek.client.engine import Engine
from odradek.client.errors import DeadLetterFailed, DecodeError
from odradek.client.waiter import Waiter, completed, failed
from odradek.config.client import ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.protocol.records import MAX_TIMESTAMP, Header, encode_headers

if TYPE_CHECKING:
    from odradek.client.producer.futures import FutureRecordMetadata
    from odradek.client.producer.producer_core import ProducerCore

PREFIX = "__connect.errors."
STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}


class DeadLetterProducer(Protocol):
    """The producer of dead letters. Runs on the engine's thread."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        headers: list[Header],
        timestamp_ms: int | None,
    ) -> Waiter[None]:
        """Begin to send a record; the waiter is done when it is acknowledged, or has failed."""
        ...

    def close(self, timeout_ms: int) -> Waiter[int]:
        """Close the producer; records not acknowledged in time are dropped."""
        ...


class EngineDeadLetterProducer:
    """A producer on the engine of a consumer, which ends with it. It is made by the first `send`:
    most consumers send no dead letter."""

    def __init__(self, consumer_engine: Engine, config: ConsumerConfig) -> None:
        self._consumer_engine = consumer_engine
        self._config = config
        self._core: ProducerCore | None = None

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        headers: list[Header],
        timestamp_ms: int | None,
    ) -> Waiter[None]:
        from odradek.client.producer.send_path import ANY_PARTITION, SerializedRecord

        core = self._core = self._core or self._new_core()
        outcome: Waiter[None] = Waiter()

        def delivered(future: FutureRecordMetadata) -> None:
            error = future.exception()
            if error is None:
                outcome.complete(None)
            else:
                outcome.fail(error)

        def queued(waiter: Waiter[FutureRecordMetadata]) -> None:
            if waiter.error is not None:
                outcome.fail(waiter.error)
            else:
                waiter.result().add_done_callback(delivered)

        time_ms = core.engine.env.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        encoded = encode_headers(headers)
        record = SerializedRecord(topic, ANY_PARTITION, time_ms, key, value, encoded, None)
        core.send_later(record).waiter.add_callback(queued)
        return outcome

    def _new_core(self) -> ProducerCore:
        from odradek.client.producer.arguments import producer_arguments
        from odradek.client.producer.futures import CoroutineWait
        from odradek.client.producer.producer_core import ProducerCore

        consumer = self._consumer_engine
        made = producer_arguments(producer_settings(self._config), None, None, None, None, {})
        engine = made.engine(consumer.env, consumer.timer)
        core = ProducerCore(engine, made.settings, CoroutineWait())
        consumer.close_also(engine)
        engine.start()
        core.start(core.sender.run_soon)
        return core

    def close(self, timeout_ms: int) -> Waiter[int]:
        return completed(0) if self._core is None else self._core.close(timeout_ms)


class DeadLetters:
    """The dead letters of one consumer, written to `topic`."""

    def __init__(self, topic: str, producer: DeadLetterProducer) -> None:
        self.topic = topic
        self.column_letters: list[DecodeError] = []
        """The errors of column values that could not be decoded."""
        self.producer = producer
        self._sent: dict[DecodeError, Waiter[None]] = {}
        """Records sent, until their outcome was handled."""

    def unsent(self, letters: list[DecodeError]) -> list[DecodeError]:
        """Return the records that are not being sent, and forget the outcomes of all others."""
        self._sent = {error: self._sent[error] for error in letters if error in self._sent}
        return [error for error in letters if error not in self._sent]

    def send(self, letters: list[DecodeError], wake: Callable[[], object]) -> None:
        """Begin to send records; `wake` is called for each outcome. Runs on the engine's thread."""
        for error in letters:
            sent = self._sent[error] = self._send(error)
            sent.add_callback(lambda _: wake())

    def _send(self, error: DecodeError) -> Waiter[None]:
        record = error.record
        assert record is not None
        if record.topic == self.topic:
            return failed(DeadLetterFailed("the record is itself from the dead letter topic"))
        timestamp_ms = record.timestamp_ms
        return self.producer.send(
            self.topic,
            record.value,
            key=record.key,
            headers=headers_of(error, record),
            timestamp_ms=timestamp_ms if 0 <= timestamp_ms < MAX_TIMESTAMP else None,
        )

    def remove_acknowledged(self, letters: list[DecodeError]) -> bool:
        """Remove the acknowledged records from the list; True if there were any.

        Raises `DeadLetterFailed` for the first one that could not be written; it counts as unsent.
        """
        failure: tuple[DecodeError, BaseException] | None = None
        before = len(letters)
        for error, sent in list(self._sent.items()):
            if sent.done:
                del self._sent[error]
                if sent.error is None:
                    letters.remove(error)
                else:
                    failure = failure or (error, sent.error)
        if failure is not None:
            raise self._failed(*failure)
        return len(letters) < before

    def _failed(self, error: DecodeError, reason: BaseException) -> DeadLetterFailed:
        record = error.record
        assert record is not None
        raised = DeadLetterFailed(
            f"{record.topic_partition} at offset {record.offset}: the record cannot be decoded "
            f"({error.__cause__!r}), nor written to the dead letter topic {self.topic}: "
            f"{str(reason).rstrip('.')}. Nothing is lost: the position stays before it. "
            f"What to do: {DeadLetterFailed.advice}"
        )
        raised.record = record
        raised.__cause__ = reason
        return raised


def headers_of(error: DecodeError, record: Record[bytes, bytes]) -> list[Header]:
    """Return the record's headers and the headers that describe the error, as Kafka Connect names
    them.
    """
    return described(record, STAGES[error.field], error.__cause__ or error)


def described(record: Record[bytes, bytes], stage: str, reason: BaseException) -> list[Header]:
    """Return the record's headers, and those that tell in which stage what went wrong."""
    reported = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": stage,
        "exception.class.name": f"{type(reason).__module__}.{type(reason).__qualname__}",
        "exception.message": str(reason),
    }
    # Lone surrogates in an exception's text must not prevent the dead letter.
    encoded = [(PREFIX + name, text.encode(errors="replace")) for name, text in reported.items()]
    return [*record.headers, *encoded]


def dead_letters(arguments: ConsumerArguments, engine: Engine) -> DeadLetters | None:
    """Return the dead letters of the engine's consumer, None if it has no dead letter topic."""
    topic = arguments.dead_letter_topic
    if topic is None:
        return None
    return DeadLetters(topic, EngineDeadLetterProducer(engine, arguments.config))


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
