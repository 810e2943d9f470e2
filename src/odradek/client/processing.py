"""Processing: what `odradek.process` decides, apart from threads and loops.

    read for `interval` ─► begin ─► function ─► send ─► the group's offsets ─► commit ─► read on
          ▲                  │                                                   │
          └── read again ◄───┴──── abort ◄── a record failed, the member was replaced, an exception

A transaction begins when records were read and ends before the next are: a rebalance, which happens
while records are read, finds none open. So each input's outputs, its dead letter and its offset are
committed together, by the member that owns its partition, or the next owner reads it again.

After half of its timeout, or of `max.poll.interval.ms`, a transaction gets no more records
(`TransactionLimit`): it commits those that it has, and the others are read again for the next one.
So a function that is slow makes transactions small. Neither the coordinator of transactions nor the
group loses patience, unless a single call takes so long; then the error, or the warning before
another attempt, says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from odradek.client.consumer.application.dead_letters import described
from odradek.client.consumer.arguments import TO_TOPIC, error_handler
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.record import Record
from odradek.client.deserializers import Deserializer, deserializer
from odradek.client.errors import CommitFailed, ConfigError, GroupError, KafkaError, ProducerFenced
from odradek.client.producer.intercepted_send import ProducerRecord
from odradek.client.producer.send_path import ANY_PARTITION, SerializedRecord
from odradek.config.client_names import alias_of, normalised
from odradek.model.topics import TopicPartition
from odradek.protocol.records import MAX_TIMESTAMP, encode_headers

INTERVAL_S: Final = 0.1
"""How long records are read for one transaction."""
MAX_RECORDS: Final = 10_000
"""How many records one transaction has at most."""
TRANSACTION_TIMEOUT_MS: Final = 10_000
"""The default of `transaction.timeout.ms`, Kafka Streams' for the same purpose: as long as that a
process that was killed holds up the readers of its outputs, and its successor."""
MAX_FAILURES: Final = 5
"""How many transactions in a row may fail before the error is raised."""
NEVER_MS: Final = 1 << 50
AGAIN_S: Final = 0.2
"""The pause after a transaction that failed, times the number of failures in a row."""
KEY_CONVERTER: Final = "KEY_CONVERTER"
VALUE_CONVERTER: Final = "VALUE_CONVERTER"
"""Kafka Connect's names of the stages in which keys and values are decoded."""
TRANSFORMATION: Final = "TRANSFORMATION"
"""Kafka Connect's name of the stage in which the function runs."""
OWN_CONSUMER_SETTINGS: Final = frozenset(
    {"enable.auto.commit", "isolation.level", "on.decode.error", "key", "value"}
)
"""Settings of the consumer that a processing decides itself."""


class Plan(NamedTuple):
    """The checked arguments of a processing."""

    consumer: dict[str, Any]
    producer: dict[str, Any]
    to: str | None
    dead_letter_topic: str | None
    key: Deserializer
    value: Deserializer


def plan_of(
    *,
    to: str | None,
    group: str,
    brokers: str | Sequence[str] | None,
    default_brokers: str,
    key: Any,
    value: Any,
    on_error: str,
    transactional_id: str,
    consumer: Mapping[str, Any] | None,
    producer: Mapping[str, Any] | None,
) -> Plan:
    """Return the checked arguments. Raises `ConfigError`.

    `default_brokers`: if neither `brokers` nor the settings name any.
    """
    for name in consumer or ():
        if normalised(name) in OWN_CONSUMER_SETTINGS:
            raise ConfigError(
                f"the consumer of process() cannot have {name}: offsets are committed in the "
                "transactions, and only committed records are read. What to do: leave it out, or "
                "give key, value and on_error to process() itself"
            )
    common = {} if brokers is None else {"brokers": brokers}
    if not any(names_brokers(each) for each in (common, consumer, producer)):
        common = {"brokers": default_brokers}
    serializers = {name: given for name, given in (("key", key), ("value", value)) if given}
    return Plan(
        consumer={
            **default("auto.offset.reset", "earliest", consumer),
            **common,
            **(consumer or {}),
            "group": group,
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
        },
        producer={
            **default("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS, producer),
            **common,
            **serializers,
            **(producer or {}),
            "transactional_id": transactional_id,
        },
        to=to,
        dead_letter_topic=dead_letter_topic_of(on_error),
        key=deserializer(key),
        value=deserializer(value),
    )


def check_form(*, arrow: bool, decode: object, key: object, value: object) -> None:
    """Raise `ConfigError` for arguments that count for records given with `arrow`, or the other way
    round: they would be ignored.
    """
    for name, given in (("key", key), ("value", value)):
        if arrow and given is not None:
            raise ConfigError(
                f"{name} of process() is a serializer of records, and with arrow=True there are "
                'tables. What to do: give decode="json", or another form that Consumer.arrow takes'
            )
    if decode is not None and not arrow:
        raise ConfigError(
            "decode of process() is for tables. What to do: give arrow=True too, or value instead "
            "of decode"
        )


def names_brokers(settings: Mapping[str, Any] | None) -> bool:
    """True if the settings have brokers, by whichever name."""
    return "bootstrap.servers" in (alias_of(name).name for name in settings or ())


def default(name: str, value: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a setting, unless it is given, by whichever of its names."""
    return {} if name in map(normalised, given or ()) else {name: value}


def dead_letter_topic_of(on_error: str) -> str | None:
    """Return the topic that `on_error` names; None for "raise". Raises `ConfigError`."""
    if on_error == "raise":
        return None
    if not isinstance(on_error, str) or not on_error.startswith(TO_TOPIC):
        raise ConfigError(
            f"on_error is 'raise', or '{TO_TOPIC}' with the name of a topic, not {on_error!r}"
        )
    return error_handler(on_error)[1]


class TransactionLimit:
    """Bounds the records of a transaction: it gets none after half of its time, and no more are
    read for it than the last ones let expect. `now` returns seconds. Its time is its timeout, or
    `max_poll_interval_ms` if that is shorter: nothing is polled while it is open."""

    def __init__(
        self,
        max_records: int,
        timeout_ms: int,
        now: Callable[[], float],
        max_poll_interval_ms: int = NEVER_MS,
    ) -> None:
        self.limit = max_records
        """How many records to read for the next transaction."""
        self._max_records = max_records
        self._timeout_s = timeout_ms / 1000
        self._max_poll_interval_s = max_poll_interval_ms / 1000
        self._half_s = min(self._timeout_s, self._max_poll_interval_s) / 2
        self._now = now
        self._began_s = now()

    def begin(self) -> None:
        """Note that a transaction begins."""
        self._began_s = self._now()

    @property
    def is_over(self) -> bool:
        """True if the present transaction is to get no more records."""
        return self._now() - self._began_s >= self._half_s

    def ended(self, count: int) -> None:
        """Note the number of records in the transaction that ends now."""
        took_s, half_s = self._now() - self._began_s, self._half_s
        if took_s >= half_s:
            self.limit = max(1, min(self._max_records, int(count * half_s / took_s)))
        elif took_s < half_s / 2:
            self.limit = min(self._max_records, self.limit * 2)

    def too_slow(self, error: KafkaError) -> KafkaError | None:
        """Return the error that says why this one came, if the transaction took too long."""
        open_s = self._now() - self._began_s
        if error.fatal and open_s >= self._timeout_s:
            return ProducerFenced(
                f"a transaction of process() was open for {open_s:.1f} s, longer than "
                f"transaction.timeout.ms={self._timeout_s * 1000:.0f}, and so the coordinator has "
                f"aborted it. {self._advice('producer', 'transaction_timeout_ms')}",
                error.code,
            )
        if open_s >= self._max_poll_interval_s and may_go_on(error):
            return CommitFailed(
                f"the records of a transaction of process() took {open_s:.1f} s, longer than "
                f"max.poll.interval.ms={self._max_poll_interval_s * 1000:.0f}, and so the group "
                f"has gone on without this member. "
                f"{self._advice('consumer', 'max_poll_interval_ms')}",
                error.code,
            )
        return None

    def _advice(self, client: str, setting: str) -> str:
        return (
            "What to do: give process() a smaller max_records (it would read up to "
            f"{self.limit} next), or a longer time: {client}={{'{setting}': ...}}"
        )


def offsets_after(records: Iterable[Record[Any, Any]]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit for these records."""
    return {
        TopicPartition(each.topic, each.partition): OffsetAndMetadata(
            each.offset + 1, "", each.leader_epoch
        )
        for each in records
    }


class FunctionCall:
    """One record on its way through the function. If that fails, and there is a topic for dead
    letters, the record becomes one; without such a topic the exception is raised, with a note that
    names the record."""

    def __init__(self, raw: Record[bytes, bytes], plan: Plan) -> None:
        self.outcome: list[ProducerRecord] | SerializedRecord = []
        """The records to write; or the dead letter."""
        self._raw = raw
        self._plan = plan
        self._stage = KEY_CONVERTER

    def decoded(self) -> Record[Any, Any]:
        """Return the record that the function gets."""
        raw, plan = self._raw, self._plan
        key = plan.key.decode(raw.topic, raw.headers, raw.key)
        self._stage = VALUE_CONVERTER
        value = plan.value.decode(raw.topic, raw.headers, raw.value)
        self._stage = TRANSFORMATION
        return raw.replace(key=key, value=value)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        topic = self._plan.dead_letter_topic
        if not isinstance(error, Exception) or isinstance(error, ConfigError):
            return False
        if topic is None:
            raw = self._raw
            error.add_note(
                f"The record: {raw.topic}-{raw.partition}, offset {raw.offset}. The next process "
                "of the group reads it again; on_error='dlq:TOPIC' writes such records there."
            )
            return False
        self.outcome = letter_of(self._raw, topic, self._stage, error)
        return True


def outputs_of(
    function: Callable[[Record[Any, Any]], Any], raw: Record[bytes, bytes], plan: Plan
) -> list[ProducerRecord] | SerializedRecord:
    """Return the records to write for a record, or its dead letter. Raises the exceptions of the
    function if there is no topic for dead letters."""
    with FunctionCall(raw, plan) as call:
        record = call.decoded()
        call.outcome = list(records_of(function(record), record, plan.to))
    return call.outcome


async def awaited_outputs_of(
    function: Callable[[Record[Any, Any]], Any], raw: Record[bytes, bytes], plan: Plan
) -> list[ProducerRecord] | SerializedRecord:
    """Return as `outputs_of` does, for a function that may be a coroutine function."""
    with FunctionCall(raw, plan) as call:
        record = call.decoded()
        result = function(record)
        if isinstance(result, Awaitable):
            result = await result
        call.outcome = list(records_of(result, record, plan.to))
    return call.outcome


def records_of(result: Any, record: Record[Any, Any], to: str | None) -> Iterator[ProducerRecord]:
    """Yield the records that a function returned: None for none, a value or a `ProducerRecord`, or
    a list or a generator of those. A value gets the key of the input and goes to the topic `to`.
    Raises `ConfigError` for a value without a topic."""
    several = isinstance(result, (list, Iterator))
    for each in result if several else (result,):
        if isinstance(each, ProducerRecord):
            yield each
        elif each is not None:
            if to is None:
                raise ConfigError(
                    "the function returned a value, and there is no topic for it. What to do: give "
                    "`to`, or return a ProducerRecord"
                )
            yield ProducerRecord(to, each, record.key)


def letter_of(
    record: Record[bytes, bytes], topic: str, stage: str, error: BaseException
) -> SerializedRecord:
    """Return the dead letter of a record: unchanged, with the headers that describe the error."""
    time_ms = record.timestamp_ms
    return SerializedRecord(
        topic,
        ANY_PARTITION,
        time_ms if 0 <= time_ms < MAX_TIMESTAMP else 0,
        record.key,
        record.value,
        encode_headers(described(record, stage, error)),
        None,
    )


def arrow_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the arguments of `send_arrow` for a table with these columns: `key`, `value` and
    `headers` if there are such; without a `value`, a JSON object of all other columns."""
    given = set(names)
    columns: dict[str, str] = {name: name for name in ("key", "headers") if name in given}
    return {**columns, "value": "value" if "value" in given else "json"}


def may_go_on(error: KafkaError) -> bool:
    """True if the same records may succeed in another transaction: this one failed, or the member
    was replaced and its successor reads them."""
    return error.requires_abort or isinstance(error, GroupError | CommitFailed)
